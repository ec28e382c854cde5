"""One batch on its way to a model's process and back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from trilith.core.request import InferRequest, Parameter
from trilith.core.tensor import NUMPY_OF, Array, DataType
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
        abandoned_since: since when nobody waits for any of its answers; None while somebody does.
    """

    __slots__ = ("_told", "abandoned_since", "batch", "id", "on_done", "sent_at")

    def __init__(self, batch: RequestBatch, on_done: Callable[[Outcome], None], sent_at: float) -> None:
        self.id = 0
        self.batch = batch
        self.on_done = on_done
        self.sent_at = sent_at
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


def outcome_of(model: str, call: RunningCall, reply: Reply, offer: Offer) -> Outcome:
    """What a reply says of each request of its batch; what the outputs must be like is checked here."""
    if not reply.ok:
        return call.failed(reply.error())
    count = len(call.batch.requests)
    try:
        answer = decode_answer(model, reply.meta, count)
        if answer.failure:
            raise ModelError(f"Failed to process the request(s) for model '{model}', message: {answer.failure}")
    except ModelError as error:
        return call.failed(error)
    answers: list[Answered | TrilithError] = []
    at = 0
    for index, head in enumerate(answer.answers):
        parts = reply.buffers[at : at + len(head.tensors)]
        at += len(head.tensors)
        answers.append(_answer(model, call.batch.inputs[index], head, parts, offer))
    return Outcome(answers, reply.started_at, reply.finished_at)


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


def _answer(
    model: str, inputs: Mapping[str, Array], head: AnswerHead, parts: Sequence[memoryview], offer: Offer
) -> Answered | TrilithError:
    if head.code:
        return error_from_code(head.code, head.message)
    try:
        outputs = unpack_tensors(model, head.tensors, parts)
        rows = next(iter(inputs.values())).shape[0] if offer.max_batch_size and inputs else 1
        declared = {spec.name: spec for spec in offer.outputs}
        for name, word, shape in head.tensors:
            spec = declared[name]
            if word != spec.datatype:
                raise ModelError(
                    f"model '{model}': output '{name}' has datatype {word}, and the configuration says "
                    f"{spec.datatype}: return an array of dtype {NUMPY_OF[spec.datatype]}"
                )
            expected = (rows, *spec.shape[1:]) if offer.max_batch_size else spec.shape
            if len(shape) != len(expected) or any(
                wanted not in (-1, given) for given, wanted in zip(shape, expected, strict=True)
            ):
                batch = f" for a request of {rows} rows" if offer.max_batch_size else ""
                raise ModelError(
                    f"model '{model}': output '{name}' has shape {list(shape)}{batch}, and the configuration says "
                    f"{list(expected)}"
                )
    except KeyError as error:
        return ModelError(f"model '{model}': its process answered with an output {error} that it does not have")
    except TrilithError as error:
        return ModelError(error.message)
    return Answered(outputs, head.parameters)
