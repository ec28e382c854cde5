"""One inference request over HTTP: `infer`, `generate` and `generate_stream`.

Rule: an answer is compressed off the loop when it is long, and only when the client asked for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from trilith.core.request import InferResponse
from trilith.core.timeline import TIMELINE_HEADER
from trilith.errors import ExecutionError, PayloadTooLarge, TrilithError
from trilith.runtime.protocol.exchange import Exchange, Front
from trilith.runtime.protocol.inflation import Inflation
from trilith.runtime.protocol.routes import Route
from trilith.telemetry import TRACEPARENT
from trilith.wire.http_status import oip_error_body, retry_after
from trilith.wire.oip_binary import HEADER_LENGTH
from trilith.wire.oip_compression import accepted_coding, compressed, content_coding
from trilith.wire.oip_generate import decode_generate, encode_generate, server_sent_event
from trilith.wire.oip_http import decode_request, encode_response
from trilith.wire.oip_parameters import InferCall
from trilith.wire.oip_status import NoRoomForModel, oip_http_status, oip_text, says_no_room

if TYPE_CHECKING:
    from trilith.net.http1 import HttpRequest

CONTENT_ENCODING: Final = b"content-encoding"
_ACCEPT_ENCODING: Final = b"accept-encoding"
_TRACEPARENT: Final = TRACEPARENT.encode()
_READ: Final = frozenset((HEADER_LENGTH, TIMELINE_HEADER, CONTENT_ENCODING, _ACCEPT_ENCODING, _TRACEPARENT))
_JSON: Final = b"application/json"
_BINARY: Final = b"application/octet-stream"
_EVENTS: Final = b"text/event-stream; charset=utf-8"
_TOO_LARGE: Final = "request JSON size exceeds the maximum allowed input size"
_SIZE_OPTION: Final = "--http-max-input-size"
_MIN_COMPRESSED_BYTES: Final = 256  # a shorter answer grows
_OFF_LOOP_BYTES: Final = 64 << 10
_KEPT_BYTES: Final = 64 << 10

Headers = list[tuple[bytes, bytes]]


class HttpExchange(Exchange):
    """One `POST .../infer`."""

    __slots__ = ("_body", "_headers", "_inflated_bytes", "_inflation", "_request", "_route")

    def __init__(self, front: Front, request: HttpRequest, route: Route, inflation: Inflation) -> None:
        self._headers = {name: value for name, value in request.headers if name in _READ}
        super().__init__(front, request.received_at, request.request_id)
        self._request = request
        self._route = route
        self._inflation = inflation
        self._inflated_bytes = 0
        self._body: bytes | memoryview | None = None
        if front.tracer is not None:
            given = self._headers.get(_TRACEPARENT, b"").decode("latin-1")
            self.span = span = front.tracer.sample(given, request.request_id, identity=request.identity)
            if span is not None:
                span.name = f"{route.model}.{route.endpoint}"

    @property
    def method(self) -> str:
        """The only one that these endpoints take."""
        return "POST"

    @property
    def endpoint(self) -> str:
        """The route's."""
        return self._route.endpoint

    @property
    def must_read(self) -> bool:
        """Whether the body is still arriving, or is compressed: then `read` it first."""
        return not self._request.complete or CONTENT_ENCODING in self._headers

    async def read(self) -> None:
        """Waits for the body, and takes its compression off."""
        coding = content_coding(self._headers.get(CONTENT_ENCODING))
        body = await self._request.body()
        if coding is not None:
            body = await self._inflation.inflate(body, coding)
            self._inflated_bytes = len(body)
        self._body = body
        self.timeline.stamps[0] = (self.timeline.stamps[0][0], self.front.now())

    def decode(self) -> InferCall:
        """The message, with the headers that become parameters."""
        route = self._route
        self.signature = self.front.signature(route.model, route.version)
        body = self._request.body_nowait() if self._body is None else self._body
        call = self.decode_body(body)
        if len(body) > _KEPT_BYTES:  # tensors that could not be views of it are copies: it would be held twice
            self._body = None
            self._request.let_body_go()
        if self.front.forwarding is not None:
            self.front.forwarding.apply(self._request.headers, call)
        return call

    def decode_body(self, body: bytes | memoryview) -> InferCall:
        """Reads the message."""
        json_length = self._headers.get(HEADER_LENGTH)
        return decode_request(body, self.signature, version=self._route.version, json_length=json_length)

    def answer(self, response: InferResponse) -> None:
        """Sends the answer in the coding that the client accepts."""
        body, json_bytes = encode_response(response, self.signature, self.call)
        coding = accepted_coding(self._headers.get(_ACCEPT_ENCODING)) if len(body) >= _MIN_COMPRESSED_BYTES else None
        if coding is None:
            self.stamp_answer()
            self._send(body, json_bytes, self.answer_headers())
        elif len(body) < _OFF_LOOP_BYTES:
            body = compressed(body, coding)
            self.stamp_answer()
            self._send(body, json_bytes, [*self.answer_headers(), (CONTENT_ENCODING, coding)])
        else:
            self._send_later(body, json_bytes, coding)

    def fail(self, error: TrilithError, message: str) -> None:
        """Sends the error as JSON."""
        if isinstance(error, PayloadTooLarge):
            message = size_text(self._request, error, compat=self.front.compat)
        respond_error(
            self._request,
            error,
            self._status(error),
            oip_error_body(error, self.request_id, message),
            self.answer_headers(),
        )

    def status_of(self, error: TrilithError) -> str:
        """The HTTP status."""
        return str(self._status(error))

    def _status(self, error: TrilithError) -> int:
        """A cloud that calls by its own paths unloads other models, and tries again, where one finds no room."""
        if self._request.binary_form and isinstance(error, ExecutionError) and says_no_room(error.message):
            error = NoRoomForModel(error.message)
        return oip_http_status(error, compat=self.front.compat)

    def close(self, status: str) -> None:
        """Marks the end and counts it."""
        if self._inflated_bytes:
            self._inflation.release(self._inflated_bytes)
            self._inflated_bytes = 0
        super().close(status)

    def answer_headers(self) -> Headers:
        """The timeline, where it was asked for, and the trace of a request that is traced."""
        return self.answer_metadata(timeline=self._headers.get(TIMELINE_HEADER) == b"1")

    def _send(self, body: bytes, json_bytes: int | None, headers: Headers) -> None:
        if json_bytes is None:
            self._request.respond(200, body, headers=headers)
        else:
            headers.append((HEADER_LENGTH, b"%d" % json_bytes))
            form = self._request.binary_form
            self._request.respond(
                200, body, content_type=b"%s%d" % (form, json_bytes) if form else _BINARY, headers=headers
            )
        self.close("200")

    def _send_later(self, body: bytes, json_bytes: int | None, coding: bytes) -> None:
        """Compresses in a thread; whoever leaves meanwhile gets nothing."""

        def done(work: asyncio.Future[bytes]) -> None:
            if self.over:
                return
            try:
                self.stamp_answer()
                self._send(work.result(), json_bytes, [*self.answer_headers(), (CONTENT_ENCODING, coding)])
            except Exception as error:  # noqa: BLE001 - called by the loop: this request must get its one answer
                self.unanswerable(error)

        loop = asyncio.get_running_loop()
        loop.run_in_executor(None, compressed, body, coding).add_done_callback(done)


