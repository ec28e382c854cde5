"""Arrays, frames, images and files: in a field of bytes, in a list of numbers, or as messages of their own.

    bytes                                           content of an image, frame or file; the numbers of an array by rows
    repeated float (or another number)              an array of one dimension
    message { string dtype; repeated int64 shape; bytes data; }          an array: a tensor
    message { bytes content; string content_type; [string name;] }       an image, frame or file

Numbers in bytes are little endian, which is what numpy has on every machine that this runs on.
"""

from __future__ import annotations

import mimetypes
import pathlib
from typing import TYPE_CHECKING, Any, Final

from trilith.errors import InvalidInput
from trilith.service.codecs import media
from trilith.service.codecs.files import RequestFolder
from trilith.service.codecs.parts import read_part
from trilith.service.proto.conversion import Conversion, Unlike, bare
from trilith.service.signature import Kind, ValueType, array_dtype, kind_of, read_type

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

_DTYPES: Final = {
    **{1: "float64", 2: "float32", 3: "int64", 4: "uint64", 5: "int32", 6: "uint64", 7: "uint32", 8: "bool"},
    **{13: "uint32", 15: "int32", 16: "int64", 17: "int32", 18: "int64"},
}
_BYTES: Final = 12
_FILES: Final = frozenset({Kind.IMAGE, Kind.FILE, Kind.FRAME})
_TENSOR: Final = {"dtype": 9, "shape": 3, "data": _BYTES}
_FILE: Final = {"content": _BYTES, "content_type": 9}
_NAMED_FILE: Final = {**_FILE, "name": 9}


def in_bytes(annotation: Any, field: FieldDescriptor) -> Conversion | None:
    """The conversion of an array, image or file in a field of bytes; None: the annotation is none of these.

    Raises:
        Unlike: the field is of another type.
    """
    kind = kind_of(annotation)
    if kind in (Kind.JSON, Kind.BYTES):
        return None
    if field.type != _BYTES:
        raise Unlike
    if kind in _FILES:
        one = read_type(annotation)
        return Conversion(
            read=lambda value, folder: read_part(one, value, folder=folder),
            write=lambda value: _file_of(one, value)[0],
            sure=True,
        )
    dtype = array_dtype(bare(annotation))
    if not dtype:
        raise Unlike("bytes do not say of which dtype they are; annotate NDArray[np.float32], say")
    return Conversion(
        read=lambda value, folder: _numbers_of_bytes(value, dtype),
        write=lambda value: value.tobytes(),
        sure=_unasked(annotation),
    )


def numbers(annotation: Any, field: FieldDescriptor) -> Conversion:
    """The conversion of an array in a list of numbers.

    Raises:
        Unlike: the list has no numbers, or others than the annotation says.
    """
    listed = _DTYPES.get(field.type)
    dtype = array_dtype(bare(annotation)) or listed
    if listed is None or dtype is None:
        raise Unlike

    def read(value: Any, folder: RequestFolder | None) -> Any:
        import numpy as np

        from trilith.service.codecs import arrays

        return arrays.check_array(np.array(value, listed), dtype)

    def write(value: Any) -> Any:
        if value.ndim != 1:
            raise TypeError(f"an array of {value.ndim} dimensions cannot be a list; make it one of one dimension")
        return value.tolist()

    return Conversion(read=read, write=write, sure=_unasked(annotation))


def as_message(annotation: Any, descriptor: Descriptor) -> Conversion | None:
    """The conversion of an array, image or file and a message; None: the annotation is none of these.

    Raises:
        Unlike: the message is neither a tensor nor a file.
    """
    kind = kind_of(annotation)
    if kind in (Kind.JSON, Kind.BYTES):
        return None
    fields = {field.name: field.type for field in descriptor.fields}
    if kind is Kind.ARRAY:
        if fields != _TENSOR:
            raise Unlike("an array is a message with string dtype, repeated int64 shape and bytes data")
        dtype = array_dtype(bare(annotation))
        sure = _unasked(annotation)
        return Conversion(read=lambda value, folder: _tensor(value, dtype), write=_tensor_fields, sure=sure)
    if fields not in (_FILE, _NAMED_FILE):
        raise Unlike("a file is a message with bytes content and string content_type")
    named, one = fields == _NAMED_FILE, read_type(annotation)

    def read(value: Any, folder: RequestFolder | None) -> Any:
        name = value.name if named else None
        return read_part(one, value.content, filename=name or None, content_type=value.content_type, folder=folder)

    def write(value: Any) -> dict[str, Any]:
        content, content_type, name = _file_of(one, value)
        said = {"content": content, "content_type": content_type}
        return said | {"name": name} if named else said

    return Conversion(read=read, write=write, sure=True)


def _unasked(annotation: Any) -> bool:
    """Whether `Annotated` asks nothing of the value: else the annotation's validator has a look."""
    one = read_type(annotation)
    return one.constraint is None and not one.metadata


def _file_of(one: ValueType, value: Any) -> tuple[bytes, str, str]:
    """The content, content type and name of an image, frame or file."""
    if one.kind is Kind.IMAGE:
        from trilith.service.codecs import images

        content_type, content = images.encode_image(value)
        return content, content_type, ""
    if one.kind is Kind.FRAME:
        from trilith.service.codecs import frames

        return frames.to_ipc(value)[0], media.ARROW, ""
    path = pathlib.Path(value)
    return path.read_bytes(), mimetypes.guess_type(path.name)[0] or media.BINARY, path.name


def _numbers_of_bytes(content: bytes, dtype: str) -> Any:
    import numpy as np

    kind = np.dtype(dtype)
    if len(content) % kind.itemsize:
        raise InvalidInput(
            f"expected {kind.itemsize} bytes a number, as many as {dtype} takes, got {len(content)} bytes"
        )
    return np.frombuffer(bytearray(content), kind)  # a copy: the method may write to it


def _tensor(value: Any, dtype: str) -> Any:
    from trilith.service.codecs import arrays

    own = memoryview(bytearray(value.data))
    return arrays.check_array(arrays.from_raw(own, value.dtype, tuple(value.shape)), dtype)


def _tensor_fields(value: Any) -> dict[str, Any]:
    import numpy as np

    from trilith.service.codecs import arrays

    dtype, shape, raw = arrays.to_raw(value)
    kind = np.dtype(dtype)
    named = kind.name if kind.kind in "biufc" and kind.isnative else dtype
    return {"dtype": named, "shape": shape, "data": bytes(raw)}
