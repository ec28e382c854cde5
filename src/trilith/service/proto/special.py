"""Arrays, images and files: in a field of bytes, in a list of numbers, or as messages of their own.

    bytes                                           an image's or a file's content; the numbers of an array, row by row
    repeated float (or another number)              an array of one dimension
    message { string dtype; repeated int64 shape; bytes data; }          an array: a tensor
    message { bytes content; string content_type; [string name;] }       an image or a file

Numbers in bytes are little endian, which is what numpy has on every machine that this runs on.
"""

from __future__ import annotations

import mimetypes
import pathlib
from typing import TYPE_CHECKING, Any, Final

from trilith.errors import InvalidInput
from trilith.service.codecs.files import RequestFolder
from trilith.service.proto.conversion import Conversion, Unlike, bare
from trilith.service.signature import Kind, array_dtype, kind_of

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

_DTYPES: Final = {
    **{1: "float64", 2: "float32", 3: "int64", 4: "uint64", 5: "int32", 6: "uint64", 7: "uint32", 8: "bool"},
    **{13: "uint32", 15: "int32", 16: "int64", 17: "int32", 18: "int64"},
}
_BYTES: Final = 12
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
    if kind is Kind.IMAGE:
        return Conversion(read=lambda value, folder: _image(value), write=_image_file, sure=True)
    if kind is Kind.FILE:
        return Conversion(read=lambda value, folder: _saved(value, folder, "", ""), write=_content, sure=True)
    dtype = array_dtype(bare(annotation))
    if not dtype:
        raise Unlike("bytes do not say of which dtype they are; annotate NDArray[np.float32], say")
    return Conversion(
        read=lambda value, folder: _numbers_of_bytes(value, dtype), write=lambda value: value.tobytes(), sure=True
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

    return Conversion(read=read, write=write, sure=True)


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
        return Conversion(read=lambda value, folder: _tensor(value, dtype), write=_tensor_fields, sure=True)
    if fields not in (_FILE, _NAMED_FILE):
        raise Unlike("a file is a message with bytes content and string content_type")
    if kind is Kind.IMAGE:
        return Conversion(read=lambda value, folder: _image(value.content), write=_image_fields, sure=True)
    named = fields == _NAMED_FILE

    def read(value: Any, folder: RequestFolder | None) -> pathlib.Path:
        return _saved(value.content, folder, value.name if named else "", value.content_type)

    def write(value: Any) -> dict[str, Any]:
        guessed = mimetypes.guess_type(pathlib.Path(value).name)[0] or "application/octet-stream"
        said = {"content": _content(value), "content_type": guessed}
        return said | {"name": pathlib.Path(value).name} if named else said

    return Conversion(read=read, write=write, sure=True)


def _image(content: bytes) -> Any:
    from trilith.service.codecs import images

    return images.decode_image(content)


def _image_file(value: Any) -> bytes:
    return bytes(_image_fields(value)["content"])


def _image_fields(value: Any) -> dict[str, Any]:
    from trilith.service.codecs import images

    content_type, content = images.encode_image(value)
    return {"content": content, "content_type": content_type}


def _saved(content: bytes, folder: RequestFolder | None, name: str, content_type: str) -> pathlib.Path:
    return (RequestFolder() if folder is None else folder).save(content, name or None, content_type)


def _content(value: Any) -> bytes:
    return pathlib.Path(value).read_bytes()


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
