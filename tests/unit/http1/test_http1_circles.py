"""What a client sent is freed when its connection ends, however it ends: no circle is left for the collector."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from memory_circles import no_circles
from trilith.net.http1.connection import HttpConnection
from trilith.net.http1.request import HttpRequest

Connect = Callable[..., Any]

BODY = b"x" * 70_000
HEAD = b"POST /a HTTP/1.1\r\nHost: a\r\n"
SIZED = HEAD + b"Content-Length: 200000\r\n\r\n"
WHOLE = HEAD + b"Content-Length: 70000\r\n\r\n" + BODY
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n11170\r\n"
MULTIPART = HEAD + b"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 200000\r\n\r\n--b\r\n"

SENT = {
    "nothing": b"",
    "half a head": HEAD,
    "the head": SIZED,
    "the head of chunks": CHUNKED,
    "half a body": SIZED + BODY,
    "half a chunk": CHUNKED + BODY[:5000],
    "half of the chunks": CHUNKED + BODY + b"\r\n5\r\nab",
    "half of a form": MULTIPART + BODY,
    "a whole body": WHOLE,
    "one and a half": WHOLE + SIZED + BODY,
    "three, and a half": WHOLE * 3 + SIZED + BODY,
    "nonsense behind it": WHOLE + b"\0\0\0",
    "a broken chunk": CHUNKED + BODY + b"zz",
    "too long": HEAD + b"Content-Length: 99999999999\r\n\r\n" + BODY,
}


def _echo(request: HttpRequest) -> None:
    if request.complete:
        request.respond(200, request.body_nowait())
    else:
        request.respond(413, b"{}")


async def _read(request: HttpRequest) -> None:
    request.respond(200, await request.body())


async def _pieces(request: HttpRequest) -> None:
    held = [piece async for piece in request.chunks()]
    request.respond(200, b"".join(held))


async def _wait(request: HttpRequest) -> None:
    async for piece in request.chunks():
        assert piece
        await asyncio.Event().wait()
    await asyncio.Event().wait()


async def _fail(request: HttpRequest) -> None:
    held = await request.body()
    raise ValueError(len(held))


async def _stream(request: HttpRequest) -> None:
    async def produce() -> AsyncIterator[bytes]:
        yield BODY
        await asyncio.Event().wait()

    await request.stream(produce())


def _touch(*things: object) -> None:
    assert all(things)


class _Later:
    """Answers when it likes, if at all."""

    def __call__(self, request: HttpRequest) -> None:
        held = request.inbound
        request.on_disconnect = lambda: _touch(request, held)


HANDLERS = {
    "echo": lambda: _echo, "read": lambda: _read, "pieces": lambda: _pieces, "wait": lambda: _wait,
    "fail": lambda: _fail, "stream": lambda: _stream, "later": _Later,
}  # fmt: skip


def _lost(client: Any) -> None:
    client.transport.closed = True
    client.connection.connection_lost(ConnectionResetError())


def _hung_up(client: Any) -> None:
    client.connection.hung_up()
    _lost(client)


def _half_closed(client: Any) -> None:
    client.connection.eof_received()
    client.settle()
    _lost(client)


def _late(client: Any) -> None:
    client.transport.unsent = 0
    for seconds in (1000, 2000, 3000):
        client.connection.check(client.state.now + seconds)
    client.settle()
    _lost(client)


def _aborted(client: Any) -> None:
    client.connection.abort()
    _lost(client)


def _drained(client: Any) -> None:
    client.state.draining = True
    client.connection.close_when_idle()
    client.connection.abort()
    _lost(client)


ENDS = [_lost, _hung_up, _half_closed, _late, _aborted, _drained]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("handler", HANDLERS)
def test_no_end_of_a_connection_leaves_a_circle(connect: Connect, handler: str, end: Callable[[Any], None]) -> None:
    with no_circles():
        for sent in SENT.values():
            client = connect(HANDLERS[handler]())
            client.connection.data_received(sent)
            client.settle()
            end(client)
            client.settle()
            del client


def test_http2_takes_over_without_a_circle(connect: Connect) -> None:
    with no_circles():
        client = connect(_echo)
        successors: list[Any] = []
        client.transport.set_protocol = successors.append
        client.connection.data_received(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        successors.pop().connection_lost(None)
        client.loop.run_until_complete(asyncio.sleep(0))
        del client


def test_half_a_body_is_dropped_although_its_request_is_held(connect: Connect) -> None:
    held: list[HttpRequest] = []
    client = connect(held.append, early_start_bytes=1000)
    client.send(SIZED + BODY)
    assert held[0].inbound is not None
    assert held[0].inbound.buffered == len(BODY)
    client.leave()
    assert held[0].inbound.buffered == 0


def test_a_connection_that_is_never_made_is_no_circle(connect: Connect) -> None:
    """That of a client whose TLS handshake fails."""
    client = connect(_echo)
    with no_circles():
        HttpConnection(client.state)
    client.leave()
