"""The Open Inference Protocol over HTTP: JSON and binary tensors.

`OipHttp(runtime)` is an `HttpApp` for the paths under `/v2`. Inference takes no task: the request is decoded and
submitted in the call, and answered from the runtime's callback. Only a body that is still arriving is awaited.

Rule: every request gets one answer in the protocol's form, whatever goes wrong here. What takes GET takes HEAD.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from trilith.core.clock import Clock
from trilith.core.request import InferResponse
from trilith.errors import Bug, InvalidInput, MethodNotAllowed, TrilithError, UnknownModel, UnsupportedMediaType
from trilith.runtime.protocol import describe
from trilith.runtime.protocol.exchange import TIMELINE_KEY, Exchange, Front
from trilith.runtime.protocol.routes import Route, Routes
from trilith.telemetry import RequestMetrics
from trilith.wire.http_status import NOT_READY_STATUS, http_status, oip_error_body, retry_after
from trilith.wire.oip_binary import HEADER_LENGTH
from trilith.wire.oip_http import decode_request, encode_response
from trilith.wire.oip_json import loads
from trilith.wire.oip_parameters import InferCall

if TYPE_CHECKING:
    from trilith.net.http1 import HttpRequest
    from trilith.runtime.protocol.port import RuntimePort

_log: Final = logging.getLogger(__name__)
_ENCODING_HEADER: Final = b"content-encoding"
_READ: Final = frozenset((HEADER_LENGTH, TIMELINE_KEY, _ENCODING_HEADER))
_BINARY: Final = b"application/octet-stream"
_ALLOW: Final = {"GET": b"GET, HEAD", "POST": b"POST"}
_METHODS: Final = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"))


class OipHttp:
    """The routes under `/v2`.

    Args:
        runtime: the models.
        server_name: what the server metadata calls this server.
        metrics: where requests are counted, or None.
        clock: the source of instants, or None for the machine's.
    """

    def __init__(
        self,
        runtime: RuntimePort,
        *,
        server_name: str = "trilith",
        metrics: RequestMetrics | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._front = Front(runtime, "http", metrics, clock)
        self._runtime = runtime
        self._server_name = server_name
        self._routes = Routes()

    def __call__(self, request: HttpRequest) -> Coroutine[Any, Any, None] | None:
        """Answers, or will answer from a callback (None), or has to read the body first (a coroutine)."""
        try:
            route = self._routes.find(request.path)
        except TrilithError as error:
            self._refuse(request, error)
            return None
        if request.method != route.method and (request.method, route.method) != ("HEAD", "GET"):
            self._refuse(request, _not_allowed(request, route), headers=((b"allow", _ALLOW[route.method]),))
            return None
        if route.endpoint == "infer":
            exchange = _HttpExchange(self._front, request, route)
            if request.complete:
                request.on_disconnect = exchange.abandon
                exchange.start()
                return None
            return _infer_late(exchange)
        if route.method == "POST":
            return self._answer_late(request, route)
        self._answer(request, route, b"")
        return None

    async def _answer_late(self, request: HttpRequest, route: Route) -> None:
        try:
            body = await request.body()
        except TrilithError as error:
            self._refuse(request, error, route.endpoint)
            return
        self._answer(request, route, body)

    def _answer(self, request: HttpRequest, route: Route, body: bytes) -> None:
        try:
            status, answer = self._describe(route, body)
        except TrilithError as error:
            self._refuse(request, error, route.endpoint)
            return
        except Exception:  # noqa: BLE001 - a bug of ours, which is logged: the caller gets the protocol's own answer
            _log.exception("answering %s failed", route.endpoint)
            self._refuse(request, Bug(f"{route.endpoint} failed; the server's log says more"), route.endpoint)
            return
        self._front.began()
        try:
            request.respond(status, answer)
        finally:
            self._front.ended(route.endpoint, request.method, str(status), None)

    def _describe(self, route: Route, body: bytes) -> tuple[int, bytes]:
        """The status and JSON of every endpoint but inference."""
        runtime = self._runtime
        match route.endpoint:
            case "server_metadata":
                return 200, orjson.dumps(describe.server_metadata(self._server_name))
            case "live":
                return 200, b'{"live":true}'
            case "ready":
                return (200, b'{"ready":true}') if runtime.ready else (NOT_READY_STATUS, b'{"ready":false}')
            case "model_ready":
                return self._model_ready(route)
            case "model_config":
                model = describe.ready_model(runtime, route.model, route.version)
                return 200, orjson.dumps(describe.config(model.config_proto()))
            case "model_statistics":
                runtime.model(route.model, route.version)
                return 200, orjson.dumps(describe.statistics(runtime, route.model, route.version))
            case "statistics":
                return 200, orjson.dumps(describe.statistics(runtime))
            case "repository_index":
                return 200, orjson.dumps(describe.repository_index(runtime, ready_only=_ready_only(body)))
            case _:
                return 200, orjson.dumps(
                    describe.model_metadata(describe.ready_model(runtime, route.model, route.version))
                )

    def _model_ready(self, route: Route) -> tuple[int, bytes]:
        try:
            ready = describe.is_ready(self._runtime.model(route.model, route.version))
        except UnknownModel:
            ready = False
        if ready:
            return 200, orjson.dumps({"name": route.model, "ready": True})
        return NOT_READY_STATUS, orjson.dumps({"error": "Model version not ready", "name": route.model, "ready": False})

    def _refuse(
        self,
        request: HttpRequest,
        error: TrilithError,
        endpoint: str = "none",
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        method = request.method if request.method in _METHODS else "other"
        self._front.began()
        try:
            _respond_error(request, error, request.request_id, headers)
        finally:
            self._front.ended(endpoint, method, str(http_status(error)), None)


class _HttpExchange(Exchange):
    """One `POST .../infer`."""

    __slots__ = ("_body", "_headers", "_request", "_route")

    def __init__(self, front: Front, request: HttpRequest, route: Route) -> None:
        self._headers = {name: value for name, value in request.headers if name in _READ}
        super().__init__(front, request.received_at, request.request_id)
        self._request = request
        self._route = route
        self._body: bytes | None = None

    @property
    def method(self) -> str:
        return "POST"

    async def read(self) -> None:
        """Waits for the body."""
        self._body = await self._request.body()
        self.timeline.stamps[0] = (self.timeline.stamps[0][0], self.front.now())

    def decode(self) -> InferCall:
        headers = self._headers
        encoding = headers.get(_ENCODING_HEADER, b"identity")
        if encoding != b"identity":
            raise UnsupportedMediaType(
                f"Content-Encoding {encoding.decode('latin-1')[:40]!r} is not read here; send the body as it is"
            )
        route = self._route
        self.signature = signature = self.front.signature(route.model, route.version)
        body = self._request.body_nowait() if self._body is None else self._body
        return decode_request(body, signature, version=route.version, json_length=headers.get(HEADER_LENGTH))

    def deadline(self, timeout_s: float | None) -> float | None:
        return None if timeout_s is None else self.timeline.stamps[0][1] + timeout_s

    def answer(self, response: InferResponse) -> None:
        body, json_bytes = encode_response(response, self.signature, self.call)
        self.stamp_answer()
        headers = self._timeline_headers()
        if json_bytes is None:
            self._request.respond(200, body, headers=headers)
        else:
            headers.append((HEADER_LENGTH, b"%d" % json_bytes))
            self._request.respond(200, body, content_type=_BINARY, headers=headers)
        self.close("200")

    def fail(self, error: TrilithError) -> None:
        _respond_error(self._request, error, self.request_id, self._timeline_headers())

    def status_of(self, error: TrilithError) -> str:
        return str(http_status(error))

    def _timeline_headers(self) -> list[tuple[bytes, bytes]]:
        return self.timeline_metadata() if self._headers.get(TIMELINE_KEY) == b"1" else []


def _not_allowed(request: HttpRequest, route: Route) -> MethodNotAllowed:
    return MethodNotAllowed(f"Method Not Allowed: {request.path[:200]} takes {route.method}, got {request.method[:20]}")


def _respond_error(
    request: HttpRequest, error: TrilithError, request_id: str, headers: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    """The one way in which an error is answered."""
    seconds = retry_after(error)
    if seconds is not None:
        headers = (*headers, (b"retry-after", seconds))
    request.respond(http_status(error), oip_error_body(error, request_id), headers=headers)


async def _infer_late(exchange: _HttpExchange) -> None:
    """Reads a body that is still arriving, then does what the fast path does, and waits for the answer."""
    try:
        await exchange.read()
    except TrilithError as error:
        exchange.reject(error)
        return
    over = asyncio.Event()
    exchange.on_over = over.set
    exchange.start()
    try:
        await over.wait()
    except asyncio.CancelledError:
        exchange.abandon()
        raise


def _ready_only(body: bytes) -> bool:
    """The body of a repository index request: nothing, or `{"ready": true}`."""
    if not body.strip():
        return False
    message = loads(body)
    ready = message.get("ready", False) if isinstance(message, dict) else None
    if not isinstance(ready, bool):
        raise InvalidInput("Invalid value for 'ready': expected a boolean in a JSON object")
    return ready
