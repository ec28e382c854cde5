"""Values that JSON has no word for (arrays, frames, images, files): to their JSON form and back, and as they are.

Rule 1: one place knows which codec a kind has; whoever holds a value of a kind asks here.
Rule 2: what `Annotated` asks of a value is looked at here too, whichever way it came.
"""

from __future__ import annotations

import base64
import binascii
import pathlib
from typing import Any, Final

from trilith.errors import InvalidConfig, InvalidInput
from trilith.service.constraints import ContentType, Shape
from trilith.service.kinds import Kind, ValueType

_WANTED: Final = {Kind.IMAGE: "an image", Kind.BYTES: "bytes", Kind.FILE: "a path"}


def schema(one: ValueType) -> dict[str, Any]:
    """The JSON schema of the JSON form of one value."""
    if one.kind is Kind.ARRAY:
        return _nested(one) | {"title": f"array of {one.dtype}" if one.dtype else "array"}
    if one.kind is Kind.FRAME:
        try:
            from trilith.service.codecs import frames
        except ModuleNotFoundError as error:
            raise InvalidConfig(f"frames need pandas and pyarrow ({error}): pip install 'trilith[frames]'") from error
        return frames.schema(one)
    kind = "image/png" if one.kind is Kind.IMAGE else "application/octet-stream"
    if isinstance(one.constraint, ContentType):
        kind = str(one.constraint) if len(one.constraint.patterns) == 1 else kind
    return {"type": "string", "contentEncoding": "base64", "contentMediaType": kind}


_CELLS: Final = {"b": "boolean", "i": "integer", "u": "integer", "f": "number", "U": "string", "M": "string"}


def _nested(one: ValueType) -> dict[str, Any]:
    """Nested lists, as deep and as long as is declared; their cells where their dtype is declared too."""
    if not isinstance(one.constraint, Shape):
        return {"type": "array", "items": {}}
    found: dict[str, Any] = {}
    if one.dtype:
        import numpy as np

        dtype = np.dtype(one.dtype)
        cell = _CELLS.get(dtype.kind)
        found = {} if cell is None else {"type": [cell, "null"] if dtype.kind in "fM" else cell}
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            found |= {"minimum": int(limits.min), "maximum": int(limits.max)}
    for size in reversed(one.constraint.sizes):
        exactly = {"minItems": size, "maxItems": size} if isinstance(size, int) else {}
        found = {"type": "array", "items": found, **exactly}
    return found


def read(value: Any, one: ValueType) -> Any:
    """A value from its JSON form, or from itself (a call in native encoding).

    Raises:
        InvalidInput: it is neither, or not as declared.
    """
    kind = one.kind
    if kind is Kind.ARRAY:
        from trilith.service.codecs import arrays, tensors

        if isinstance(value, list | int | float):
            return tensors.of_nested(arrays.from_nested(value, one.dtype), one)
        return tensors.take(value, one)
    if kind is Kind.FRAME:
        from trilith.service.codecs import frames

        return frames.from_json(value, one) if isinstance(value, list | dict | None) else frames.take(value, one)
    if kind is Kind.FILE:
        if isinstance(value, pathlib.PurePath | bytes):  # of another service's result there is the content alone
            return value
        raise InvalidInput("a file is sent as multipart/form-data, or as the raw body; JSON cannot hold it")
    if kind is Kind.BYTES:
        return _of_type(value, one) if isinstance(value, bytes) else _base64(value, "bytes", one)
    from trilith.service.codecs import images

    return value if images.is_image(value) else images.decode_image(_base64(value, "an image", one))


def _base64(value: Any, wanted: str, one: ValueType) -> Any:
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if not isinstance(value, str):
        raise InvalidInput(f"expected {wanted} as base64 text, got {type(value).__name__}")
    head, _, text = value.partition(",") if value.startswith("data:") else ("", "", value)
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInput(f"expected {wanted} as base64 text: {error}") from error
    return _of_type(raw, one, head.removeprefix("data:").removesuffix(";base64"))


def _of_type(raw: Any, one: ValueType, said: str = "") -> Any:
    """Bytes, when they are of the declared content type, as far as they show it."""
    if isinstance(one.constraint, ContentType):
        from trilith.service.codecs.contents import check_content

        check_content(one.constraint, raw, said=said, silent=True)
    return raw


def take(value: Any, one: ValueType) -> Any:
    """A value that came as one, from another service or from a method.

    Raises:
        InvalidInput: it is of another kind, or not as declared.
    """
    kind = one.kind
    if kind is Kind.ARRAY:
        from trilith.service.codecs import tensors

        return tensors.take(value, one)
    if kind is Kind.FRAME:
        from trilith.service.codecs import frames

        return frames.take(value, one)
    if kind is Kind.IMAGE:
        from trilith.service.codecs import images

        fits = images.is_image(value)
    elif kind is Kind.BYTES:
        fits = isinstance(value, bytes | bytearray | memoryview)
        if fits:
            return _of_type(value, one)
    else:
        fits = isinstance(value, pathlib.PurePath)
    if not fits:
        raise InvalidInput(f"expected {_WANTED[kind]}, got {type(value).__name__}")
    return value


def write(value: Any, one: ValueType) -> Any:
    """The JSON form of a value.

    Raises:
        TypeError: it has none.
    """
    kind = one.kind
    if kind is Kind.ARRAY:
        from trilith.service.codecs import arrays, tensors

        return arrays.to_nested(tensors.plain_array(value))
    if kind is Kind.FRAME:
        from trilith.service.codecs import frames

        return frames.to_json(value, one)
    if kind is Kind.IMAGE:
        from trilith.service.codecs import images

        wanted = one.constraint.exact if isinstance(one.constraint, ContentType) else ""
        return base64.b64encode(images.encode_image(value, wanted or "image/png")[1]).decode()
    if kind is Kind.FILE:
        value = pathlib.Path(value).read_bytes()
    return base64.b64encode(value).decode()
