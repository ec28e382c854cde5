"""Datatypes as models name them: `TYPE_FP32`, or a number of Triton's configuration message."""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np

from trilith.core.tensor import NUMPY_OF, Array, DataType
from trilith.runtime.backends.python.pb_utils.errors import TritonModelException

_NUMBERS: Final = {
    DataType.BOOL: 1,
    DataType.UINT8: 2,
    DataType.UINT16: 3,
    DataType.UINT32: 4,
    DataType.UINT64: 5,
    DataType.INT8: 6,
    DataType.INT16: 7,
    DataType.INT32: 8,
    DataType.INT64: 9,
    DataType.FP16: 10,
    DataType.FP32: 11,
    DataType.FP64: 12,
    DataType.BYTES: 13,
}
_BF16: Final = 14  # which numpy does not have
TRITON_STRING_TO_NUMPY: Final[dict[str, Any]] = {
    f"TYPE_{'STRING' if datatype is DataType.BYTES else datatype}": NUMPY_OF[datatype].type for datatype in _NUMBERS
}
_LENGTH: Final = struct.Struct("<I")


def type_number(datatype: DataType) -> int:
    """The number of a datatype in Triton's configuration message."""
    return _NUMBERS.get(datatype, _BF16)


def triton_string_to_numpy(triton_type_string: str) -> Any:
    """The numpy type of a configuration's `data_type`: `TYPE_FP32` gives `numpy.float32`.

    Raises:
        TritonModelException: there is none, as for TYPE_BF16.
    """
    found = TRITON_STRING_TO_NUMPY.get(triton_type_string)
    if found is None:
        known = ", ".join(TRITON_STRING_TO_NUMPY)
        raise TritonModelException(f"there is no numpy type for {triton_type_string!r}; known are {known}")
    return found


def triton_to_numpy_type(data_type: int) -> Any:
    """The numpy type of a data type's number in Triton's configuration message; None for no such number."""
    return next((NUMPY_OF[datatype].type for datatype, number in _NUMBERS.items() if number == data_type), None)


def numpy_to_triton_type(data_type: Any) -> int | None:
    """The number of a numpy type in Triton's configuration message; None for a type without one."""
    try:
        dtype = np.dtype(data_type)
    except TypeError:
        return None
    if dtype.kind == "S":
        return _NUMBERS[DataType.BYTES]
    return next((number for datatype, number in _NUMBERS.items() if NUMPY_OF[datatype] == dtype), None)


def serialize_byte_tensor(input_tensor: Array) -> bytes | None:
    """A BYTES tensor as each element's 4-byte little-endian length and its bytes; None for an empty one or no BYTES."""
    if input_tensor.size == 0 or input_tensor.dtype.kind not in "OS":
        return None
    parts: list[bytes] = []
    for element in input_tensor.ravel().tolist():
        raw = element if isinstance(element, bytes) else str(element).encode()
        parts += (_LENGTH.pack(len(raw)), raw)
    return b"".join(parts)


def deserialize_bytes_tensor(encoded_tensor: bytes) -> Array:
    """The inverse of `serialize_byte_tensor`, in one dimension.

    Raises:
        TritonModelException: a length points past the end.
    """
    elements: list[bytes] = []
    at, size = 0, len(encoded_tensor)
    while at < size:
        end = at + 4 + (_LENGTH.unpack_from(encoded_tensor, at)[0] if size - at >= 4 else size)
        if end > size:
            raise TritonModelException(f"an encoded BYTES tensor of {size} bytes ends in the middle of an element")
        elements.append(bytes(encoded_tensor[at + 4 : end]))
        at = end
    found = np.empty(len(elements), np.object_)
    found[:] = elements
    return found