class GenerateExchange(HttpExchange):
    """One `POST .../generate` or `.../generate_stream`, of a model that gives one answer."""

    __slots__ = ()

    def decode_body(self, body: bytes | memoryview) -> InferCall:
        """Reads the message of this extension."""
        return decode_generate(body, self.signature, version=self._route.version)

    def answer(self, response: InferResponse) -> None:
        """Sends one JSON object, as it is or as the only event of a stream."""
        body = encode_generate(response, self.signature)
        streamed = self._route.endpoint == "generate_stream"
        self.stamp_answer()
        self._request.respond(
            200,
            server_sent_event(body) if streamed else body,
            content_type=_EVENTS if streamed else _JSON,
            headers=self.answer_headers(),
        )
        self.close("200")


def size_text(request: HttpRequest, error: TrilithError, *, compat: bool) -> str:
    """The text of an error about how long the body of a request is; that of any other error as it is."""
    if not isinstance(error, PayloadTooLarge) or _SIZE_OPTION in error.message:
        return oip_text(error, compat=compat)
    if not compat:
        return f"{_TOO_LARGE}. Use {_SIZE_OPTION} to increase the limit (here: --max-body-mb): {error.message}"
    size, limit = request.content_length, request.max_body_bytes
    told = f"{_TOO_LARGE} of {limit} bytes. Use {_SIZE_OPTION} to increase the limit."
    return told if size is None else told.replace(" size exceeds", f" size of {size} bytes exceeds", 1)


async def infer_late(exchange: HttpExchange) -> None:
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


def respond_error(
    request: HttpRequest, error: TrilithError, status: int, body: bytes, headers: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    """The one way in which an error is answered."""
    seconds = retry_after(error)
    if seconds is not None:
        headers = (*headers, (b"retry-after", seconds))
    request.respond(status, body, headers=headers)
