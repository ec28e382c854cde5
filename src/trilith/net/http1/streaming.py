"""A streamed answer: head with the first chunk, backpressure, and no clean end after an error.

`send_stream` is for a task that has chunks; `StreamedAnswer` for callbacks.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING

from trilith.core.logs import Accesses
from trilith.errors import Cancelled
from trilith.net.request_log import http_answered, http_failed
from trilith.wire.http1.head import bodiless

if TYPE_CHECKING:
    from trilith.net.http1.port import HttpSink
    from trilith.net.http1.request import HttpRequest


async def send_stream(
    request: HttpRequest,
    connection: HttpSink,
    chunks: AsyncIterator[bytes],
    status: int,
    content_type: bytes,
    headers: Sequence[tuple[bytes, bytes]],
) -> None:
    """The work behind `HttpRequest.stream`."""
    begun = False
    keep = chunked = False

    def begin() -> None:
        nonlocal begun, keep, chunked
        chunked = not request.http10
        keep = chunked and connection.will_keep(request)
        said = headers if connection.answer_headers is None else connection.answer_headers(request, headers)
        head = connection.heads.unsized(
            status, content_type, request.request_id, said, keep=keep, http10=request.http10
        )
        if not request.begin_stream():
            raise _client_gone()
        begun = True
        connection.begin_answer(status, head)

    try:
        if request.method == "HEAD":
            begin()
        else:
            async for chunk in chunks:
                if not begun:
                    begin()
                if request.gone:
                    raise _client_gone()
                if chunk:
                    connection.send_chunk(chunk, chunked=chunked)
                    if connection.write_paused:
                        await connection.writable()
            if not begun:
                begin()
    except BaseException:
        if begun and not request.gone:
            connection.count_aborted_stream()
            if Accesses.on:
                http_answered(request, status, whole=False)
            request.abort()
        raise
    finally:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()
    if request.gone:
        raise _client_gone()
    request.end_stream()
    connection.end_answer(request, last_chunk=chunked and request.method != "HEAD", keep=keep)
    if Accesses.on:
        http_answered(request, status)


class StreamedAnswer:
    """An answer, written piece by piece. Made by `HttpRequest.begin`, which sends its head.

    Once the client has gone (`HttpRequest.gone`) nothing here does anything.
    """

    __slots__ = ("_bodiless", "_chunked", "_connection", "_keep", "_left_bytes", "_request", "_status")

    def __init__(
        self,
        request: HttpRequest,
        connection: HttpSink,
        status: int,
        *,
        keep: bool,
        chunked: bool,
        size_bytes: int | None,
        bodiless: bool,
    ) -> None:
        self._status = status
        self._request = request
        self._connection = connection
        self._keep = keep
        self._chunked = chunked
        self._left_bytes = size_bytes
        self._bodiless = bodiless

    def write(self, chunk: bytes) -> bool:
        """Sends a piece. Returns whether the client reads fast enough: if not, wait for `when_writable`.

        What would be more than the answer's size is a failure: it is cut.
        """
        if not self._request.gone and chunk and not self._bodiless:
            if self._left_bytes is not None:
                self._left_bytes -= len(chunk)
                if self._left_bytes < 0:
                    self.abort()
                    return True
            self._connection.send_chunk(chunk, chunked=self._chunked)
        return self._request.gone or not self._connection.write_paused

    def when_writable(self, callback: Callable[[], None]) -> None:
        """Calls back once, when the client has read enough, or is gone."""
        self._connection.when_writable(callback)

    def log_failure(self, status: int, body: bytes) -> None:
        """Enters a failure midway into the log of requests: with the status that it would have had, and its JSON."""
        http_failed(self._request, status, body)

    def finish(self) -> None:
        """Ends the answer in order; cuts one that is shorter than its size."""
        if self._left_bytes and not self._bodiless:
            self.abort()
        if not self._request.gone:
            self._request.end_stream()
            self._connection.end_answer(self._request, last_chunk=self._chunked, keep=self._keep)
            if Accesses.on:
                http_answered(self._request, self._status)

    def abort(self) -> None:
        """Ends the answer so that the client sees that it is not whole."""
        if not self._request.gone:
            self._connection.count_aborted_stream()
            if Accesses.on:
                http_answered(self._request, self._status, whole=False)
            self._request.abort()


def begin_answer(
    request: HttpRequest,
    connection: HttpSink,
    status: int,
    content_type: bytes,
    headers: Sequence[tuple[bytes, bytes]],
    size_bytes: int | None = None,
) -> StreamedAnswer | None:
    """The work behind `HttpRequest.begin`."""
    without_body = request.method == "HEAD" or bodiless(status)
    if bodiless(status):
        size_bytes = 0
    heads, http10 = connection.heads, request.http10
    keep = (size_bytes is not None or not http10) and connection.will_keep(request)
    said = headers if connection.answer_headers is None else connection.answer_headers(request, headers)
    if size_bytes is None:
        head = heads.unsized(status, content_type, request.request_id, said, keep=keep, http10=http10)
    else:
        head = heads.sized(status, content_type, size_bytes, request.request_id, said, keep=keep, http10=http10)
    if not request.begin_stream():
        return None
    connection.begin_answer(status, head)
    return StreamedAnswer(
        request,
        connection,
        status,
        keep=keep,
        chunked=size_bytes is None and not http10 and not without_body,
        size_bytes=size_bytes,
        bodiless=without_body,
    )


def _client_gone() -> Cancelled:
    return Cancelled("the client went away in the middle of a streamed answer")
