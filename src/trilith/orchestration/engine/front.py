"""What each HTTP path leads to. The gateway's only HTTP application.

    /livez /readyz /metrics          health and metrics
    /v2/...                          Open Inference Protocol: the models of this node
    /openapi.json /docs              the API of the services
    /timelines/ID                    timelines too long for a header
    everything else                  the routes that the services declare, then their mounts

Rule: service requests take the callback path: no task, no parsing; the body goes to a replica as it came.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec

from trilith.errors import (
    CallerError,
    CapacityError,
    Draining,
    Forbidden,
    MethodNotAllowed,
    NoReadyReplica,
    NotFound,
    TrilithError,
)
from trilith.net.http1 import HttpRequest
from trilith.orchestration.deployments import MethodRoute
from trilith.orchestration.engine.calls import PendingCall
from trilith.orchestration.engine.exchange_front import HttpExchanges
from trilith.orchestration.engine.mount_table import Mounted, MountTable
from trilith.orchestration.engine.near_path import near_path
from trilith.orchestration.engine.router import Router
from trilith.orchestration.engine.sinks import NOT_BEGUN, AwaitedHttpSink, HttpSink
from trilith.orchestration.engine.socket_front import SocketStreams
from trilith.orchestration.engine.stream_front import HttpStreams, HttpStreamSink
from trilith.orchestration.engine.tracer import Tracer
from trilith.telemetry import TIMELINES_PATH, TimelineShelf
from trilith.wire.call_headers import CallHeaders, read_exchange_headers, read_headers
from trilith.wire.calls import pack_call
from trilith.wire.cors import CorsPolicy, check_websocket_origin

_PREFLIGHT: Final = b"access-control-request-method"

Plain = Callable[[HttpRequest], Coroutine[Any, Any, None] | None]


class HttpFront:
    """Routes HTTP requests."""

    def __init__(
        self,
        router: Router,
        *,
        models: Plain,
        timelines: TimelineShelf,
        stream_keep_alive_s: float = 15.0,
        tracer: Tracer | None = None,
        websocket_origins: CorsPolicy | None = None,
    ) -> None:
        """Args:
        router: takes the calls of services.
        models: answers every path under `/v2`.
        timelines: those that are too long for a header.
        stream_keep_alive_s: a stream of events that is silent for so long gets a comment; 0 for never.
        tracer: samples calls; None traces nothing.
        websocket_origins: whose pages may open websockets beside those of this server; None for none.
        """
        self._router = router
        self._tracer = tracer
        self._streams = HttpStreams(router, timelines, keep_alive_s=stream_keep_alive_s, tracer=tracer)
        self._sockets = SocketStreams(router, timelines, tracer=tracer)
        self._websocket_origins = websocket_origins
        self._exchanges = HttpExchanges(router, timelines, tracer=tracer)
        self._mounts = MountTable()
        self._models = models
        self._routes: dict[str, MethodRoute] = {}
        self._plain: dict[str, Plain] = {}
        self._timelines = timelines
        self.starting = False  # an application is to come, and is not there yet
        self.draining = False

    def serve_plain(self, path: str, answer: Plain) -> None:
        """Answers GET requests of one path with a function of the gateway itself."""
        self._plain[path] = answer

    def serve_methods(self, routes: dict[str, MethodRoute], mounts: MountTable | None = None) -> None:
        """Replaces the routes of services, and what is mounted beside them."""
        self._routes = routes
        self._mounts = mounts or MountTable()

    def method_at(self, path: str) -> str:
        """The method of a service at a path, `Ocr.read`, or the mount, `Ocr./ui`; "" for none."""
        route = self._routes.get(path)
        if route is None:
            mount = self._mounts.find(path)
            route = None if mount is None else mount.route
        return "" if route is None else f"{route.service}.{route.method}"

    def __call__(self, request: HttpRequest) -> Coroutine[Any, Any, None] | None:
        """Answers a request, now or later."""
        path = request.path
        if request.switches is not None:
            try:
                check_websocket_origin(self._websocket_origins, request.header(b"origin"), request.header(b"host"))
            except Forbidden as error:
                self._refuse(request, error)
                return None
        route = self._routes.get(path)
        if route is not None:
            return self._call(request, route)
        if path.startswith("/v2") and (len(path) == 3 or path[3] == "/"):
            return self._models(request)
        if path.startswith(TIMELINES_PATH):
            self._timeline(request)
            return None
        plain = self._plain.get(path)
        mount = self._mounts.find(path) if plain is None else None
        if mount is not None:
            self._pass_on(request, mount)
            return None
        if plain is None and self.starting:
            self._refuse(request, NoReadyReplica("the application is not loaded yet; try again in a moment"))
            return None
        if plain is None:
            self._tell_nothing(request)
            return None
        if request.method not in ("GET", "HEAD"):
            self._refuse(request, MethodNotAllowed(f"{path} takes GET, got {request.method}"), allow=b"GET, HEAD")
            return None
        return plain(request)

    def _tell_nothing(self, request: HttpRequest) -> None:
        """There is nothing at this path: a browser that begins at the root is shown to the page of methods."""
        path = request.path
        wants_page = b"text/html" in (request.header(b"accept") or b"")
        if path == "/" and wants_page and self._routes and request.method in ("GET", "HEAD"):
            request.respond(307, content_type=b"", headers=((b"location", b"docs"),))  # a proxy may stand before it
            return
        paths = sorted({*self._routes, *self._plain, *self._mounts.paths, "/v2"})
        near = near_path(path, paths)
        meant = f" (did you mean {near}?)" if near else ""
        self._refuse(request, NotFound(f"there is nothing at {path}{meant}; there is {', '.join(paths)}"))

    def _timeline(self, request: HttpRequest) -> None:
        try:
            request.respond(200, self._timelines.find(request.path))
        except NotFound as error:
            self._refuse(request, error)

    def _call(self, request: HttpRequest, route: MethodRoute) -> Coroutine[Any, Any, None] | None:
        if request.method != "POST" and request.switches is None:
            ways = "POST, or a websocket" if route.streaming else "POST"
            why = f"{request.path} takes {ways}, got {request.method}"
            if request.method == "OPTIONS" and request.header(_PREFLIGHT) is not None:
                why += "; a page of another origin asks, and none may call this server: see --cors-origin"
            self._refuse(request, MethodNotAllowed(why), allow=b"POST")
            return None
        if self.draining:
            self._refuse(request, Draining("the server is stopping; send the request to another one"))
            return None
        if request.switches is not None:
            self._take_socket(request, route)
            return None
        try:
            headers = read_headers(tuple(request.headers))
        except CallerError as error:
            self._refuse(request, error)
            return None
        if route.streaming:
            return self._stream(request, route, headers)
        if not request.complete:
            return self._read_and_submit(request, route, headers)
        call = self._pending(request, route, headers, request.body_nowait(), HttpSink(request, self._timelines))
        request.on_disconnect = lambda: self._router.cancel(call)
        try:
            self._router.submit(call)
        except TrilithError as error:
            self._router.fail(call, error)
        return None

    def _pass_on(self, request: HttpRequest, mount: Mounted) -> None:
        """To what answers HTTP by itself."""
        if self.draining:
            self._refuse(request, Draining("the server is stopping; send the request to another one"))
            return
        try:
            headers = read_exchange_headers(tuple(request.headers))
        except CallerError as error:
            self._refuse(request, error)
            return
        self._exchanges.take(request, mount, headers)

    async def _read_and_submit(self, request: HttpRequest, route: MethodRoute, headers: CallHeaders) -> None:
        """The way of large bodies: read as they come, in a task that ends when the answer is written."""
        sink = AwaitedHttpSink(request, self._timelines)
        call = self._pending(request, route, headers, await request.body(), sink)
        try:
            self._router.submit(call)
        except TrilithError as error:
            self._router.fail(call, error)
        try:
            await sink.answered.wait()
        finally:
            self._router.cancel(call)  # does nothing when it is settled

    def _take_socket(self, request: HttpRequest, route: MethodRoute) -> None:
        try:
            self._sockets.take(request, route)
        except MethodNotAllowed as error:
            self._refuse(request, error, allow=b"POST")
        except CallerError as error:
            self._refuse(request, error)

    def _pending(
        self, request: HttpRequest, route: MethodRoute, headers: CallHeaders, body: bytes | memoryview, sink: HttpSink
    ) -> PendingCall:
        if self._tracer is None:
            return _pending(request, route, headers, body, sink)
        span, forwarded = self._tracer.begin(
            headers.forwarded, request.request_id, identity=request.identity, asked=headers.trace
        )
        if span is not None:
            headers = msgspec.structs.replace(headers, forwarded=forwarded, trace=True)
        call = _pending(request, route, headers, body, sink)
        call.span = span
        return call

    def _stream(
        self, request: HttpRequest, route: MethodRoute, headers: CallHeaders
    ) -> Coroutine[Any, Any, None] | None:
        if not route.takes and not request.complete:
            return self._read_and_stream(request, route, headers)
        self._take_stream(request, route, headers, b"" if route.takes else request.body_nowait())
        return None

    def _take_stream(
        self, request: HttpRequest, route: MethodRoute, headers: CallHeaders, body: bytes | memoryview
    ) -> HttpStreamSink | None:
        try:
            return self._streams.take(request, route, headers, body)
        except CallerError as error:
            self._refuse(request, error)
            return None

    async def _read_and_stream(self, request: HttpRequest, route: MethodRoute, headers: CallHeaders) -> None:
        """As `_read_and_submit`, for streaming methods: large arguments, not items."""
        sink = self._take_stream(request, route, headers, await request.body())
        if sink is not None:
            await sink.wait_over()

    def _refuse(self, request: HttpRequest, error: TrilithError, *, allow: bytes = b"") -> None:
        headers = NOT_BEGUN if isinstance(error, CapacityError) else ()
        request.respond_error(error, headers=((b"allow", allow),) if allow else headers)


def _pending(
    request: HttpRequest, route: MethodRoute, headers: CallHeaders, body: bytes | memoryview, sink: HttpSink
) -> PendingCall:
    now = time.monotonic()
    timeout_s, wanted_s = route.timeout_s, headers.timeout_s
    return PendingCall(
        route,
        pack_call(
            route.service,
            route.method,
            headers.content_type,
            request.request_id,
            headers.forwarded,
            trace=headers.trace,
            query=request.query,
            client=request.peer,
            identity=request.identity,
        ),
        (body,),
        received_at=request.received_at,
        submitted_at=now,
        # The caller may shorten the method's time limit, never lengthen it.
        deadline=now + (wanted_s if wanted_s < timeout_s else timeout_s),
        sink=sink,
        trace=headers.trace,
    )
