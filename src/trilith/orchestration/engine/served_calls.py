"""What the gateway sends to a worker becomes calls of its host, and their answers go back.

Rule 1: a call is answered when the host has ended its work on it: the answer frees a slot.
Rule 2: the answers of a batch travel together. One that is too large for that fails alone.
Rule 3: nothing that is made for a call holds itself in a circle once the call is answered. Circles wait for the cyclic
    garbage collector, which looks at all young objects each time: it took a third of a worker's time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trilith.core.context import Context
from trilith.core.foreign import shortened
from trilith.core.timeline import RECEIVED, Timeline
from trilith.errors import (
    Cancelled,
    DeadlineExceeded,
    Draining,
    InvalidInput,
    PayloadTooLarge,
    QueueFull,
    TrilithError,
    wire_code,
)
from trilith.net.transport import Buffer, IncomingCall, IncomingStream
from trilith.service import MESSAGE_RESULT, PLAIN_RESULT, OnDone, Outcome, ServiceCall, ServiceHost, StreamServiceCall
from trilith.wire.batches import FLAG_BATCH, BatchItemResult, answers_that_fit, decode_batch, encode_batch
from trilith.wire.calls import CallMeta, pack_meta, unpack_call

_GIVEN_UP: Final = (Cancelled, DeadlineExceeded)
_STREAM_GIVEN_UP: Final = (*_GIVEN_UP, QueueFull)
_PLAIN_META: Final = pack_meta(PLAIN_RESULT)
_MESSAGE_META: Final = pack_meta(MESSAGE_RESULT)
_PLAIN_ITEM: Final = BatchItemResult(ok=True, meta=_PLAIN_META, buffer_count=1)


class ServedCalls:
    """Hands the calls of one connection after another to one host."""

    def __init__(self, host: ServiceHost) -> None:
        self._host = host
        self._name = host.spec.name

    def called(self, incoming: IncomingCall) -> None:
        """The handler of a connection's calls."""
        incoming.begin()
        try:
            if incoming.flags:
                self._called_otherwise(incoming)
                return
            meta = unpack_call(incoming.meta)
            context = _context(self._name, meta, incoming, incoming.deadline)
            call = _GatewayCall(meta, incoming.buffers, context, incoming=incoming)
            incoming.on_cancel = call.cancel
            self._host.handle(call)
        except TrilithError as error:
            incoming.fail_error(error)

    def _called_otherwise(self, incoming: IncomingCall) -> None:
        if incoming.flags & FLAG_BATCH:
            self._called_batch(incoming)
            return
        if not isinstance(incoming, IncomingStream):
            raise InvalidInput(f"a call has the flags {incoming.flags} and no items")
        meta = unpack_call(incoming.meta)
        context = _context(self._name, meta, incoming, incoming.deadline)
        call = _GatewayStream(meta, incoming.buffers, context, incoming=incoming, port=incoming.stream)
        incoming.on_cancel = call.cancel
        self._host.handle(call)

    def _called_batch(self, incoming: IncomingCall) -> None:
        items = decode_batch(incoming.meta, len(incoming.buffers))
        batch = _BatchAnswer(incoming, len(items))
        calls = []
        position = 0
        for index, item in enumerate(items):
            buffers = incoming.buffers[position : position + item.buffer_count]
            position += item.buffer_count
            meta = unpack_call(item.meta)
            context = _context(self._name, meta, incoming, item.deadline)
            calls.append(ServiceCall(meta, buffers, context, batch.collector(index), on_end=batch.one_ended))

        def cancel() -> None:
            for call in calls:
                call.cancel()

        incoming.on_cancel = cancel
        self._host.handle_batch(calls)
        batch.begun(sum(call.working for call in calls))


