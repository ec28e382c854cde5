"""One request as an application sees it: read the body, answer once.

Rule 1: exactly one answer. A second one is a bug and raises; one to a client that has gone is dropped.
Rule 2: reading holds the client back: what is not read is not taken from the socket beyond `read_ahead_bytes`.
Rule 3: all methods are called on the loop's thread.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from trilith.core.identity import Identity
from trilith.core.logs import Accesses
from trilith.errors import Bug, InvalidInput, PayloadTooLarge, QueueFull, ServiceError, TrilithError
from trilith.net.held_bytes import LARGE_BYTES
from trilith.net.http1.outbound import Buffer
from trilith.net.http1.streaming import StreamedAnswer, begin_answer, send_stream
from trilith.net.http1.waiting import Listener
from trilith.net.request_log import http_answered, http_failed
from trilith.wire.http1 import InboundBody, Refusal, RequestReader
from trilith.wire.http_status import http_status, retry_after

if TYPE_CHECKING:
    from trilith.net.http1.connection import HttpConnection
    from trilith.net.http1.port import HttpSink, Switching
    from trilith.net.http1.websocket_connection import WebSocketConnection

_OPEN: Final = 0
_STREAMING: Final = 1
_ANSWERED: Final = 2
_GONE: Final = 3

_JSON: Final = b"application/json"


class HttpRequest(msgspec.Struct, eq=False):  # a Struct is made in a fifth of the time: it has many fields
    """A request, and the way to answer it.

    Attributes:
        method: `GET`, `POST` ...
        path: the raw target before `?`, not percent-decoded.
        query: the raw target after `?`, or "".
        headers: (lower-case name, value) in the order received; values may hold any byte above 0x7f.
        content_length: the declared length of the body in bytes, or None.
        request_id: the client's `x-request-id` if it sent a printable one, else a new id; the answer carries it.
        received_at: the monotonic instant, in seconds, when the whole request was here, or when the application was
            called before that.
        complete: the whole body is here.
        identity: who the client is, when an application has found that out.
        body_limit: the longest body that this client may send, when that is less than the server's; None for no less.
        on_end: set by an application; called once when the request is answered to its end, or its client has gone.
        on_disconnect: set by an application that answers later without a task; called once if the client goes before.
        on_give_up: set by an application that writes a streamed answer: it ends it with this error, in the answer's own
            form, when the server stops and waits no longer. Without it such an answer is cut.
        switches: the connection, while the client asks to become a websocket (see `WebSocket`) and has no answer yet.
        websocket: what became of it.
        binary_form: set by an application: the content type of a binary answer of the models, up to how many bytes of
            it are JSON; b"" for the usual one.
    """

    _connection: HttpSink
    method: str
    path: str
    query: str
    headers: list[tuple[bytes, bytes]]
    content_length: int | None
    request_id: str
    # For the connection.
    keep_alive: bool
    http10: bool
    _awaits_continue: bool
    queued: bool = False
    refusal: Refusal | None = None
    # How far it is.
    received_at: float = 0.0
    complete: bool = False
    identity: Identity | None = None
    body_limit: int | None = None
    on_end: Callable[[], None] | None = None
    on_disconnect: Callable[[], None] | None = None
    on_give_up: Callable[[TrilithError], None] | None = None
    switches: Switching | None = None
    websocket: WebSocketConnection | None = None
    binary_form: bytes = b""
    _body: InboundBody | None = None
    _phase: int = _OPEN
    _task: asyncio.Task[None] | None = None
    _waiter: asyncio.Future[None] | Listener | None = None
    _failure: TrilithError | None = None
    _held_bytes: int = 0

    def __repr__(self) -> str:
        phase = ("open", "streaming", "answered", "gone")[self._phase]
        return f"<HttpRequest {self.request_id} {self.method} {self.path} {phase}>"

    @property
    def peer(self) -> str:
        """The client's address, `host:port`."""
        return self._connection.peer

    @property
    def local(self) -> str:
        """The address that the client called, `host:port`."""
        return self._connection.local

    @property
    def secure(self) -> bool:
        """Whether it came over TLS."""
        return self._connection.secure

    @property
    def http_version(self) -> str:
        """`1.0`, `1.1` or `2`."""
        if self._connection.http2:
            return "2"
        return "1.0" if self.http10 else "1.1"

    @property
    def max_body_bytes(self) -> int:
        """The longest body that the server takes."""
        return self._least(self._connection.limits.max_body_bytes)

    @property
    def client_certificate(self) -> Mapping[str, object] | None:
        """The verified certificate of a TLS client, as `ssl.SSLSocket.getpeercert` gives it; None without one."""
        return self._connection.client_certificate

    @property
    def answered(self) -> bool:
        """Whether an answer was given or has begun."""
        return self._phase == _ANSWERED or self._phase == _STREAMING

    @property
    def gone(self) -> bool:
        """Whether the client went away before the answer was complete."""
        return self._phase == _GONE

    def header(self, name: bytes) -> bytes | None:
        """The first value of the header `name` (lower case), or None."""
        for key, value in self.headers:
            if key == name:
                return value
        return None

    # Reading.

    def body_nowait(self) -> bytes | memoryview:
        """The whole body, when `complete`.

        Raises:
            PayloadTooLarge: it is longer than `body_limit`.
            Bug: the body is not complete, or was read in chunks.
        """
        body = self._body
        if body is None:
            if self.complete:
                return b""
        elif body.complete and body.buffered == body.received:
            if self.body_limit is not None and body.received > self.body_limit:
                raise _too_large(self.body_limit)
            return body.whole()
        raise Bug(f"{self!r}: body_nowait() needs a complete body that was not read before: use `await body()`")

    async def body(self, limit: int | None = None) -> bytes | memoryview:
        """The whole body; a view that cannot be written when it is long.

        Args:
            limit: greatest length in bytes, if lower than the server's `max_body_bytes`.

        Raises:
            PayloadTooLarge: it is longer than the limit.
            InvalidInput: it is malformed or was cut off.
        """
        maximum = self.max_body_bytes
        if limit is not None and limit < maximum:
            maximum = limit
        if self.content_length is not None and self.content_length > maximum:
            raise _too_large(maximum)
        body = self._body
        if body is None:
            return b""
        body.allowance = maximum
        body.gather()
        while not body.complete and body.received <= maximum:
            await self._more()
        if body.received > maximum:
            body.allowance = 0
            raise _too_large(maximum)
        return self.body_nowait()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives; the client is held while nobody reads.

        Raises:
            PayloadTooLarge: it turned out to be longer than the server's `max_body_bytes`.
            InvalidInput: it is malformed or was cut off.
        """
        body = self._body
        while body is not None:
            if self.body_limit is not None and body.received > self.body_limit:
                body.allowance = 0
                raise _too_large(self.body_limit)
            if body.buffered:
                chunk = body.take()
                self._hold(body)
                self._connection.update_reading()
                yield chunk
            elif body.complete:
                return
            else:
                await self._more()

    def _least(self, maximum: int) -> int:
        return maximum if self.body_limit is None else min(maximum, self.body_limit)

    def when_body(self, callback: Callable[[], None], *, endless: bool = True) -> None:
        """For who reads a stream without a task: calls back whenever some of it came, its end did, or it broke off.

        `take_body` is then to be called, and `body_failure` and `body_ended` to be looked at. `ignore_body` ends it.

        Args:
            callback: as above.
            endless: the body may be longer than the server's limit (`body_limit` holds), and its client silent for any
                time: the reader bounds both.

        Raises:
            Bug: somebody else reads it.
        """
        self._read_on()
        if endless:
            self._connection.endless_body()
        self._waiter = Listener(callback)
        self._connection.update_reading()

    def ignore_body(self) -> None:
        """Nobody reads the rest of the body."""
        if isinstance(self._waiter, Listener):
            self._waiter = None

    def take_body(self) -> bytes:
        """What is here of the body and was not taken; b"" when nothing is."""
        body = self._body
        if body is None or not body.buffered:
            return b""
        taken = body.take()
        self._hold(body)
        self._connection.update_reading()
        return taken

    @property
    def body_ended(self) -> bool:
        """Whether the body is complete and all of it was taken."""
        return self.complete and (self._body is None or not self._body.buffered)

    @property
    def body_failure(self) -> TrilithError | None:
        """Why the rest of the body will not come, or is not taken; None while it may be."""
        body, limit = self._body, self.body_limit
        if self._failure is None and body is not None and limit is not None and body.received > limit:
            return _too_large(limit)
        return self._failure

    async def _more(self) -> None:
        if self._failure is not None:
            # A copy: one that was raised knows the frames that it went through, and they know this request.
            raise copy.copy(self._failure)
        self._read_on()
        connection = self._connection
        waiter = self._waiter = connection.loop.create_future()
        connection.update_reading()
        try:
            await waiter
        finally:
            self._waiter = None

    def _read_on(self) -> None:
        if self._waiter is not None:
            raise Bug(f"{self!r}: two tasks read one body")
        if self._awaits_continue:
            self._awaits_continue = False
            self._connection.send_continue()

    # Answering.

    def respond(
        self,
        status: int,
        body: Buffer = b"",
        *,
        content_type: bytes = _JSON,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        """Sends the whole answer. Does nothing when the client has gone.

        Args:
            status: 200 to 599.
            body: not copied when it is long, so do not change it afterwards. Not sent for HEAD, 204 and 304.
            content_type: value of the `content-type` header; b"" for none.
            headers: further headers. Those that frame the message are the server's and refused.

        Raises:
            ServiceError: the status, the body or a header cannot be sent; the request is still open then.
            Bug: it has been answered before.
        """
        if self._phase != _OPEN:
            if self._phase == _GONE:
                return
            raise Bug(f"{self!r}: answered twice")
        if type(body) is not bytes:
            body = _buffer(body)
        connection = self._connection
        if len(body) > LARGE_BYTES and connection.share.met:
            self.respond_error(QueueFull(f"the answer ({len(body)} bytes) is not kept: {connection.share.refuse()}"))
            return
        if status >= 400:
            http_failed(self, status, body)
        if connection.answer_headers is not None:
            headers = connection.answer_headers(self, headers)
        keep = connection.will_keep(self)
        head = connection.heads.sized(
            status, content_type, len(body), self.request_id, headers, keep=keep, http10=self.http10
        )
        self._phase = _ANSWERED
        self.on_disconnect = None
        if self.method == "HEAD" or status == 204 or status == 304:
            body = b""
        if self._held_bytes:
            self._let_go()
        connection.send_answer(self, status, head, body, keep=keep)
        if Accesses.on:
            http_answered(self, status, len(body))
        if self.on_end is not None:
            self._tell_end()

    def respond_error(self, error: TrilithError, *, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        """Sends an error in its server's form, with the status that its class has in HTTP, and `headers` beside it."""
        seconds = retry_after(error)
        if seconds is not None:
            headers = (*headers, (b"retry-after", seconds))
        refused = self.refusal
        status = http_status(error)
        if refused is not None and self._is_failure(error):
            status = refused.status
            headers = (*headers, *refused.headers)
        status, body = self._connection.error_form(self, error, status)
        self.respond(status, body, headers=headers)

    async def stream(
        self,
        chunks: AsyncIterator[bytes],
        *,
        status: int = 200,
        content_type: bytes = b"text/event-stream",
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        """Sends an answer of unknown length as it is produced; the producer waits while the client is slow.

        The head goes out with the first chunk (an empty one sends the head alone), so an error before it becomes an
        ordinary error answer. An error after it cuts the connection: the client never takes a part for the whole.
        `chunks` is closed in every case.

        Args:
            chunks: what to send, in pieces of any size.
            status: 200 to 599, not 204 or 304.
            content_type: value of the `content-type` header.
            headers: as for `respond`.

        Raises:
            Cancelled: the client went away.
            ServiceError, Bug: as for `respond`; and whatever `chunks` raises.
        """
        await send_stream(self, self._connection, chunks, status, content_type, headers)

    def begin(
        self,
        status: int,
        *,
        content_type: bytes,
        headers: Sequence[tuple[bytes, bytes]] = (),
        size_bytes: int | None = None,
    ) -> StreamedAnswer | None:
        """Sends the head of an answer, for who writes it by callbacks; None: the client has gone.

        Args:
            status: 200 to 599.
            content_type: value of the `content-type` header; b"" for none.
            headers: as for `respond`.
            size_bytes: the length of its body (in answer to HEAD: of what GET would get), which it must come to; None
                for an unknown one.

        Raises:
            ServiceError: the status or a header cannot be sent; the request is still open then.
            Bug: it has been answered before.
        """
        return begin_answer(self, self._connection, status, content_type, headers, size_bytes)

    def log_failure(self, status: int, body: bytes) -> None:
        """Enters a failure that is told otherwise than by an answer into the log of requests.

        Args:
            status: that it would have had.
            body: its JSON.
        """
        http_failed(self, status, body)

    def _is_failure(self, error: TrilithError) -> bool:
        failure = self._failure
        return failure is not None and type(error) is type(failure) and error.message == failure.message

    # For the server.

    def attach(self, task: asyncio.Task[None]) -> None:
        """The task that answers: it is cancelled when the client goes away, but that of a websocket (see there)."""
        if self.websocket is None:
            self._task = task
        if self._phase == _GONE:
            task.cancel()

    def detach(self) -> None:
        """The task has ended. What it raised knows its frames, and they know this request."""
        self._task = None

    def said(self, headers: Sequence[tuple[bytes, bytes]]) -> Sequence[tuple[bytes, bytes]]:
        """The headers of an answer that has these: those, and what is said in every answer."""
        everywhere = self._connection.answer_headers
        return headers if everywhere is None else everywhere(self, headers)

    def end_websocket(self, *, gone: bool) -> None:
        """What it became is over. `gone`: it was not this side that closed it."""
        if gone:
            callback = self.client_gone()
            if callback is not None:
                Listener(callback).set_result(None)
        else:
            self.end_stream()

    def abort(self) -> None:
        """Cuts the connection in the middle of a streamed answer; does nothing at any other time."""
        if self.websocket is not None:
            self.websocket.fail()
        elif self._phase == _STREAMING:
            self._phase = _GONE
            self._let_go()
            self._tell_end()
            self._connection.abort()

    def begin_stream(self) -> bool:
        """Moves from open to streaming. Returns False when the client has gone.

        Raises:
            Bug: it has been answered before.
        """
        if self._phase == _GONE:
            return False
        if self._phase != _OPEN:
            raise Bug(f"{self!r}: answered twice")
        self._phase = _STREAMING
        return True

    def end_stream(self) -> None:
        """Moves from streaming to answered."""
        self._phase = _ANSWERED
        self._let_go()
        self.on_disconnect = None
        self._tell_end()

    def accept_body(self, body: InboundBody) -> None:
        """A body is coming, into `body`."""
        self._body = body

    @property
    def inbound(self) -> InboundBody | None:
        """The body as far as it is here; None when the request has none."""
        return self._body

    @property
    def awaits_continue(self) -> bool:
        """Whether the client waits for `100 Continue`."""
        return self._awaits_continue

    def body_arrived(self, chunk: bytes) -> None:
        """Some of the body is here."""
        self._awaits_continue = False  # the client did not wait
        body = self._body
        if body is not None:
            body.add(chunk)
            self._hold(body)
        if self._waiter is not None:
            self._wake()

    def finish_body(self, now: float) -> None:
        """The body is complete."""
        self.complete = True
        if self._body is not None:
            self._body.complete = True
        if not self.queued:
            self.received_at = now
        if self._waiter is not None:
            self._wake()

    @property
    def finished(self) -> bool:
        """Whether nothing more will be sent."""
        return self._phase >= _ANSWERED

    def refuse(self, refusal: Refusal) -> None:
        """The server refuses the request, or the rest of its body: whoever reads it gets the refusal as an error."""
        self.refusal = refusal
        self.keep_alive = False
        self._failure = refusal.error()
        self._wake()

    def respond_refusal(self) -> None:
        """Answers a refused request that no application has seen."""
        if self._failure is not None:
            self.respond_error(self._failure)

    def client_gone(self) -> Callable[[], None] | None:
        """The client is gone: cancels the task that answers. Returns the application's `on_disconnect`, once."""
        self._phase = _GONE
        self._let_go()
        if not self.complete and self._failure is None:
            self._failure = InvalidInput("the client closed the connection before its request was complete")
        if not self.complete and self._body is not None:
            self._body.discard()  # half of it is of no use to anybody
        self._wake()
        self._tell_end()
        if self._task is not None:
            self._task.cancel()
        callback, self.on_disconnect = self.on_disconnect, None
        return callback

    def give_up(self, error: TrilithError) -> Callable[[], None] | None:
        """The server waits no longer: answers with `error`, or ends the answer that has begun; then as `client_gone`.

        Does nothing when the answer is given.
        """
        if self._phase == _OPEN:
            callback, self.on_disconnect = self.on_disconnect, None
            self.respond_error(error)
            self.on_disconnect = callback
            return self.client_gone()
        if self._phase != _STREAMING:
            return None
        if self.on_give_up is not None:
            self.on_give_up(error)
            return None
        callback = self.client_gone()
        self._connection.count_aborted_stream()
        self._connection.abort()
        return callback

    def drop_body(self) -> None:
        """Nobody will read the body: what is here of it is let go, and what comes is dropped."""
        if self._body is not None:
            self._body.discard()
            self._hold(self._body)

    def let_body_go(self) -> None:
        """Who has read the whole body needs it no more; it counts as held to the end, for what was made of it.

        `body` and `body_nowait` raise from then on.
        """
        if self._body is not None:
            self._body.take()

    def _hold(self, body: InboundBody) -> None:
        size = body.buffered if self._phase < _ANSWERED else 0
        self._connection.share.take(size - self._held_bytes)
        self._held_bytes = size

    def _let_go(self) -> None:
        self._connection.share.take(-self._held_bytes)
        self._held_bytes = 0

    def _tell_end(self) -> None:
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


def request_of(connection: HttpConnection, reader: RequestReader, request_id: str) -> HttpRequest:
    """The request whose head `reader` has read."""
    return HttpRequest(
        connection,
        reader.method,
        reader.path,
        reader.query,
        reader.headers,
        reader.content_length,
        request_id,
        reader.keep_alive,
        reader.http10,
        reader.expects_continue,
    )


def _buffer(body: Buffer) -> Buffer:
    if not isinstance(body, bytes | bytearray | memoryview):
        raise ServiceError(f"the body of an answer must be bytes, bytearray or memoryview, got {type(body).__name__}")
    if isinstance(body, memoryview):
        return body.cast("B") if body.c_contiguous else body.tobytes()
    return body


def _too_large(maximum: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the request body is longer than {maximum} bytes")
