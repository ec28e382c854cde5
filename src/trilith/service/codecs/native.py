"""The encoding between services: a msgpack header, and one raw buffer for each large value.

Rule 1: never pickle. What is none of the known types is an error that names the type and says what to use.
Rule 2: sending copies nothing that is contiguous; what is received are views of the received buffers (read-only ones).
Rule 3: the header says shape and dtype, the annotations of the called method say the class: dataclasses and models
travel as their fields, and are built again where the annotation asks for them.

An extension in the header stands for a buffer: code 1 an array `[buffer, dtype, shape]`, code 2 an image
`[buffer, mode, size]`, code 3 bytes `[buffer]`, code 4 a frame `[buffer, class]`. Buffer 0 is the header itself.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from trilith.errors import InvalidInput

Buffer = bytes | bytearray | memoryview

_ARRAY: Final = 1
_IMAGE: Final = 2
_BYTES: Final = 3
_FRAME: Final = 4
_FRAME_LIBRARIES: Final = ("pandas", "pyarrow")
_INLINE_BYTES: Final = 256  # smaller ones are cheaper inside the header than as a buffer of their own

_encode_place: Final = msgspec.msgpack.Encoder().encode
_decode_place: Final = msgspec.msgpack.Decoder(list).decode


class _Packer:
    """Puts large values aside while msgspec walks over the rest."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = [b""]

    def _aside(self, code: int, raw: Buffer, *rest: Any) -> msgspec.msgpack.Ext:
        self.buffers.append(raw)
        return msgspec.msgpack.Ext(code, _encode_place([len(self.buffers) - 1, *rest]))

    def shallow(self, value: Any) -> Any:
        """Bytes at the top, or in a list or dict at the top, are put aside: msgspec itself would copy them."""
        if isinstance(value, bytes | bytearray | memoryview) and len(value) >= _INLINE_BYTES:
            return self._aside(_BYTES, value)
        if type(value) is list or type(value) is tuple:
            return [self.shallow(item) if isinstance(item, bytes | bytearray | memoryview) else item for item in value]
        return value

    def hook(self, value: Any) -> Any:
        """What msgspec does not know itself."""
        numpy, image = sys.modules.get("numpy"), sys.modules.get("PIL.Image")
        if numpy is not None:
            if isinstance(value, numpy.ndarray):
                from trilith.service.codecs import arrays

                dtype, shape, raw = arrays.to_raw(value)
                return self._aside(_ARRAY, raw, dtype, shape)
            if isinstance(value, numpy.generic) and not isinstance(item := value.item(), numpy.generic):
                return item  # Python has no number as wide as some of numpy's, which are their own item
        if image is not None and isinstance(value, image.Image):
            from trilith.service.codecs import images

            mode, size, pixels, known = images.to_raw(value)
            return self._aside(_IMAGE, pixels, mode, size, known)
        if type(value).__module__.partition(".")[0] in _FRAME_LIBRARIES:
            from trilith.service.codecs import frames

            stream, library = frames.to_ipc(value)
            return self._aside(_FRAME, stream, library)
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            from trilith.service.codecs import tensors

            return self.hook(tensors.plain_array(value))
        if hasattr(type(value), "__pydantic_fields__"):
            from trilith.service.codecs import types

            fields = types.to_builtins(value)
            if isinstance(fields, dict):
                return {key: self.shallow(field) for key, field in fields.items()}
            return self.shallow(fields)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        raise TypeError(_refusal(value))


def _refusal(value: Any) -> str:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, pathlib.PurePath):
        return f"a path ({kind}) means nothing in another process; pass the file's bytes"
    return (
        f"{kind} cannot be sent to another service; use JSON types, dataclasses, pydantic models, numpy arrays, "
        "PIL images or bytes"
    )


def pack(values: Any) -> list[Buffer]:
    """Header and buffers of a value: JSON types, tuples, sets, dates, enums, dataclasses, models, arrays, images ...

    Raises:
        TypeError: it contains something else; the message says what, and what to use.
    """
    packer = _Packer()
    encoder = msgspec.msgpack.Encoder(enc_hook=packer.hook)
    packer.buffers[0] = encoder.encode(packer.shallow(values))
    return packer.buffers


def pack_call(args: Sequence[Any], kwargs: dict[str, Any]) -> list[Buffer]:
    """Header and buffers of the arguments of a call.

    Raises:
        TypeError: an argument cannot be sent.
    """
    packer = _Packer()
    encoder = msgspec.msgpack.Encoder(enc_hook=packer.hook)
    shallow = packer.shallow
    whole = [[shallow(value) for value in args], {name: shallow(value) for name, value in kwargs.items()}]
    packer.buffers[0] = encoder.encode(whole)
    return packer.buffers


def unpack(buffers: Sequence[Buffer]) -> Any:
    """The inverse of `pack`, as builtins, arrays, images and bytes.

    Raises:
        InvalidInput: header and buffers do not fit each other.
    """

    def place(code: int, raw: memoryview) -> Any:
        index, *rest = _decode_place(raw)
        buffer = buffers[index] if isinstance(index, int) and 0 < index < len(buffers) else None
        if buffer is None:
            raise InvalidInput(f"a native call refers to buffer {index!r}; it has {len(buffers)}")
        return _restore(code, buffer, rest)

    if not buffers:
        raise InvalidInput("a native call has a header, got no buffer")
    try:
        return msgspec.msgpack.decode(buffers[0], ext_hook=place)
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError) as error:
        raise InvalidInput(f"a native call could not be read: {error}") from error


def _restore(code: int, buffer: Buffer, rest: list[Any]) -> Any:
    if code == _ARRAY:
        from trilith.service.codecs import arrays

        dtype, shape = rest
        return arrays.from_raw(memoryview(buffer), dtype, tuple(shape))
    if code == _IMAGE:
        from trilith.service.codecs import images

        mode, size, known = rest
        return images.from_raw(memoryview(buffer), mode, size, known)
    if code == _BYTES:
        return bytes(buffer)
    if code == _FRAME:
        from trilith.service.codecs import frames

        [library] = rest
        return frames.from_ipc(memoryview(buffer), library)
    raise InvalidInput(f"a native call has an extension of an unknown code {code}")


def unpack_call(buffers: Sequence[Buffer]) -> tuple[list[Any], dict[str, Any]]:
    """The inverse of `pack_call`.

    Raises:
        InvalidInput: header and buffers do not fit each other.
    """
    whole = unpack(buffers)
    if not isinstance(whole, list) or len(whole) != 2:
        raise InvalidInput("a native call's header is [arguments, keyword arguments]")
    args, kwargs = whole
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise InvalidInput("a native call's header is [arguments, keyword arguments]")
    return args, kwargs
