"""How requests whose tensors differ in shape are joined to one batch: values, and the arithmetic of lengths.

Rule 1: an axis counts the dimensions as `dims` does: without the batch dimension. Negative ones count from the end.
Rule 2: nothing here touches an array; `collation.py` does.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from trilith.core.tensor import DataType
from trilith.errors import InvalidConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Padding:
    """How an input is made longer along one axis, so that requests of different lengths may share a batch.

    Attributes:
        axis: which dimension.
        value: what it is filled with.
        buckets: the lengths to fill to, ascending; a longer request keeps its own length.
        multiple_of: instead of `buckets`: lengths are filled to multiples of this; 0 for none.
            Without either, all lengths share batches, filled to the longest in them.
        mask: name of an input of the model that is made: [rows, length], 1 where own data is; "" for none.
        lengths: name of an input of the model that is made: [rows], each row's own length; "" for none.
    """

    axis: int
    value: float = 0
    buckets: tuple[int, ...] = ()
    multiple_of: int = 0
    mask: str = ""
    lengths: str = ""

    def __post_init__(self) -> None:
        if list(self.buckets) != sorted(set(self.buckets)) or any(bucket < 1 for bucket in self.buckets):
            raise InvalidConfig(f"pad.buckets: must be lengths >= 1 in ascending order, got {list(self.buckets)}")
        if self.multiple_of < 0 or (self.multiple_of and self.buckets):
            raise InvalidConfig("pad.multiple_of: must be >= 0, and stands instead of `buckets`, not beside them")
        if self.mask and self.mask == self.lengths:
            raise InvalidConfig(f"pad: mask and lengths must be different inputs, got {self.mask!r} for both")

    def bucket(self, length: int) -> int:
        """The length that all requests of a batch with this one are filled to; -1 for the longest among them."""
        if self.multiple_of:
            return max(1, -(-length // self.multiple_of)) * self.multiple_of
        if self.buckets:
            return next((bucket for bucket in self.buckets if bucket >= length), length)
        return -1

    def key(self, dims: tuple[int, ...]) -> tuple[int, ...]:
        """The dims that requests must share to be joined: those given, with the bucket in place of the length."""
        axis = self.axis % len(dims)
        return (*dims[:axis], self.bucket(dims[axis]), *dims[axis + 1 :])

    @property
    def generated(self) -> tuple[str, ...]:
        """The names of the inputs that are made."""
        return tuple(name for name in (self.mask, self.lengths) if name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpadding:
    """How an output of padded inputs is cut back.

    Attributes:
        axis: which dimension of the output.
        input: the padded input whose own length it follows.
        divide_by: the output has one element for so many of the input's; a begun one counts.
    """

    axis: int
    input: str
    divide_by: int = 1

    def length(self, length: int) -> int:
        """How much of the output belongs to a request of this own length."""
        return -(-length // self.divide_by)


class BatchInputKind(enum.StrEnum):
    """What an input that is computed from a batch says; the words are Triton's."""

    ELEMENT_COUNT = "BATCH_ELEMENT_COUNT"
    ACCUMULATED_ELEMENT_COUNT = "BATCH_ACCUMULATED_ELEMENT_COUNT"
    ACCUMULATED_ELEMENT_COUNT_WITH_ZERO = "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO"
    MAX_ELEMENT_COUNT_AS_SHAPE = "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE"
    ITEM_SHAPE = "BATCH_ITEM_SHAPE"
    ITEM_SHAPE_FLATTEN = "BATCH_ITEM_SHAPE_FLATTEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchInput:
    """An input of the model that the runtime computes from the requests of a batch.

    Attributes:
        kind: what it says.
        targets: the inputs that get it.
        source: the input that it speaks of.
        datatype: the protocol datatype that it has.
    """

    kind: BatchInputKind
    targets: tuple[str, ...]
    source: str
    datatype: DataType = DataType.FP32


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOutput:
    """Outputs whose elements, for all requests one after the other, are told apart by an input's shapes.

    Attributes:
        targets: the outputs.
        source: the input. A free dimension of the output is as long as the same dimension of it.
    """

    targets: tuple[str, ...]
    source: str


def batch_input_values(
    kind: BatchInputKind, shapes: Sequence[tuple[int, ...]]
) -> tuple[Sequence[int], tuple[int, ...]]:
    """The values of a batch input, flat, and its shape, from the source's shape in each request.

    Shapes include the batch dimension, and element counts are of whole requests: as in Triton's backends.
    """
    counts = [_product(shape) for shape in shapes]
    if kind is BatchInputKind.ELEMENT_COUNT:
        return counts, (len(counts),)
    if kind is BatchInputKind.MAX_ELEMENT_COUNT_AS_SHAPE:
        return [0] * max(counts), (max(counts),)
    if kind in (BatchInputKind.ITEM_SHAPE, BatchInputKind.ITEM_SHAPE_FLATTEN):
        rows = [shape[1:] for shape in shapes for _ in range(shape[0])]
        flat = [length for row in rows for length in row]
        return flat, (len(rows), len(shapes[0]) - 1) if kind is BatchInputKind.ITEM_SHAPE else (len(flat),)
    sums = [0] if kind is BatchInputKind.ACCUMULATED_ELEMENT_COUNT_WITH_ZERO else []
    total = 0
    for count in counts:
        total += count
        sums.append(total)
    return sums, (len(sums),)


def _product(shape: tuple[int, ...]) -> int:
    product = 1
    for length in shape:
        product *= length
    return product
