"""Joining requests whose tensors differ in shape, and telling their outputs apart again. For models that ask for it.

Rule 1: a model with nothing optional, padded or ragged never comes here; `execution.py` joins it in two lines.
Rule 2: what waits in one lane fits together: same inputs given, same buckets. Nothing is checked again.
Rule 3: arrays come in with their batch dimension where the model has one (`skip`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilith.core.tensor import NUMPY_OF, Array
from trilith.errors import ModelError
from trilith.runtime.joining import BatchOutput, Padding, batch_input_values
from trilith.runtime.signature import Offer
from trilith.runtime.spec import ModelSpec
from trilith.runtime.ticket import Ticket


class Collation:
    """How the tensors of one model are joined.

    Args:
        spec: what is padded, ragged, computed and scattered.
        offer: the tensors that clients see, and those that are made here.
    """

    __slots__ = (
        "_batch_inputs",
        "_generated",
        "_model",
        "_names",
        "_outputs",
        "_pads",
        "_ragged",
        "_scattered",
        "_skip",
        "_unpads",
    )

    def __init__(self, spec: ModelSpec, offer: Offer) -> None:
        self._model = spec.name
        self._skip = 1 if offer.max_batch_size else 0
        self._names = tuple(tensor.name for tensor in offer.inputs)
        self._ragged = frozenset(tensor.name for tensor in spec.inputs if tensor.ragged)
        self._pads = {tensor.name: tensor.pad for tensor in spec.inputs if tensor.pad is not None}
        self._unpads = {tensor.name: tensor.unpad for tensor in spec.outputs if tensor.unpad is not None}
        self._batch_inputs = spec.batch_inputs
        self._scattered = {name: output for output in spec.batch_outputs for name in output.targets}
        self._generated = {tensor.name: tensor for tensor in offer.generated}
        self._outputs = {tensor.name: tensor for tensor in offer.outputs}

    @staticmethod
    def needed(spec: ModelSpec) -> bool:
        """Whether a model asks for any of this."""
        return bool(spec.batch_inputs or spec.batch_outputs) or any(
            tensor.optional or tensor.ragged or tensor.pad is not None or tensor.unpad is not None
            for tensor in (*spec.inputs, *spec.outputs)
        )

    def keeps_rows(self, output: str) -> bool:
        """Whether the output's first dimension must be that of the batch."""
        return output not in self._scattered

    def join(self, tickets: Sequence[Ticket]) -> dict[str, Array]:
        """The inputs of the batch: those that the requests gave, and those that are made of them."""
        joined: dict[str, Array] = {}
        for at, name in enumerate(self._given(tickets[0])):
            parts = [ticket.admitted.arrays[at] for ticket in tickets]
            if name in self._ragged:
                joined[name] = np.concatenate([part.reshape(-1) for part in parts])
            elif name in self._pads:
                joined.update(self._pad(name, self._pads[name], parts))
            else:
                joined[name] = np.concatenate(parts) if len(parts) > 1 else np.ascontiguousarray(parts[0])
        for batch_input in self._batch_inputs:
            shapes = [shape for ticket in tickets if (shape := self._shape(ticket, batch_input.source)) is not None]
            if shapes:
                values, shape = batch_input_values(batch_input.kind, shapes)
                made = np.array(values, NUMPY_OF[batch_input.datatype]).reshape(shape)
                joined.update(dict.fromkeys(batch_input.targets, made))
        return joined

    def part(self, tickets: Sequence[Ticket], outputs: dict[str, Array]) -> list[dict[str, Array]]:
        """Each request's outputs, as views of the batch's.

        Raises:
            ModelError: a scattered output has another number of elements than the requests' shapes say.
        """
        starts = dict.fromkeys(self._scattered, 0)
        parts: list[dict[str, Array]] = []
        first = 0
        for ticket in tickets:
            own: dict[str, Array] = {}
            for name, array in outputs.items():
                if name in self._scattered:
                    own[name] = self._scatter(name, self._scattered[name], array, starts, ticket)
                else:
                    rows = array[first : first + ticket.rows] if self._skip else array
                    own[name] = self._unpad(name, rows, ticket)
            wanted = ticket.request.outputs
            parts.append({name: own[name] for name in wanted} if wanted else own)
            first += ticket.rows
        for name, start in starts.items():
            if name in outputs and start != outputs[name].size:
                raise self._wrong_scatter(name, outputs[name].size)
        return parts

    def _given(self, ticket: Ticket) -> tuple[str, ...]:
        names = ticket.admitted.names
        return self._names if names is None else names

    def _shape(self, ticket: Ticket, name: str) -> tuple[int, ...] | None:
        names = self._given(ticket)
        if name not in names:
            return None
        shape: tuple[int, ...] = ticket.admitted.arrays[names.index(name)].shape
        return shape

    def _pad(self, name: str, padding: Padding, parts: Sequence[Array]) -> dict[str, Array]:
        dims = parts[0].shape[self._skip :]
        axis = self._skip + padding.axis % len(dims)
        lengths = [part.shape[axis] for part in parts]
        bucket = padding.bucket(max(lengths))
        length = max(lengths) if bucket < 0 else bucket
        rows = sum(part.shape[0] for part in parts) if self._skip else 1
        made: dict[str, Array] = {}
        if len(parts) == 1 and lengths[0] == length:
            made[name] = np.ascontiguousarray(parts[0])
        else:
            shape = list(parts[0].shape)
            shape[axis] = length
            if self._skip:
                shape[0] = rows
            whole = np.full(shape, _filler(padding.value, parts[0].dtype), parts[0].dtype)
            first = 0
            for part in parts:
                place: list[Any] = [slice(None)] * len(shape)
                place[axis] = slice(part.shape[axis])
                if self._skip:
                    place[0] = slice(first, first + part.shape[0])
                    first += part.shape[0]
                whole[tuple(place)] = part
            made[name] = whole
        if padding.generated:
            own = np.repeat(lengths, [part.shape[0] for part in parts]) if self._skip else np.array(lengths)
            if padding.mask:
                made[padding.mask] = self._made(padding.mask, np.arange(length) < own[:, None])
            if padding.lengths:
                made[padding.lengths] = self._made(padding.lengths, own)
        return made

    def _made(self, name: str, array: Array) -> Array:
        """The array in the datatype that the model wants, and in its rank where that is only a matter of ones."""
        wanted = self._generated.get(name)
        if wanted is None:
            return array.astype(np.int64)
        array = array.astype(NUMPY_OF[wanted.datatype])
        if not self._skip and len(wanted.shape) < array.ndim:
            array = array[0]
        return array[:, None] if len(wanted.shape) == array.ndim + 1 else array

    def _unpad(self, name: str, rows: Array, ticket: Ticket) -> Array:
        unpadding = self._unpads.get(name)
        if unpadding is None:
            return rows
        shape = self._shape(ticket, unpadding.input)
        padding = self._pads.get(unpadding.input)
        if shape is None or padding is None:
            return rows
        length = unpadding.length(shape[self._skip + padding.axis % (len(shape) - self._skip)])
        axis = self._skip + unpadding.axis % (rows.ndim - self._skip)
        return rows[(slice(None),) * axis + (slice(length),)]

    def _scatter(self, name: str, output: BatchOutput, array: Array, starts: dict[str, int], ticket: Ticket) -> Array:
        shape = self._shape(ticket, output.source) or (ticket.rows,)
        dims = list(self._outputs[name].shape)
        for at, length in enumerate(dims):
            if length < 0 and at < len(shape):
                dims[at] = shape[at]
        size = int(np.prod(dims))
        start = starts[name]
        starts[name] = start + size
        flat = array.reshape(-1)
        if size < 0 or start + size > flat.size:
            raise self._wrong_scatter(name, array.size)
        return flat[start : start + size].reshape(dims)

    def _wrong_scatter(self, name: str, size: int) -> ModelError:
        source = self._scattered[name].source
        return ModelError(
            f"model '{self._model}': output '{name}' has {size} elements, which is not what the shapes of input "
            f"'{source}' in the requests of the batch add up to"
        )


def _filler(value: float, dtype: Any) -> Any:
    return b"" if dtype == np.object_ else value
