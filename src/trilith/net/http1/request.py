"""One request as an application sees it: read the body (`request_body`), answer once.

Rule 1: exactly one answer. A second one is a bug and raises; one to a client that has gone is dropped.
Rule 2: all methods are called on the loop's thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Final

from trilith.core.logs import Accesses
from trilith.errors import Bug, InvalidInput, QueueFull, ServiceError, TrilithError
from trilith.net.held_bytes import LARGE_BYTES
from trilith.net.http1.outbound import Buffer
from trilith.net.http1.request_body import ReadableRequest
from trilith.net.http1.request_head import ANSWERED, GONE, OPEN, STREAMING
from trilith.net.http1.streaming import StreamedAnswer, begin_answer, send_stream
from trilith.net.http1.waiting import Listener
from trilith.net.request_log import http_answered, http_failed
from trilith.wire.http1 import Refusal, RequestReader
from trilith.wire.http_status import http_status, retry_after

if TYPE_CHECKING:
    from trilith.net.http1.connection import HttpConnection

_JSON: Final = b"application/json"


class HttpRequest(ReadableRequest, eq=False):
    """A request, and the way to answer it. What it has is listed at `RequestHead`."""

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
        if self._phase != OPEN:
            if self._phase == GONE:
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
        self._phase = ANSWERED
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
        if self._phase == GONE:
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
        elif self._phase == STREAMING:
            self._phase = GONE
            self._let_go()
            self._tell_end()
            self._connection.abort()

    def begin_stream(self) -> bool:
        """Moves from open to streaming. Returns False when the client has gone.

        Raises:
            Bug: it has been answered before.
        """
        if self._phase == GONE:
            return False
        if self._phase != OPEN:
            raise Bug(f"{self!r}: answered twice")
        self._phase = STREAMING
        return True

    def end_stream(self) -> None:
        """Moves from streaming to answered."""
        self._phase = ANSWERED
        self._let_go()
        self.on_disconnect = None
        self._tell_end()

    @property
    def finished(self) -> bool:
        """Whether nothing more will be sent."""
        return self._phase >= ANSWERED

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
        self._phase = GONE
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
        if self._phase == OPEN:
            callback, self.on_disconnect = self.on_disconnect, None
            self.respond_error(error)
            self.on_disconnect = callback
            return self.client_gone()
        if self._phase != STREAMING:
            return None
        if self.on_give_up is not None:
            self.on_give_up(error)
            return None
        callback = self.client_gone()
        self._connection.count_aborted_stream()
        self._connection.abort()
        return callback

    def _tell_end(self) -> None:
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end()


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
