"""The Open Inference Protocol over HTTP: JSON and binary tensors.

`OipHttp(runtime)` is an `HttpApp` for the paths under `/v2`. Inference takes no task: the request is decoded and
submitted in the call, and answered from the runtime's callback. Only a body that is still arriving is awaited.

Rule: every request gets one answer in the protocol's form, whatever goes wrong here. What takes GET takes HEAD.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from trilith.core.clock import Clock
from trilith.errors import Bug, MethodNotAllowed, NotFound, TrilithError
from trilith.runtime.protocol import describe, switched_off
from trilith.runtime.protocol.access import Guard
from trilith.runtime.protocol.exchange import Front
from trilith.runtime.protocol.hosted import HOSTED_ENDPOINTS, HostedModels
from trilith.runtime.protocol.http_exchange import GenerateExchange, HttpExchange, infer_late, respond_error, size_text
from trilith.runtime.protocol.inflation import Inflation
from trilith.runtime.protocol.repository import HTTP_ENDPOINTS, answer_http
from trilith.runtime.protocol.routes import Route, Routes
from trilith.telemetry import RequestMetrics, RequestTracer, TimelineShelf
from trilith.wire.http_status import NOT_READY_STATUS, http_status, oip_error_body
from trilith.wire.oip_options import ProtocolOptions
from trilith.wire.oip_status import oip_http_status

if TYPE_CHECKING:
    from trilith.net.http1 import HttpRequest
    from trilith.runtime.protocol.port import RuntimePort

_log: Final = logging.getLogger(__name__)
_LOADS: Final = ("model_metadata", "model_config")  # what must be loaded to be told
_EXITING_STATUS: Final = 503
_METHODS: Final = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"))
_DEFAULTS: Final = ProtocolOptions()
_EXCHANGES: Final = {"infer": HttpExchange, "generate": GenerateExchange, "generate_stream": GenerateExchange}


class OipHttp:
    """The routes under `/v2`.

    Args:
        runtime: the models.
        server_name: what the server metadata calls this server.
        metrics: where requests are counted, or None.
        clock: the source of instants, or None for the machine's.
        timelines: where timelines are kept that are too long for a header: whoever has the HTTP port answers for their
            paths. None for a shelf of its own.
        tracer: samples requests for traces; None traces nothing.
        options: how to behave.
        has_clients: there may be clients of models: the server was given some. Those of services have none.

    Attributes:
        exiting: set when the server stops: it is not ready any more, and still answers.
    """

    def __init__(
        self,
        runtime: RuntimePort,
        *,
        server_name: str = "trilith",
        metrics: RequestMetrics | None = None,
        clock: Clock | None = None,
        timelines: TimelineShelf | None = None,
        tracer: RequestTracer | None = None,
        options: ProtocolOptions = _DEFAULTS,
        has_clients: bool = True,
    ) -> None:
        self._has_clients = has_clients
        self._front = Front(
            runtime,
            "http",
            metrics,
            clock,
            timelines=timelines,
            tracer=tracer,
            compat=options.compat,
            forward_pattern=options.http_header_forward_pattern,
        )
        self._runtime = runtime
        self._compat = options.compat
        self._inflation = Inflation(options.max_body_bytes)
        self._guard = Guard(options.http_restricted) if options.http_restricted else None
        hosts = any(platform.models_path for platform in options.platforms)
        self._hosted = HostedModels(runtime.repository, whole_causes=options.compat) if hosts else None
        self._server_name = options.server_name or ("triton" if options.compat else server_name)
        self.exiting = False
        self._routes = Routes()

    def __call__(self, request: HttpRequest) -> Coroutine[Any, Any, None] | None:
        """Answers, or will answer from a callback (None), or has to read the body first (a coroutine)."""
        try:
            route = self._routes.find(request.path)
            if route.endpoint in HOSTED_ENDPOINTS and self._hosted is None:
                raise NotFound(f"Not Found: there is no endpoint {request.path[:200]!r}")
        except TrilithError as error:
            self._refuse(request, error)
            return None
        if request.method != route.method and not route.takes(request.method):
            self._refuse(request, _not_allowed(request, route), headers=((b"allow", route.allowed.encode()),))
            return None
        if self._guard is not None:
            try:
                self._guard.check(route.endpoint, request.header)
            except TrilithError as error:
                self._refuse(request, error, route.endpoint)
                return None
        kind = _EXCHANGES.get(route.endpoint)
        if kind is not None:
            exchange = kind(self._front, request, route, self._inflation)
            if exchange.must_read:
                return infer_late(exchange)
            request.on_disconnect = exchange.abandon
            exchange.start()
            return None
        if route.endpoint == "model_ready":
            return self._answer_model_ready(request, route)
        if route.endpoint in HOSTED_ENDPOINTS or request.method == "POST":
            return self._answer_late(request, route)
        if route.endpoint in _LOADS and self._runtime.absent(route.model):
            return self._answer_when_present(request, route)
        self._answer(request, route, b"")
        return None

    async def _answer_when_present(self, request: HttpRequest, route: Route) -> None:
        try:
            await describe.present(self._runtime, route.model)
        except TrilithError as error:
            self._refuse(request, error, route.endpoint)
        else:
            self._answer(request, route, b"")

    async def _answer_late(self, request: HttpRequest, route: Route) -> None:
        try:
            body = await request.body()
        except TrilithError as error:
            self._refuse(request, error, route.endpoint)
            return
        if route.endpoint in HTTP_ENDPOINTS or route.endpoint in HOSTED_ENDPOINTS:
            await self._answer_repository(request, route, body)
        else:
            self._answer(request, route, body)

    async def _answer_repository(self, request: HttpRequest, route: Route, body: bytes | memoryview) -> None:
        try:
            if self._hosted is not None and route.endpoint in HOSTED_ENDPOINTS:
                answer = await self._hosted.answer(request.method, route, request.query, body)
            else:
                answer = await answer_http(self._runtime.repository, route, body, whole_causes=self._compat)
        except TrilithError as error:
            self._refuse(request, error, route.endpoint)
            return
        except Exception:  # noqa: BLE001 - a bug of ours, which is logged: the caller gets the protocol's own answer
            _log.exception("answering %s failed", route.endpoint)
            self._refuse(request, Bug(f"{route.endpoint} failed; the server's log says more"), route.endpoint)
            return
        self._front.began()
        try:
            request.respond(200, answer)
        finally:
            self._front.ended(route.endpoint, request.method, "200", None)

    def _answer(self, request: HttpRequest, route: Route, body: bytes | memoryview) -> None:
        try:
            status, answer = self._describe(route, body)
        except TrilithError as error:
            self._refuse(request, error, route.endpoint)
            return
        except Exception:  # noqa: BLE001 - a bug of ours, which is logged: the caller gets the protocol's own answer
            _log.exception("answering %s failed", route.endpoint)
            self._refuse(request, Bug(f"{route.endpoint} failed; the server's log says more"), route.endpoint)
            return
        self._respond(request, route, status, answer)

    def _respond(self, request: HttpRequest, route: Route, status: int, answer: bytes) -> None:
        self._front.began()
        try:
            request.respond(status, answer)
        finally:
            self._front.ended(route.endpoint, request.method, str(status), None)

    def _describe(self, route: Route, body: bytes | memoryview) -> tuple[int, bytes]:
        """The status and JSON of every endpoint but inference."""
        runtime = self._runtime
        switched = switched_off.answer_http(route)
        if switched is not None:
            return 200, switched
        match route.endpoint:
            case "server_metadata":
                return 200, orjson.dumps(describe.server_metadata(self._server_name))
            case "live" | "ready":
                return self._health(route.endpoint)
            case "model_config":
                model = describe.ready_model(runtime, route.model, route.version)
                return 200, orjson.dumps(describe.config(model.config_proto()))
            case "model_statistics":
                runtime.model(route.model, route.version)
                return 200, orjson.dumps(describe.statistics(runtime, route.model, route.version))
            case "statistics":
                return 200, orjson.dumps(describe.statistics(runtime))
            case _:
                return 200, orjson.dumps(
                    describe.model_metadata(describe.ready_model(runtime, route.model, route.version))
                )

    def _health(self, endpoint: str) -> tuple[int, bytes]:
        """A server that stops is not ready; it lives, though Triton says that it does not either."""
        if self.exiting and (endpoint == "ready" or self._compat):
            status, truth = _EXITING_STATUS, b"false"
        elif endpoint == "ready" and not self._runtime.ready:
            status, truth = NOT_READY_STATUS, b"false"
        else:
            status, truth = 200, b"true"
        return status, b"" if self._compat else b'{"%s":%s}' % (endpoint.encode(), truth)

    async def _answer_model_ready(self, request: HttpRequest, route: Route) -> None:
        """A model may have a say in whether it is ready, and take some time to say it."""
        ready = await describe.takes_requests(self._runtime, route.model, route.version)
        status, answer = NOT_READY_STATUS, {"error": "Model version not ready", "name": route.model, "ready": False}
        if ready:
            status, answer = 200, {"name": route.model, "ready": True}
        self._respond(request, route, status, b"" if ready and self._compat else orjson.dumps(answer))

    def error_form(self, request: HttpRequest, error: TrilithError, status: int) -> tuple[int, bytes]:
        """How the server's own refusals are told: as `ErrorForm`, with text under `error` for the paths under `/v2`.

        So is a request without a path where there may be clients of models: those of Triton cannot read another form,
        those of Trilith read both.
        """
        from trilith.net.http1 import usual_form

        path = request.path
        if (path or not self._has_clients) and path != "/v2" and not path.startswith("/v2/"):
            return usual_form(request, error, status)
        if path and status == http_status(error):  # not one that only HTTP itself knows
            status = oip_http_status(error, compat=self._compat)
        text = size_text(request, error, compat=self._compat) if path else error.message
        return status, oip_error_body(error, request.request_id, text)

    def _refuse(
        self,
        request: HttpRequest,
        error: TrilithError,
        endpoint: str = "none",
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        method = request.method if request.method in _METHODS else "other"
        status = oip_http_status(error, compat=self._compat)
        self._front.began()
        try:
            text = size_text(request, error, compat=self._compat)
            respond_error(request, error, status, oip_error_body(error, request.request_id, text), headers)
        finally:
            self._front.ended(endpoint, method, str(status), None)


def _not_allowed(request: HttpRequest, route: Route) -> MethodNotAllowed:
    return MethodNotAllowed(
        f"Method Not Allowed: {request.path[:200]} takes {route.allowed}, got {request.method[:20]}"
    )
