"""Where the body of a request to a mount goes, and where its answer comes from: see `exchange_front`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trilith.core.header_fields import is_servers_own
from trilith.errors import CapacityError, ServiceError, TrilithError
from trilith.net.http1 import HttpRequest, StreamedAnswer
from trilith.net.transport import Buffer, Item
from trilith.orchestration.engine.calls import PendingCall, nested_timeline
from trilith.orchestration.engine.router import Router
from trilith.orchestration.engine.sinks import NOT_BEGUN
from trilith.orchestration.engine.stream_calls import ItemGate, StreamCall
from trilith.telemetry import TimelineShelf
from trilith.wire.exchange import unpack_answer
from trilith.wire.http_status import error_body, http_status

_CONTENT_TYPE: Final = b"content-type"
_CONTENT_LENGTH: Final = b"content-length"


class HttpExchangeSink:
    """One request to a mount: where its body goes, and where the answer comes from."""

    __slots__ = ("_answer", "_gate", "_promised", "_reads", "_request", "_router", "_timelines")

    def __init__(self, request: HttpRequest, router: Router, timelines: TimelineShelf) -> None:
        self._request = request
        self._router = router
        self._timelines = timelines
        self._answer: StreamedAnswer | None = None
        self._reads = False
        self._promised = ""
        self._gate = ItemGate()

    # From the client to the replica.

    def writable(self, call: StreamCall) -> None:
        """The replica wants some of the body."""
        if not self._reads:
            self._reads = True
            self._request.when_body(lambda: self._body_came(call), endless=False)
        self._body_came(call)

    def _body_came(self, call: StreamCall) -> None:
        if call.settled:
            return
        request = self._request
        while call.writable:
            chunk = request.take_body()
            if not chunk:
                break
            call.send((chunk,))
        failure = request.body_failure
        if failure is not None:
            self._router.cancel(call, failure)
        elif request.body_ended:
            call.end()

    # From the replica to the client.

    def item(self, call: StreamCall, item: Item) -> None:
        """Writes a piece of the answer; the first one with the head before it."""
        if self._answer is None:
            try:
                self._begin(call, item.meta)
            except TrilithError as error:  # such an answer cannot be sent
                self._router.cancel(call, error)
        if self._answer is None:
            return
        buffers = item.buffers
        roomy = self._answer.write(bytes(buffers[0]) if len(buffers) == 1 else b"".join(buffers))
        if self._request.gone:  # it was cut: more than it said that it would be
            self._router.cancel(call)
            return
        self._gate.wrote(call, item.size_bytes, roomy=roomy, when_writable=self._answer.when_writable)

    def answer(self, call: PendingCall, meta: bytes, buffers: Sequence[Buffer]) -> None:
        """Ends the answer, or writes all of it."""
        if self._answer is not None:
            if self._promised:
                self._timelines.keep(self._promised, call.timeline(nested_timeline(meta)))
            self._answer.finish()
        else:
            whole = unpack_answer(meta)
            if whole is None:
                raise ServiceError(f"{call.route.service} ended a request to {call.route.method} without an answer")
            told = (self._timelines.header(call.timeline(nested_timeline(meta))),) if call.trace else ()
            self._respond(*_split(*whole), buffers, told)
        self._end()

    def _respond(
        self,
        status: int,
        content_type: bytes,
        size_bytes: int | None,
        headers: list[tuple[bytes, bytes]],
        buffers: Sequence[Buffer],
        told: tuple[tuple[bytes, bytes], ...],
    ) -> None:
        request = self._request
        headers += told
        if request.method == "HEAD":  # the replica alone knows how long the body would be
            answer = request.begin(status, content_type=content_type, headers=headers, size_bytes=size_bytes)
            if answer is not None:
                answer.finish()
            return
        body: Buffer = buffers[0] if len(buffers) == 1 else b"".join(buffers)
        request.respond(status, body, content_type=content_type, headers=headers)

    def fail(self, call: PendingCall, error: TrilithError) -> None:
        """Writes the error, or cuts the answer that has begun."""
        request, answer = self._request, self._answer
        if answer is None:
            refused = call.attempt == 0 and isinstance(error, CapacityError)
            request.respond_error(error, headers=NOT_BEGUN if refused else ())
        elif not request.gone:
            answer.log_failure(http_status(error), error_body(error, request.request_id))
            answer.abort()
        if self._promised:
            self._timelines.keep(self._promised, call.timeline(None))
        self._end()

    def _begin(self, call: StreamCall, meta: bytes) -> None:
        found = unpack_answer(meta) if meta else None
        if found is None:
            raise ServiceError(f"{call.route.service} began to answer a request to {call.route.method} without a head")
        status, content_type, size_bytes, headers = _split(*found)
        if call.trace:
            self._promised, header = self._timelines.promise()
            headers.append(header)
        self._answer = self._request.begin(status, content_type=content_type, headers=headers, size_bytes=size_bytes)

    def _end(self) -> None:
        self._request.ignore_body()
        self._request.on_disconnect = self._request.on_give_up = None  # they lead back here
        self._answer = None
        self._gate.clear()


def _split(status: int, headers: list[tuple[bytes, bytes]]) -> tuple[int, bytes, int | None, list[tuple[bytes, bytes]]]:
    """Status, content type, size and the headers that are not for the server to write."""
    content_type, size_bytes, others = b"", None, []
    for name, value in headers:
        lower = name.lower()
        if lower == _CONTENT_TYPE:
            content_type = value.strip(b" \t")
        elif lower == _CONTENT_LENGTH:
            size_bytes = _size(value)
        elif not is_servers_own(lower):
            others.append((name, value.strip(b" \t")))
    return status, content_type, size_bytes, others


def _size(value: bytes) -> int:
    text = value.strip()
    if not text.isdigit() or len(text) > 18:
        raise ServiceError(f"the content-length of an answer must be a number, got {value!r:.60}")
    return int(text)
