"""Requests to what answers HTTP by itself (`trilith.wire.exchange`): to a replica as they came, its answers back.

Rule 1: no task an exchange; the body feeds the call, and the call's items the answer, by callbacks.
Rule 2: nothing here holds a whole body. A body that was here with its head goes with it; any other is let in when the
    replica first asks for it, piece by piece, within the windows that all streams have.
Rule 3: what is true of all answers (access, CORS, limits, request ids, deadlines, logs) is true of these. What frames a
    message, and what every server says of itself, is written by ours: of the replica's headers such are left out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Final

from trilith.core.header_fields import SERVERS_OWN
from trilith.core.timeline import Timeline
from trilith.errors import CapacityError, PayloadTooLarge, ServiceError, TrilithError
from trilith.net.http1 import HttpRequest, StreamedAnswer
from trilith.net.transport import Buffer, Item
from trilith.orchestration.deployments import MethodRoute
from trilith.orchestration.engine.call_headers import CallHeaders
from trilith.orchestration.engine.calls import PendingCall
from trilith.orchestration.engine.router import Router
from trilith.orchestration.engine.sinks import NOT_BEGUN
from trilith.orchestration.engine.stream_calls import StreamCall
from trilith.orchestration.engine.tracer import Tracer
from trilith.telemetry import TimelineShelf
from trilith.wire.calls import pack_call, unpack_result
from trilith.wire.exchange import EXCHANGE_CONTENT_TYPE, Address, ExchangeHead, pack_head, unpack_answer
from trilith.wire.http_status import error_body, http_status

_LATER_S: Final = 3600.0
_CONTENT_TYPE: Final = b"content-type"
_CONTENT_LENGTH: Final = b"content-length"


class ExchangeCall(StreamCall):
    """The call of an exchange. The time limit of its route is one to the beginning of its answer."""

    __slots__ = ()

    def due_at(self, now: float) -> float:
        """As of every stream until the answer has begun; then its caller's limit alone."""
        return super().due_at(now) if not self.items_out else min(self.whole_at, now + _LATER_S)


class HttpExchanges:
    """Takes the requests to mounts.

    Args:
        router: takes the calls.
        timelines: where those that are asked for are kept.
        tracer: samples calls; None traces nothing.
    """

    def __init__(self, router: Router, timelines: TimelineShelf, *, tracer: Tracer | None = None) -> None:
        self._router = router
        self._timelines = timelines
        self._tracer = tracer

    def take(self, request: HttpRequest, root_path: str, route: MethodRoute, headers: CallHeaders) -> None:
        """Passes a request on."""
        whole = request.complete
        body: bytes | memoryview = b""
        if whole:
            try:
                body = request.body_nowait()
            except PayloadTooLarge as error:
                request.respond_error(error)
                return
            request.let_body_go()
        head = head_of(request, root_path, whole=whole)
        sink = HttpExchangeSink(request, self._router, self._timelines)
        call = exchange_call(request, route, headers, head, sink, body=body, tracer=self._tracer)
        request.on_disconnect = lambda: self._router.cancel(call)
        if whole:
            call.end()
        try:
            self._router.submit(call)
        except TrilithError as error:
            self._router.fail(call, error)


def head_of(request: HttpRequest, root_path: str, *, whole: bool) -> ExchangeHead:
    """The head of a request as its replica sees it."""
    return ExchangeHead(
        method=request.method,
        raw_path=request.path.encode("latin-1"),
        root_path=root_path,
        query=request.query.encode("latin-1"),
        headers=tuple(request.headers),
        client=_address(request.peer),
        server=_address(request.local),
        scheme="https" if request.secure else "http",
        http_version=request.http_version,
        whole=whole,
    )


def exchange_call(
    request: HttpRequest,
    route: MethodRoute,
    headers: CallHeaders,
    head: ExchangeHead,
    sink: HttpExchangeSink,
    *,
    body: bytes | memoryview,
    tracer: Tracer | None,
) -> ExchangeCall:
    """The call of a request, ready to be submitted."""
    span, forwarded = None, headers.forwarded
    if tracer is not None:
        span, forwarded = tracer.begin(forwarded, request.request_id, identity=request.identity, asked=headers.trace)
    now = time.monotonic()
    meta = pack_call(
        route.service,
        route.method,
        EXCHANGE_CONTENT_TYPE,
        request.request_id,
        forwarded,
        trace=headers.trace,
        query=request.query,
        client=request.peer,
        identity=request.identity,
    )
    call = ExchangeCall(
        route,
        meta,
        (pack_head(head), body),
        received_at=request.received_at,
        submitted_at=now,
        whole_at=now + headers.timeout_s if headers.timeout_s < math.inf else math.inf,
        sink=sink,
        trace=headers.trace,
    )
    call.span = span
    return call


def _address(text: str) -> Address | None:
    host, colon, port = text.rpartition(":")
    return (host.strip("[]"), int(port)) if colon else None


class HttpExchangeSink:
    """One request to a mount: where its body goes, and where the answer comes from."""

    __slots__ = ("_answer", "_held", "_promised", "_reads", "_request", "_router", "_timelines")

    def __init__(self, request: HttpRequest, router: Router, timelines: TimelineShelf) -> None:
        self._request = request
        self._router = router
        self._timelines = timelines
        self._answer: StreamedAnswer | None = None
        self._reads = False
        self._promised = ""
        self._held: list[int] = []

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
        if roomy and not self._held:
            call.passed(item.size_bytes)
            return
        if not self._held:
            self._answer.when_writable(lambda: self._resumed(call))
        self._held.append(item.size_bytes)

    def _resumed(self, call: StreamCall) -> None:
        held, self._held = self._held, []
        for size_bytes in held:
            call.passed(size_bytes)

    def answer(self, call: PendingCall, meta: bytes, buffers: Sequence[Buffer]) -> None:
        """Ends the answer, or writes all of it."""
        if self._answer is not None:
            if self._promised:
                self._timelines.keep(self._promised, call.timeline(_nested(meta)))
            self._answer.finish()
        else:
            whole = unpack_answer(meta)
            if whole is None:
                raise ServiceError(f"{call.route.service} ended a request to {call.route.method} without an answer")
            told = (self._timelines.header(call.timeline(_nested(meta))),) if call.trace else ()
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
        self._answer = None
        self._held = []


def _split(status: int, headers: list[tuple[bytes, bytes]]) -> tuple[int, bytes, int | None, list[tuple[bytes, bytes]]]:
    """Status, content type, size and the headers that are not for the server to write."""
    content_type, size_bytes, others = b"", None, []
    for name, value in headers:
        lower = name.lower()
        if lower == _CONTENT_TYPE:
            content_type = value.strip(b" \t")
        elif lower == _CONTENT_LENGTH:
            size_bytes = _size(value)
        elif lower not in SERVERS_OWN:
            others.append((name, value.strip(b" \t")))
    return status, content_type, size_bytes, others


def _size(value: bytes) -> int:
    text = value.strip()
    if not text.isdigit() or len(text) > 18:
        raise ServiceError(f"the content-length of an answer must be a number, got {value!r:.60}")
    return int(text)


def _nested(meta: bytes) -> Timeline | None:
    timeline = unpack_result(meta).timeline
    return Timeline.from_builtins(timeline) if timeline is not None else None
