"""Streaming methods over websockets: each message is an item, either way.

    ws://.../shouted?loud=1          the method's path; what it takes beside a stream stands in the query string
    ->  "one"   "two"   ...          items to a method that takes a stream: JSON in text messages, bytes in binary ones
    ->  (an empty text message)      there are no more of them
    <-  "ONE"   "TWO"   ...          items of a method that streams; of one that does not its one result
    <-  close 1000                   it has ended
    <-  {"error": {...}}, close 1011 it failed, before the first item or midway; 1008: its client is to blame; 1013:
                                     there was no room

Rule: the handshake is answered when a replica has the call; what fails before that has its status in HTTP. A method
that takes no stream and finds no query string has its arguments in the first message, so there the handshake is first.
"""

from __future__ import annotations

from trilith.errors import TrilithError
from trilith.net.http1 import HttpRequest
from trilith.orchestration.deployments import MethodRoute
from trilith.orchestration.engine.requested import requested_call, traced
from trilith.orchestration.engine.router import Router
from trilith.orchestration.engine.socket_sink import SocketSink
from trilith.orchestration.engine.stream_calls import StreamCall
from trilith.orchestration.engine.tracer import Tracer
from trilith.telemetry import TimelineShelf
from trilith.wire.call_headers import CallHeaders, read_headers
from trilith.wire.stream_formats import JSON
from trilith.wire.websocket_calls import call_headers, item_form, no_stream


class SocketStreams:
    """Takes the websockets that ask for streaming methods.

    Args:
        router: takes the calls.
        timelines: where those of streams are kept.
        tracer: samples calls; None traces nothing.
    """

    def __init__(self, router: Router, timelines: TimelineShelf, *, tracer: Tracer | None = None) -> None:
        self._router = router
        self._timelines = timelines
        self._tracer = tracer

    def take(self, request: HttpRequest, route: MethodRoute) -> None:
        """Calls a streaming method.

        Raises:
            MethodNotAllowed: the method has no streams.
            CallerError: its headers cannot be read.
        """
        if not route.streaming:
            raise no_stream(f"{route.service}.{route.method}")
        form = item_form(route.offers) if route.streams_out else None
        headers = read_headers(call_headers(request.headers, form))
        sink = SocketSink(request, route, self._router, self._timelines)
        if route.arguments and not route.takes and not request.query:
            sink.ask(lambda kind, body: self._call(request, route, headers, sink, kind, body), trace=headers.trace)
        else:
            self._call(request, route, headers, sink, JSON, b"")

    def _call(
        self, request: HttpRequest, route: MethodRoute, headers: CallHeaders, sink: SocketSink, kind: str, body: bytes
    ) -> None:
        call = requested_call(
            StreamCall,
            request,
            headers,
            traced(self._tracer, request, headers),
            route=route,
            method=route.method,
            content_type=kind,
            buffers=(body,),
            sink=sink,
        )
        sink.begin(call)
        try:
            self._router.submit(call)
        except TrilithError as error:
            self._router.fail(call, error)
