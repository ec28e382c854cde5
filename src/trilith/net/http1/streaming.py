"""A streamed answer: head with the first chunk, backpressure, and no clean end after an error."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import TYPE_CHECKING

from trilith.errors import Cancelled

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
            request.abort()
        raise
    finally:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()
    if request.gone:
        raise _client_gone()
    request.end_stream()
    connection.end_answer(request, last_chunk=chunked and request.method != "HEAD", keep=keep)


def _client_gone() -> Cancelled:
    return Cancelled("the client went away in the middle of a streamed answer")
