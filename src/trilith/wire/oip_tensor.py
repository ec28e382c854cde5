"""The data of one tensor as the Open Inference Protocol carries it: shape, raw little-endian bytes, arrays.

Rule 1: a shape that a client sends is checked before any memory is taken for it.
Rule 2: raw bytes become arrays without a copy where alignment allows; such arrays are read-only.
Rule 3: the error texts are Triton's where Triton has one, because its users search for them.
Rule 4: the machine is little-endian, as every one that Trilith runs on.

BYTES elements travel as a 4-byte little-endian length followed by the bytes (the "binary tensor data" extension).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from trilith.core.tensor import DATATYPES, NUMPY_OF, Array, DataType, TensorSpec, datatype_of
from trilith.errors import InvalidInput, ModelError
from trilith.wire.oip_status import JsonTypeError

MAX_DIMENSIONS: Final = 32
"""numpy 1 allows no more."""
MAX_ELEMENTS: Final = 1 << 40
"""No body can hold more; it keeps products of dimensions far from overflow."""

_LENGTH: Final = struct.Struct("<I")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What the codecs must know of a model.

    Attributes:
        model: its name, for messages.
        inputs: specs by name; shapes include the batch dimension.
        outputs: specs by name.
        max_batch_size: 0 when the model does not batch.
        labels: what the classes of an output are called, by the output's name.
    """

    model: str
    inputs: Mapping[str, TensorSpec] = field(default_factory=dict)
    outputs: Mapping[str, TensorSpec] = field(default_factory=dict)
    max_batch_size: int = 0
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        model: str,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        max_batch_size: int = 0,
        labels: Mapping[str, tuple[str, ...]] | None = None,
    ) -> Signature:
        """Builds one from the specs in order."""
        return cls(
            model=model,
            inputs={spec.name: spec for spec in inputs},
            outputs={spec.name: spec for spec in outputs},
            max_batch_size=max_batch_size,
            labels=labels or {},
        )

    def output_datatype(self, name: str, array: Array) -> DataType:
        """The protocol datatype of an output: the declared one (BF16 and UINT16 look alike), else the array's.

        Raises:
            ModelError: the array's dtype has no protocol name.
        """
        spec = self.outputs.get(name)
        if spec is not None and NUMPY_OF[spec.datatype] == array.dtype:
            return spec.datatype
        try:
            return datatype_of(array)
        except TypeError as error:
            raise ModelError(f"output '{name}' of model '{self.model}': {error}") from error


def checked_datatype(signature: Signature, name: str, datatype: object) -> DataType:
    """The datatype that a request names for input `name`.

    Raises:
        InvalidInput: no such datatype, or not the one that the model declares.
    """
    if not isinstance(datatype, str):
        raise JsonTypeError("datatype", "string", f" (input '{name}')")
    known = DATATYPES.get(datatype)
    if known is None:
        raise unknown_datatype(f"input '{name}' for model '{signature.model}'", datatype)
    spec = signature.inputs.get(name)
    if spec is not None and spec.datatype is not known:
        raise InvalidInput(
            f"inference input '{name}' data-type is '{known}', but model '{signature.model}' expects '{spec.datatype}'"
        )
    return known


def unknown_datatype(where: str, word: str) -> InvalidInput:
    """The error for a datatype that there is not."""
    return InvalidInput(f"{where}: datatype must be one of {', '.join(DATATYPES)}; got {word!r:.40}")


def checked_count(name: str, shape: Sequence[object]) -> int:
    """The number of elements of a shape that a client sent.

    Raises:
        InvalidInput: a dimension is no integer >= 0, there are too many, or the product is beyond any body.
    """
    if len(shape) > MAX_DIMENSIONS:
        raise InvalidInput(f"input '{name}': shape has {len(shape)} dimensions, at most {MAX_DIMENSIONS} are possible")
    count = extent = 1
    for dimension in shape:
        if type(dimension) is not int or dimension < 0:
            raise JsonTypeError(
                "shape",
                "unsigned-integer",
                f" (input '{name}': every dimension must be an integer >= 0, got {dimension!r:.40})",
            )
        count *= dimension
        extent *= dimension or 1
        if extent > MAX_ELEMENTS:
            raise InvalidInput(
                f"input '{name}': shape {list(shape)!s:.200} causes total element count to exceed maximum size of "
                f"{MAX_ELEMENTS}"
            )
    return count