class _GatewayCall(ServiceCall, eq=False, kw_only=True):
    """A call of the gateway, as the host runs it, and the way of its answer.

    One object and no closures; `IncomingCall.on_cancel` leads back to it until it is answered.
    """

    incoming: IncomingCall

    def finish(self, outcome: Outcome, buffers: Sequence[Buffer] = ()) -> None:
        """Answers the gateway, unless that happened before."""
        if self.done:
            return
        self.done = True
        incoming = self.incoming
        incoming.on_cancel = None
        if outcome is PLAIN_RESULT:
            incoming.result(_PLAIN_META, buffers)
        elif outcome is MESSAGE_RESULT:
            incoming.result(_MESSAGE_META, buffers)
        elif not isinstance(outcome, TrilithError):
            incoming.result(pack_meta(outcome), buffers)
        elif self.working and isinstance(outcome, _GIVEN_UP):
            # The client has its answer from the gateway. This one frees the slot: not before the work has stopped.
            self.on_end = lambda: incoming.fail_error(outcome)
        else:
            incoming.fail_error(outcome)


class _GatewayStream(StreamServiceCall, eq=False, kw_only=True):
    """The same for a call with items."""

    incoming: IncomingStream

    def finish(self, outcome: Outcome, buffers: Sequence[Buffer] = ()) -> None:
        """Answers the gateway, unless that happened before."""
        if self.done:
            return
        self.done = True
        incoming = self.incoming
        incoming.on_cancel = None
        if not isinstance(outcome, TrilithError):
            incoming.result(pack_meta(outcome), buffers)
        elif self.working and isinstance(outcome, _STREAM_GIVEN_UP):
            incoming.give_up(outcome)  # the gateway does not know that the method was late
            self.on_end = lambda: incoming.fail_error(outcome)
        else:
            incoming.fail_error(outcome)


class _BatchAnswer:
    """Gathers the outcomes of a batch, and answers when the host has ended its work on all of them.

    When the replica ends, and with it the work, its callers have their answers before.
    """

    def __init__(self, incoming: IncomingCall, count: int) -> None:
        self._incoming = incoming
        self._working = self._open = count
        self._answered = False
        self._results = [BatchItemResult(ok=False)] * count
        self._buffers: list[Sequence[Buffer]] = [()] * count

    def collector(self, index: int) -> OnDone:
        """What takes the outcome of the item at `index`."""

        def done(outcome: Outcome, buffers: Sequence[Buffer]) -> None:
            if isinstance(outcome, TrilithError):
                self._results[index] = BatchItemResult(
                    ok=False,
                    code=wire_code(outcome),
                    message=shortened(outcome.message),
                    retry_after_s=outcome.retry_after_s,
                )
            elif outcome is PLAIN_RESULT and len(buffers) == 1:
                self._results[index] = _PLAIN_ITEM
                self._buffers[index] = buffers
            else:
                self._results[index] = BatchItemResult(ok=True, meta=pack_meta(outcome), buffer_count=len(buffers))
                self._buffers[index] = buffers
            self._open -= 1
            if self._open == 0 and isinstance(outcome, Draining):
                self._answer()

        return done

    def begun(self, working: int) -> None:
        """How many items the host took; the others were refused at once. Items end in a later turn of the loop."""
        self._working = working
        if working == 0:
            self._answer()

    def one_ended(self) -> None:
        """The host has ended its work on one item."""
        self._working -= 1
        if self._working == 0:
            self._answer()

    def _answer(self) -> None:
        if self._answered:
            return
        self._answered = True
        self._incoming.on_cancel = None  # it holds the calls, and they hold this
        try:
            self._incoming.result_in_one_frame(encode_batch(self._results), _flat(self._buffers))
        except PayloadTooLarge:
            results, buffers = answers_that_fit(self._results, self._buffers)
            self._incoming.result(encode_batch(results), _flat(buffers))


def _flat(groups: Sequence[Sequence[Buffer]]) -> list[Buffer]:
    return [buffer for group in groups for buffer in group]


def _context(name: str, meta: CallMeta, incoming: IncomingCall, deadline: float | None) -> Context:
    timeline = Timeline(f"service {name}.{meta.method}", 2, [(RECEIVED, incoming.received_at)])
    return Context(
        request_id=meta.request_id,
        timeline=timeline,
        deadline=deadline,
        headers=meta.headers or {},
        client=meta.client,
        identity=meta.identity,
    )
