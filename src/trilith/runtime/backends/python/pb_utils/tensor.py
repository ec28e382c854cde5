"""`pb_utils.Tensor`.

Rule: a tensor is a numpy array on the CPU. BF16, which numpy lacks, is its raw 16 bits and leaves by DLPack alone.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from trilith.core.foreign import foreign_text
from trilith.core.tensor import Array, DataType, datatype_of
from trilith.runtime.backends.python.pb_utils.dtypes import type_number
from trilith.runtime.backends.python.pb_utils.errors import TritonModelException

_CPU: Final = 1  # of DLPack's device types


class Tensor:
    """One input or output.

    Args:
        name: of the tensor.
        numpy_array: its values.
        datatype: for arrays that do not tell; models leave it out.

    Raises:
        TritonModelException: the array cannot be a tensor.
    """

    __slots__ = ("_array", "_datatype", "_name")

    def __init__(self, name: str, numpy_array: Array, datatype: DataType | None = None) -> None:
        if type(name) is not str:
            if not isinstance(name, str):
                raise TritonModelException(f"Tensor: the name must be text, got {type(name).__name__}")
            name = foreign_text(name)
        if datatype is None:
            if not isinstance(numpy_array, np.ndarray):
                raise TritonModelException(f"Tensor '{name}': expected a numpy array, got {type(numpy_array).__name__}")
            datatype = _datatype(name, numpy_array)
        self._name = name
        self._array = numpy_array
        self._datatype = datatype

    def name(self) -> str:
        """The name."""
        return self._name

    def as_numpy(self) -> Array:
        """The values. BYTES are an array of dtype object that holds `bytes`.

        Raises:
            TritonModelException: the tensor is BF16, which numpy does not have.
        """
        if self._datatype is DataType.BF16:
            raise TritonModelException("tensor dtype is bf16 and cannot be converted to numpy; use DLPack")
        return self._array

    def triton_dtype(self) -> int:
        """The number of the datatype in Triton's configuration message."""
        return type_number(self._datatype)

    def shape(self) -> list[int]:
        """The shape."""
        return list(self._array.shape)

    def is_cpu(self) -> bool:
        """Whether it is in the CPU's memory: always."""
        return True

    def to_dlpack(self) -> Any:
        """The values as a DLPack capsule, without a copy.

        Raises:
            TritonModelException: DLPack has no such datatype.
        """
        return self.__dlpack__()

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        if self._datatype is DataType.BYTES:
            raise TritonModelException("DLPack does not have support for string tensors.")
        if self._datatype is DataType.BF16:
            return _torch().from_numpy(self._array.view(np.int16)).view(_torch().bfloat16).__dlpack__(**options)
        # numpy does not export what it may not change, and other libraries would not know that they may not either.
        array = self._array if self._array.flags.writeable else self._array.copy()
        return array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_CPU, 0)

    @staticmethod
    def from_dlpack(name: str, tensor: Any) -> Tensor:
        """A tensor from anything that speaks DLPack (or a capsule), without a copy where its memory is contiguous.

        Raises:
            TritonModelException: it cannot be a tensor here, as what lies on a GPU.
        """
        source = tensor if hasattr(tensor, "__dlpack__") else _Capsule(tensor)
        if source.__dlpack_device__()[0] != _CPU:
            raise TritonModelException(f"Tensor '{name}' is not on the CPU; move it there first")
        if str(getattr(tensor, "dtype", "")) == "torch.bfloat16":
            bits = tensor.detach().contiguous().view(_torch().int16).numpy().view(np.uint16)
            return Tensor(name, bits, DataType.BF16)
        try:
            return Tensor(name, np.ascontiguousarray(np.from_dlpack(source)))
        except (BufferError, RuntimeError, TypeError) as error:
            raise TritonModelException(f"Tensor '{name}': cannot be taken over by DLPack: {error}") from error

    @property
    def array(self) -> Array:
        """For the runtime: the values as they travel."""
        return self._array

    @property
    def datatype(self) -> DataType:
        """For the runtime: the protocol datatype."""
        return self._datatype

    def __repr__(self) -> str:
        return f"<Tensor {self._name} {self._datatype} {self.shape()}>"


class _Capsule:
    """A bare capsule as an object that speaks DLPack. Its device cannot be seen; numpy refuses what it cannot take."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_CPU, 0)


def _datatype(name: str, array: Array) -> DataType:
    if array.dtype.kind in "UV":
        raise TritonModelException(
            f"Tensor '{name}': Tensor dtype used for numpy_array is not support by Python backend. Please use "
            "np.object_ instead."
        )
    try:
        return datatype_of(array)
    except TypeError as error:
        raise TritonModelException(f"Tensor '{name}': {error}") from error


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise TritonModelException(f"BF16 tensors need PyTorch, which cannot be imported: {error}") from error
    return torch