def array_from_raw(
    signature: Signature, name: str, datatype: DataType, shape: tuple[int, ...], count: int, raw: bytes | memoryview
) -> Array:
    """An input tensor of `shape` from its raw bytes; read-only, and without a copy where it is aligned.

    Args:
        signature: of the model, for messages.
        name: the input.
        datatype: its datatype.
        shape: its shape, checked.
        count: the number of elements, `checked_count(name, shape)`.
        raw: little-endian elements in row-major order.

    Raises:
        InvalidInput: the number of bytes does not fit shape and datatype.
    """
    if datatype is DataType.BYTES:
        return bytes_from_raw(signature, name, shape, count, raw)
    dtype = NUMPY_OF[datatype]
    if len(raw) != count * dtype.itemsize:
        raise InvalidInput(
            f"input byte size mismatch for input '{name}' for model '{signature.model}'. "
            f"Expected {count * dtype.itemsize}, got {len(raw)}"
        )
    if count == 0:
        return np.empty(shape, dtype)
    if datatype is DataType.BOOL:
        # Any byte but 0 and 1 would be an invalid numpy bool, which some operations take for both true and false.
        truth: Array = np.frombuffer(raw, np.uint8) != 0
        return truth.reshape(shape)
    array: Array = np.frombuffer(raw, dtype)
    if not array.flags.aligned:
        array = array.copy()
    return array.reshape(shape)


def bytes_from_raw(
    signature: Signature, name: str, shape: tuple[int, ...], count: int, raw: bytes | memoryview
) -> Array:
    """A BYTES input (dtype object, elements `bytes`) from its length-prefixed form.

    Raises:
        InvalidInput: a length points past the end, or the number of elements is not that of the shape.
    """
    model = signature.model
    elements: list[bytes] = []
    offset, size = 0, len(raw)
    while offset < size:
        if len(elements) == count:
            raise InvalidInput(
                f"unexpected number of string elements {count + 1} for inference input '{name}' for model '{model}', "
                f"expecting {count}"
            )
        if size - offset < 4:
            raise InvalidInput(
                f"incomplete string length indicator for inference input '{name}' for model '{model}', expecting 4 "
                f"bytes but only {size - offset} bytes available"
            )
        (length,) = _LENGTH.unpack_from(raw, offset)
        offset += 4
        if length > size - offset:
            raise InvalidInput(
                f"incomplete string data for inference input '{name}' for model '{model}', expecting string of length "
                f"{length} but only {size - offset} bytes available"
            )
        elements.append(bytes(raw[offset : offset + length]))
        offset += length
    if len(elements) != count:
        raise InvalidInput(
            f"expected {count} string elements for inference input '{name}' for model '{model}', got {len(elements)}"
        )
    return object_array(elements, shape)


def object_array(elements: Sequence[Any], shape: tuple[int, ...]) -> Array:
    """`elements` in row-major order as an array of dtype object."""
    array = np.empty(len(elements), np.object_)
    array[:] = elements
    return array.reshape(shape)


def raw_from_array(signature: Signature, name: str, datatype: DataType, array: Array) -> memoryview | bytes:
    """An output tensor's raw bytes: for BYTES a new bytes object, else a view of the array where its memory is so.

    The answer is a C-contiguous little-endian buffer: `memoryview`, `b"".join` and `write` all take it.

    Raises:
        ModelError: a BYTES element is neither bytes nor str.
    """
    if datatype is DataType.BYTES:
        parts: list[bytes] = []
        for element in byte_elements(signature, name, array):
            parts.append(_LENGTH.pack(len(element)))
            parts.append(element)
        return b"".join(parts)
    return native(array).data


def native(array: Array) -> Array:
    """The array in C order and little-endian byte order; itself when it is so already."""
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _utf8(signature: Signature, name: str, element: str) -> bytes:
    try:
        return element.encode()
    except UnicodeEncodeError as error:
        raise ModelError(
            f"output '{name}' of model '{signature.model}': an element of BYTES is no text: {error.reason}"
        ) from error


def byte_elements(signature: Signature, name: str, array: Array) -> list[bytes]:
    """The elements of a BYTES output in row-major order; text becomes UTF-8.

    Raises:
        ModelError: an element is neither bytes nor text.
    """
    elements: list[bytes] = []
    for element in array.ravel().tolist():
        if isinstance(element, bytes):
            elements.append(element)
        elif isinstance(element, str):
            elements.append(_utf8(signature, name, element))
        else:
            raise ModelError(
                f"output '{name}' of model '{signature.model}': elements of BYTES must be bytes or str, "
                f"got {type(element).__name__}"
            )
    return elements
