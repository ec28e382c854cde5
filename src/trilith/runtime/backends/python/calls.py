"""One batch on its way to a model's process and back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from trilith.core.request import InferRequest, Parameter
from trilith.core.tensor import NUMPY_OF, Array, DataType, TensorSpec
from trilith.errors import ModelError, TrilithError, error_from_code
from trilith.net.transport import Reply
from trilith.runtime.backends.port import Answered, Outcome, RequestBatch
from trilith.runtime.backends.python.packing import (
    AnswerHead,
    RequestHead,
    decode_answer,
    encode_requests,
    pack_inputs,
)
from trilith.runtime.execution import reshaped
from trilith.runtime.signature import Offer
from trilith.wire.tensors import Buffer, unpack_tensors

_READ_BY_TRITON: Final = frozenset(
    {
        *("sequence_id", "sequence_start", "sequence_end", "priority", "timeout", "headers"),
        *("binary_data_output", "binary_data", "binary_data_size", "classification"),
    }
)


class RunningCall:
    """A batch that a process works on.

    Attributes:
        id: of the call on the connection.
        batch: the requests.
        on_done: whom to tell.
        sent_at: the instant in seconds at which it was sent.
        size_bytes: of its tensors.
        abandoned_since: since when nobody waits for any of its answers; None while somebody does.
    """

    __slots__ = ("_told", "abandoned_since", "batch", "id", "on_done", "sent_at", "size_bytes")

    def __init__(self, batch: RequestBatch, on_done: Callable[[Outcome], None], sent_at: float) -> None:
        self.id = 0
        self.batch = batch
        self.on_done = on_done
        self.sent_at = sent_at
        self.size_bytes = 0
        self.abandoned_since: float | None = None
        self._told: set[int] = set()

    def newly_taken_back(self) -> list[int]:
        """The requests for which nobody waits since the last time that this was asked."""
        found = [at for at in range(len(self.batch.requests)) if at not in self._told and not self.batch.is_awaited(at)]
        self._told.update(found)
        if self.abandoned_since is None and len(self._told) == len(self.batch.requests):
            self.abandoned_since = time.monotonic()
        return found

    def failed(self, error: TrilithError) -> Outcome:
        """The outcome when the whole batch failed."""
        now = time.monotonic()
        return Outcome([error] * len(self.batch.requests), self.sent_at, now)

    def not_begun(self) -> Outcome:
        """The outcome when its process died before it began the batch."""
        return Outcome([], self.sent_at, time.monotonic(), begun=False)


def packed_call(model: str, batch: RequestBatch, datatypes: Mapping[str, DataType]) -> tuple[bytes, list[Buffer]]:
    """Metadata and buffers of a batch's call. The buffers share memory with the requests' arrays."""
    heads: list[RequestHead] = []
    buffers: list[Buffer] = []
    for request, inputs, outputs in zip(batch.requests, batch.inputs, batch.outputs, strict=True):
        tensors, parts = pack_inputs(model, inputs, datatypes)
        buffers += parts
        if request.parameters or request.id or request.priority or request.timeout_us:
            heads.append(_head(request, tensors, outputs))
        else:
            heads.append(RequestHead(tensors, outputs))
    return encode_requests(heads), buffers


class AnswerReader:
    """Reads what a process answers, and sees that the outputs are what the configuration says."""

    def __init__(self, model: str, offer: Offer) -> None:
        self._model = model
        self._batched = offer.max_batch_size > 0
        self._declared = {spec.name: spec for spec in offer.model_outputs}
        self._reshapes = {name: each for name, each in offer.reshapes.items() if name in self._declared}

    def outcome(self, call: RunningCall, reply: Reply) -> Outcome:
        """What a reply says of each request of its batch."""
        if not reply.ok:
            return call.failed(reply.error())
        model = self._model
        try:
            answer = decode_answer(model, reply.meta, len(call.batch.requests))
            if answer.failure:
                raise ModelError(f"Failed to process the request(s) for model '{model}', message: {answer.failure}")
        except ModelError as error:
            return call.failed(error)
        if len(answer.answers) == 1:
            [inputs], [head] = call.batch.inputs, answer.answers
            return Outcome([self._answer(inputs, head, reply.buffers)], reply.started_at, reply.finished_at)
        answers: list[Answered | TrilithError] = []
        at = 0
        for inputs, head in zip(call.batch.inputs, answer.answers, strict=True):
            count = len(head.tensors)
            answers.append(self._answer(inputs, head, reply.buffers[at : at + count]))
            at += count
        return Outcome(answers, reply.started_at, reply.finished_at)

    def _answer(
        self, inputs: Mapping[str, Array], head: AnswerHead, parts: Sequence[memoryview]
    ) -> Answered | TrilithError:
        if head.code:
            return error_from_code(head.code, head.message)
        try:
            outputs = unpack_tensors(self._model, head.tensors, parts)
            rows = next(iter(inputs.values())).shape[0] if self._batched and inputs else 1
            for name, word, shape in head.tensors:
                spec = self._declared[name]
                if word != spec.datatype:
                    return self._wrong_datatype(spec, word)
                dims = spec.shape
                if shape != dims and not self._fits(shape, dims, rows):
                    return self._wrong_shape(spec, shape, rows)
            if self._reshapes:
                outputs = reshaped(self._model, outputs, self._reshapes, 1 if self._batched else 0)
        except KeyError as error:
            return ModelError(f"model '{self._model}': its process answered with an output {error} that it lacks")
        except TrilithError as error:
            return ModelError(error.message)
        return Answered(outputs, head.parameters)

    def _fits(self, shape: tuple[int, ...], dims: tuple[int, ...], rows: int) -> bool:
        if len(shape) != len(dims) or (self._batched and shape[0] != rows):
            return False
        for given, wanted in zip(shape, dims, strict=True):  # noqa: SIM110 - a generator costs more than it checks
            if wanted not in (-1, given):
                return False
        return True

    def _wrong_datatype(self, spec: TensorSpec, word: str) -> ModelError:
        return ModelError(
            f"model '{self._model}': output '{spec.name}' has datatype {word}, and the configuration says "
            f"{spec.datatype}: return an array of dtype {NUMPY_OF[spec.datatype]}"
        )

    def _wrong_shape(self, spec: TensorSpec, shape: tuple[int, ...], rows: int) -> ModelError:
        expected = [rows, *spec.shape[1:]] if self._batched else list(spec.shape)
        batch = f" for a request of {rows} rows" if self._batched else ""
        return ModelError(
            f"model '{self._model}': output '{spec.name}' has shape {list(shape)}{batch}, and the configuration says "
            f"{expected}"
        )


def _head(
    request: InferRequest, tensors: list[tuple[str, str, tuple[int, ...]]], outputs: tuple[str, ...]
) -> RequestHead:
    given = request.parameters
    sequence = given.get("sequence_id", 0)
    return RequestHead(
        tensors=tensors,
        outputs=outputs,
        id=request.id,
        parameters={key: value for key, value in given.items() if key not in _READ_BY_TRITON},
        correlation_id=sequence if isinstance(sequence, int | str) else 0,
        timeout_us=request.timeout_us,
        priority=request.priority,
        flags=_flag(given, "sequence_start", 1) | _flag(given, "sequence_end", 2),
    )


def _flag(parameters: Mapping[str, Parameter], key: str, flag: int) -> int:
    return flag if parameters.get(key) is True else 0
