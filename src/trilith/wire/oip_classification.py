"""The classification extension: an output's greatest values and their classes, as text, instead of the output.

Each element is `VALUE:INDEX` or `VALUE:INDEX:LABEL`, the greatest value first; of equal ones the lowest index. A model
with a batch dimension gives one row of classes for each of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from trilith.core.tensor import Array, DataType
from trilith.errors import InvalidInput
from trilith.wire.oip_tensor import Signature, object_array

MAX_ELEMENTS: Final = 1_000_000
"""Triton's limit on the size of an output that is classified."""
_UNSUPPORTED: Final = frozenset((DataType.BYTES, DataType.BOOL))


def classified(outputs: Mapping[str, Array], classes: Mapping[str, int], signature: Signature) -> dict[str, Array]:
    """The outputs, those in `classes` as BYTES of shape [N], or [rows, N] where the model batches.

    Raises:
        InvalidInput: an output cannot be ordered, or is too large.
    """
    return {
        name: _classes(array, name, classes[name], signature) if name in classes else array
        for name, array in outputs.items()
    }


def _classes(array: Array, name: str, count: int, signature: Signature) -> Array:
    datatype = signature.output_datatype(name, array)
    if datatype in _UNSUPPORTED:
        raise InvalidInput(
            f"class result not available for output due to unsupported type '{datatype}' (output '{name}')"
        )
    if array.size > MAX_ELEMENTS:
        raise InvalidInput(
            f"classification output tensor too large: output '{name}' has {array.size} elements, at most "
            f"{MAX_ELEMENTS} are possible"
        )
    rows, dims = (array.shape[0], array.shape[1:]) if signature.max_batch_size and array.ndim else (1, array.shape)
    values = _numbers(datatype, array).reshape(rows, math.prod(dims))
    count = min(count, values.shape[1])
    labels = signature.labels.get(name, ())
    texts = [_text(row[index], int(index), labels) for row in values for index in _greatest(row, count)]
    return object_array(texts, (rows, count) if signature.max_batch_size else (count,))


def _numbers(datatype: DataType, array: Array) -> Array:
    if datatype is not DataType.BF16:
        return array
    return (np.ascontiguousarray(array).astype(np.uint32) << 16).view(np.float32)


def _greatest(row: Array, count: int) -> Array:
    """The indices of the `count` greatest values, the greatest first; NaN is below everything."""
    ordered = np.where(np.isnan(row), -np.inf, row) if row.dtype.kind == "f" else row
    ascending = np.argsort(ordered[::-1], kind="stable")
    descending: Array = (len(row) - 1 - ascending)[::-1][:count]
    return descending


def _text(value: np.generic, index: int, labels: tuple[str, ...]) -> bytes:
    shown = f"{value:.6f}" if value.dtype.kind == "f" else f"{value}"
    return (f"{shown}:{index}:{labels[index]}" if index < len(labels) else f"{shown}:{index}").encode()
