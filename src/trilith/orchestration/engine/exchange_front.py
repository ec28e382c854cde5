"""Requests to what answers HTTP by itself (`trilith.wire.exchange`): to a replica as they came, its answers back.

Rule 1: no task an exchange; the body feeds the call, and the call's items the answer, by callbacks.
Rule 2: nothing here holds a whole body. A body that was here with its head goes with it; any other is let in when the
    replica first asks for it, piece by piece, within the windows that all streams have. A place of the replica is taken
    when the first of it is here: who announces a body and sends nothing holds up nobody.
Rule 3: what is true of all answers (access, CORS, limits, request ids, deadlines, logs) is true of these. What frames a
    message, and what every server says of itself, is written by ours: of the replica's headers such are left out.
"""

from __future__ import annotations

from typing import Final

import msgspec

from trilith.errors import PayloadTooLarge, TrilithError
from trilith.net.http1 import HttpRequest
from trilith.orchestration.engine.exchange_sink import HttpExchangeSink
from trilith.orchestration.engine.exchange_socket import SocketExchangeSink
from trilith.orchestration.engine.mount_table import Mounted
from trilith.orchestration.engine.requested import requested_call, traced
from trilith.orchestration.engine.router import Router
from trilith.orchestration.engine.stream_calls import StreamCall, StreamSink
from trilith.orchestration.engine.tracer import Tracer
from trilith.telemetry import TimelineShelf
from trilith.wire.call_headers import CallHeaders
from trilith.wire.exchange import EXCHANGE_CONTENT_TYPE, Address, ExchangeHead, pack_head
from trilith.wire.http1 import listed

_LATER_S: Final = 3600.0
_PROTOCOLS: Final = b"sec-websocket-protocol"
_TRACEPARENT: Final = b"traceparent"


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

    def take(self, request: HttpRequest, mount: Mounted, headers: CallHeaders) -> None:
        """Passes a request on, now or when its body begins to come."""
        if request.complete or request.awaits_continue or request.switches is not None:
            self._pass_on(request, mount, headers)
            return

        def came() -> None:
            failure = request.body_failure
            if failure is None and not request.complete and not _has_begun(request):
                return
            request.ignore_body()
            if failure is not None:
                request.respond_error(failure)
            else:
                self._pass_on(request, mount, headers)

        if _has_begun(request):
            self._pass_on(request, mount, headers)
        else:
            request.when_body(came, endless=False)

    def _pass_on(self, request: HttpRequest, mount: Mounted, headers: CallHeaders) -> None:
        whole = request.complete
        body: bytes | memoryview = b""
        if whole:
            try:
                body = request.body_nowait()
            except PayloadTooLarge as error:
                request.respond_error(error)
                return
            request.let_body_go()
        head = head_of(request, mount.root_path, whole=whole)
        sink: StreamSink
        if request.switches is not None:
            sink = SocketExchangeSink(request, self._router, self._timelines)
        else:
            sink = HttpExchangeSink(request, self._router, self._timelines)
        call = exchange_call(request, mount, headers, head, sink, body=body, tracer=self._tracer)
        request.on_disconnect = lambda: self._router.cancel(call)
        if request.switches is None:
            request.on_give_up = lambda error: self._router.cancel(call, error)
            if whole:
                call.end()
        try:
            self._router.submit(call)
        except TrilithError as error:
            self._router.fail(call, error)


def _has_begun(request: HttpRequest) -> bool:
    return request.inbound is not None and request.inbound.buffered > 0


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
        websocket=request.switches is not None,
        subprotocols=tuple(listed(request.headers, _PROTOCOLS)) if request.switches is not None else (),
    )


def exchange_call(
    request: HttpRequest,
    mount: Mounted,
    headers: CallHeaders,
    head: ExchangeHead,
    sink: StreamSink,
    *,
    body: bytes | memoryview,
    tracer: Tracer | None,
) -> ExchangeCall:
    """The call of a request, ready to be submitted."""
    trace = traced(tracer, request, headers)
    if trace[0] is not None:  # the application's own spans are children of the service's
        others = (field for field in head.headers if field[0] != _TRACEPARENT)
        named = (*others, (_TRACEPARENT, trace[0].parent_of_service.encode()))
        head = msgspec.structs.replace(head, headers=named)
    return requested_call(
        ExchangeCall,
        request,
        headers,
        trace,
        route=mount.route,
        method=mount.target,
        content_type=EXCHANGE_CONTENT_TYPE,
        buffers=(pack_head(head), body),
        sink=sink,
    )


def _address(text: str) -> Address | None:
    host, colon, port = text.rpartition(":")
    return (host.strip("[]"), int(port)) if colon else None
