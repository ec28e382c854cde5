"""What each HTTP path leads to. The gateway's only HTTP application.

    /livez /readyz /metrics          health and metrics
    /v2/...                          Open Inference Protocol: the models of this node
    /openapi.json /docs              the API of the services
    /timelines/ID                    timelines too long for a header
    everything else                  the routes that the services declare

Rule: service requests take the callback path: no task, no parsing; the body goes to a replica as it came.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from trilith.errors import CallerError, Draining, InvalidInput, MethodNotAllowed, NotFound, TrilithError
from trilith.net.http1 import HttpRequest
from trilith.orchestration.engine.calls import PendingCall
from trilith.orchestration.engine.deployments import MethodRoute
from trilith.orchestration.engine.router import Router
from trilith.orchestration.engine.sinks import AwaitedHttpSink, HttpSink, respond_error
from trilith.orchestration.engine.timelines import PATH as TIMELINES
from trilith.orchestration.engine.timelines import TimelineShelf
from trilith.wire.calls import CallMeta, pack_meta

_TIMEOUT_HEADER: Final = b"trilith-timeout-ms"
_TRACE_HEADER: Final = b"trilith-timeline"
_NOT_FORWARDED: Final = frozenset({b"content-length", b"transfer-encoding", b"connection", b"host", b"expect", b"te"})
Plain = Callable[[HttpRequest], Coroutine[Any, Any, None] | None]


class HttpFront:
    """Routes HTTP requests."""

    def __init__(self, router: Router, *, models: Plain) -> None:
        """Args:
        router: takes the calls of services.
        models: answers every path under `/v2`.
        """
        self._router = router
        self._models = models
        self._routes: dict[str, MethodRoute] = {}
        self._plain: dict[str, Plain] = {}
        self._timelines = TimelineShelf()
        self.draining = False
        self.refused = 0

    def serve_plain(self, path: str, answer: Plain) -> None:
        """Answers GET requests of one path with a function of the gateway itself."""
        self._plain[path] = answer

    def serve_methods(self, routes: dict[str, MethodRoute]) -> None:
        """Replaces the routes of services."""
        self._routes = routes

    def __call__(self, request: HttpRequest) -> Coroutine[Any, Any, None] | None:
        """Answers a request, now or later."""
        path = request.path
        route = self._routes.get(path)
        if route is not None:
            return self._call(request, route)
        if path.startswith("/v2") and (len(path) == 3 or path[3] == "/"):
            return self._models(request)
        if path.startswith(TIMELINES):
            self._timeline(request)
            return None
        plain = self._plain.get(path)
        if plain is None:
            known = ", ".join(sorted({*self._routes, *self._plain, "/v2"}))
            self._refuse(request, NotFound(f"there is nothing at {path}; there is {known}"))
            return None
        if request.method not in ("GET", "HEAD"):
            self._refuse(request, MethodNotAllowed(f"{path} takes GET, got {request.method}"))
            return None
        return plain(request)

    def _timeline(self, request: HttpRequest) -> None:
        try:
            request.respond(200, self._timelines.find(request.path))
        except NotFound as error:
            self._refuse(request, error)

    def _call(self, request: HttpRequest, route: MethodRoute) -> Coroutine[Any, Any, None] | None:
        if request.method != "POST":
            self._refuse(request, MethodNotAllowed(f"{request.path} takes POST, got {request.method}"))
            return None
        if self.draining:
            self._refuse(request, Draining("the server is stopping; send the request to another one"))
            return None
        try:
            timeout_s = _timeout_s(request, route.timeout_s)
        except CallerError as error:
            self._refuse(request, error)
            return None
        if not request.complete:
            return self._read_and_submit(request, route, timeout_s)
        call = _pending(request, route, timeout_s, request.body_nowait(), HttpSink(request, self._timelines))
        request.on_disconnect = lambda: self._router.cancel(call)
        self._submit(call)
        return None

    async def _read_and_submit(self, request: HttpRequest, route: MethodRoute, timeout_s: float) -> None:
        """The way of large bodies: read as they come, in a task that ends when the answer is written."""
        sink = AwaitedHttpSink(request, self._timelines)
        call = _pending(request, route, timeout_s, await request.body(), sink)
        self._submit(call)
        try:
            await sink.answered.wait()
        finally:
            self._router.cancel(call)  # does nothing when it is settled

    def _submit(self, call: PendingCall) -> None:
        try:
            self._router.submit(call)
        except TrilithError as error:
            self._router.fail(call, error)

    def _refuse(self, request: HttpRequest, error: TrilithError) -> None:
        self.refused += 1
        respond_error(request, error)


def _pending(request: HttpRequest, route: MethodRoute, timeout_s: float, body: bytes, sink: HttpSink) -> PendingCall:
    content_type = request.header(b"content-type")
    trace = request.header(_TRACE_HEADER) == b"1"
    meta = CallMeta(
        service=route.service,
        method=route.method,
        content_type=content_type.decode("latin-1") if content_type is not None else "",
        request_id=request.request_id,
        headers=_forwarded(request),
        trace=trace,
        query=request.query,
    )
    return PendingCall(
        route,
        pack_meta(meta),
        (body,),
        received_at=request.received_at,
        deadline=time.monotonic() + timeout_s,
        sink=sink,
        trace=trace,
    )


def _timeout_s(request: HttpRequest, default_s: float) -> float:
    """The caller may shorten the method's time limit, never lengthen it."""
    raw = request.header(_TIMEOUT_HEADER)
    if raw is None:
        return default_s
    try:
        wanted_s = float(raw) / 1e3
    except ValueError:
        wanted_s = -1.0
    if not wanted_s > 0:
        raise InvalidInput(
            f"trilith-timeout-ms must be a number of milliseconds above 0, got {raw.decode('latin-1')!r}"
        )
    return min(wanted_s, default_s)


def _forwarded(request: HttpRequest) -> dict[str, str]:
    return {
        name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers if name not in _NOT_FORWARDED
    }
