"""The tensor datatypes of the Open Inference Protocol, and what numpy calls them.

Rule: a tensor inside Trilith is a `numpy.ndarray`. BYTES are arrays of dtype object holding `bytes`. BF16 has no numpy
dtype of its own: it travels as its raw 16 bits in `uint16`, and the datatype in the model's signature says which it is.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class DataType(enum.StrEnum):
    """A datatype by its protocol name."""

    BOOL = "BOOL"
    UINT8 = "UINT8"
    UINT16 = "UINT16"
    UINT32 = "UINT32"
    UINT64 = "UINT64"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FP16 = "FP16"
    FP32 = "FP32"
    FP64 = "FP64"
    BF16 = "BF16"
    BYTES = "BYTES"


NUMPY_OF: Final[dict[DataType, np.dtype[Any]]] = {
    DataType.BOOL: np.dtype(np.bool_),
    DataType.UINT8: np.dtype(np.uint8),
    DataType.UINT16: np.dtype(np.uint16),
    DataType.UINT32: np.dtype(np.uint32),
    DataType.UINT64: np.dtype(np.uint64),
    DataType.INT8: np.dtype(np.int8),
    DataType.INT16: np.dtype(np.int16),
    DataType.INT32: np.dtype(np.int32),
    DataType.INT64: np.dtype(np.int64),
    DataType.FP16: np.dtype(np.float16),
    DataType.FP32: np.dtype(np.float32),
    DataType.FP64: np.dtype(np.float64),
    DataType.BF16: np.dtype(np.uint16),
    DataType.BYTES: np.dtype(np.object_),
}

DATATYPES: Final[dict[str, DataType]] = {str(datatype): datatype for datatype in DataType}
"""Every datatype by its protocol name."""

_DATATYPE_OF: Final[dict[np.dtype[Any], DataType]] = {
    dtype: datatype for datatype, dtype in NUMPY_OF.items() if datatype is not DataType.BF16
}


def datatype_of(array: Array) -> DataType:
    """The protocol datatype of a numpy array.

    Raises:
        TypeError: the dtype (complex, datetime, structured ...) has no protocol name.
    """
    if array.dtype.kind in "SU":
        return DataType.BYTES
    try:
        return _DATATYPE_OF[array.dtype.newbyteorder("=")]
    except KeyError:
        known = ", ".join(sorted(str(dtype) for dtype in _DATATYPE_OF))
        raise TypeError(f"a tensor's dtype must be one of {known}; got {array.dtype}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """What a model declares of one input or output.

    Attributes:
        name: the tensor's name.
        datatype: protocol datatype.
        shape: the full shape, batch dimension included where the model batches; -1 is any size.
    """

    name: str
    datatype: DataType
    shape: tuple[int, ...]
