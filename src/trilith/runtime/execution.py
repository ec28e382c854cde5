"""Running one batch on a backend: assemble, run, split. Called in an instance's thread.

Rule 1: nothing here knows a queue, a lock, a loop or a callback.
Rule 2: one bad request fails alone. A batch that raises is run again in halves, when the model is pure.
Rule 3: each request's outputs are views of the batch's; nothing is copied but the rows that come together.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from trilith.core.clock import Clock
from trilith.core.foreign import named_error
from trilith.core.request import Parameter
from trilith.core.tensor import Array
from trilith.errors import ModelError, TrilithError
from trilith.runtime.backends.port import Backend, Batch
from trilith.runtime.collation import Collation
from trilith.runtime.reshaping import Reshape
from trilith.runtime.schedule import Halves
from trilith.runtime.signature import Offer
from trilith.runtime.ticket import Ticket

_log: Final = logging.getLogger("trilith.runtime")


class Executed:
    """What became of the requests that ran together.

    Attributes:
        tickets: the requests.
        outputs: one mapping of tensors for each of them; None when the execution failed.
        parameters: those of each answer, where the model gives any; else None.
        error: why it failed, or None.
        rows: rows in all.
        batched_at: instants in seconds: the batch left the queue, ...
        started_at: ... the instance began on it, ...
        input_at: ... its inputs were assembled, ...
        infer_at: ... the model returned, ...
        output_at: ... its outputs were split.
        freed_at: the instance could begin the next one, where that is before `output_at`.
        retried: whether it is a part of a batch that failed as a whole.
    """

    __slots__ = (
        "batched_at",
        "error",
        "freed_at",
        "infer_at",
        "input_at",
        "output_at",
        "outputs",
        "parameters",
        "retried",
        "rows",
        "started_at",
        "tickets",
    )

    def __init__(self, tickets: Sequence[Ticket], rows: int, batched_at: float, started_at: float) -> None:
        self.tickets = tickets
        self.rows = rows
        self.batched_at = batched_at
        self.started_at = self.input_at = self.infer_at = self.output_at = started_at
        self.freed_at: float | None = None
        self.outputs: Sequence[dict[str, Array]] | None = None
        self.parameters: Sequence[dict[str, Parameter]] | None = None
        self.error: TrilithError | None = None
        self.retried = False


def failed_batch(tickets: Sequence[Ticket], batched_at: float, error: TrilithError) -> Executed:
    """A batch that could not be run at all."""
    executed = Executed(tickets, sum(ticket.rows for ticket in tickets), batched_at, batched_at)
    executed.error = error
    return executed


class Execution:
    """How batches of one model are run.

    Attributes:
        name: whose, for messages: `model 'ocr'`.
    """

    __slots__ = ("_batched", "_clock", "_collation", "_inputs", "_model", "_outputs", "_pure", "_reshapes", "name")

    def __init__(
        self, model: str, offer: Offer, *, pure: bool, clock: Clock, collation: Collation | None = None
    ) -> None:
        self._model = model
        self.name = f"model '{model}'"
        self._inputs = [spec.name for spec in offer.inputs]
        self._outputs = tuple(spec.name for spec in offer.outputs)
        self._batched = offer.max_batch_size > 0
        self._pure = pure
        self._clock = clock
        self._collation = collation
        names = frozenset(self._outputs)
        self._reshapes = {name: each for name, each in offer.reshapes.items() if name in names}

    def run(self, backend: Backend, tickets: Sequence[Ticket], batched_at: float) -> list[Executed]:
        """Runs the tickets as one batch; in parts when that fails and may be retried."""
        if len(tickets) == 1:
            return [self._run_once(backend, tickets, batched_at)]
        executed: list[Executed] = []
        halves = Halves(len(tickets), repeatable=self._pure)
        for first, past in halves:
            part = self._run_once(backend, tickets[first:past], batched_at)
            if part.error is None or not halves.split():
                part.retried = past - first < len(tickets)
                executed.append(part)
        return executed

    def _run_once(self, backend: Backend, tickets: Sequence[Ticket], batched_at: float) -> Executed:
        now = self._clock.now
        executed = Executed(tickets, sum(ticket.rows for ticket in tickets), batched_at, now())
        try:
            batch = self._assemble(tickets, executed.rows)
            executed.input_at = now()
            arrays = backend.run(batch)
            executed.infer_at = now()
            executed.outputs = self._split(tickets, batch, arrays)
            if self._reshapes:
                executed.outputs = [self._outward(outputs) for outputs in executed.outputs]
        except TrilithError as error:
            executed.error = error
        except BaseException as error:  # noqa: BLE001 - a model is the user's code, whatever it raises
            if len(tickets) == 1:
                _log.warning("model '%s' failed: %s", self._model, named_error(error))
            executed.error = ModelError(f"model '{self._model}' failed: {named_error(error)}")
            executed.error.__cause__ = error
        executed.output_at = now()
        return executed

    def _assemble(self, tickets: Sequence[Ticket], rows: int) -> Batch:
        if self._collation is not None:
            inputs = self._collation.join(tickets)
        elif len(tickets) == 1:
            ticket = tickets[0]
            inputs = dict(zip(self._inputs, map(_contiguous, ticket.admitted.arrays), strict=True))
            return Batch(
                inputs=inputs, outputs=ticket.request.outputs or self._outputs, rows=rows, requests=[ticket.request]
            )
        else:
            inputs = {
                name: np.concatenate([ticket.admitted.arrays[at] for ticket in tickets])
                for at, name in enumerate(self._inputs)
            }
        return Batch(
            inputs=inputs,
            outputs=self._wanted(tickets),
            rows=rows,
            requests=[ticket.request for ticket in tickets],
        )

    def _wanted(self, tickets: Sequence[Ticket]) -> tuple[str, ...]:
        """Every output that any of them wants, in the model's order."""
        wanted: set[str] = set()
        for ticket in tickets:
            if not ticket.request.outputs:
                return self._outputs
            wanted.update(ticket.request.outputs)
        return tuple(name for name in self._outputs if name in wanted)

    def _split(self, tickets: Sequence[Ticket], batch: Batch, arrays: Sequence[Array]) -> list[dict[str, Array]]:
        if len(arrays) != len(batch.outputs):
            raise ModelError(f"model '{self._model}' returned {len(arrays)} outputs, expected {len(batch.outputs)}")
        if self._batched:
            for name, array in zip(batch.outputs, arrays, strict=True):
                if (not array.shape or array.shape[0] != batch.rows) and self._keeps_rows(name):
                    raise ModelError(
                        f"model '{self._model}': output '{name}' has shape {list(array.shape)} for a batch of "
                        f"{batch.rows} rows; its first dimension must be {batch.rows}. A model whose outputs do not "
                        "keep their batch dimension needs max_batch_size: 0"
                    )
        outputs = dict(zip(batch.outputs, arrays, strict=True))
        if self._collation is not None:
            return self._collation.part(tickets, outputs)
        if len(tickets) == 1:
            return [outputs]
        return self._slices(tickets, outputs)

    def _outward(self, outputs: dict[str, Array]) -> dict[str, Array]:
        return reshaped(self._model, outputs, self._reshapes, 1 if self._batched else 0)

    def _keeps_rows(self, output: str) -> bool:
        return self._collation is None or self._collation.keeps_rows(output)

    def _slices(self, tickets: Sequence[Ticket], outputs: dict[str, Array]) -> list[dict[str, Array]]:
        slices: list[dict[str, Array]] = []
        start = 0
        for ticket in tickets:
            end = start + ticket.rows
            wanted = ticket.request.outputs
            if wanted:
                slices.append({name: outputs[name][start:end] for name in wanted})
            else:
                slices.append({name: array[start:end] for name, array in outputs.items()})
            start = end
        return slices


def reshaped(model: str, outputs: dict[str, Array], reshapes: Mapping[str, Reshape], skip: int) -> dict[str, Array]:
    """A request's outputs as its client gets them.

    Args:
        model: its name, for messages.
        outputs: as the model gives them.
        reshapes: of the outputs that clients get in another shape.
        skip: 1 where the first dimension is that of the batch, else 0.

    Raises:
        ModelError: an output has not the shape that the configuration says.
    """
    found = dict(outputs)
    for name, array in outputs.items():
        if name in reshapes:
            dims = reshapes[name].outward(array.shape[skip:])
            if dims is None:
                raise ModelError(
                    f"model '{model}': output '{name}' has shape {list(array.shape)}, and its reshape in the "
                    f"configuration says {[*array.shape[:skip], *reshapes[name].inside]}"
                )
            found[name] = array.reshape((*array.shape[:skip], *dims))
    return found


def _contiguous(array: Array) -> Array:
    flags: Any = array.flags
    return array if flags.c_contiguous and flags.aligned else np.array(array, order="C")
