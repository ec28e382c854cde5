"""What came over HTTP/2, for REST and for gRPC, is freed when its stream or its connection ends: no circle is left."""

import asyncio
import time

import pytest
from grpc_memory import MemoryClient
from test_http_over_http2 import POST, Rest

from memory_circles import no_circles
from trilith.errors import InvalidInput
from trilith.net.grpc.connection import GrpcConnection
from trilith.wire.http2 import ErrorCode
from trilith.wire.http2 import frames as f

PIECE = b"x" * 15_000


def _data(stream_id, body, *, end=False):
    return f.frame(f.DATA, f.END_STREAM if end else 0, stream_id, body)


def _message(body, size=None):
    return b"\0" + (len(body) if size is None else size).to_bytes(4, "big") + body


# ---- how it ends


def _lost(client):
    """The connection breaks."""


def _reset(client):
    for stream_id in (1, 3, 5):
        client.send(f.frame(f.RST_STREAM, 0, stream_id, int(ErrorCode.CANCEL).to_bytes(4, "big")))


def _broken(client):
    client.send(f.frame(f.DATA, 0, 0, b"for no stream"))


def _aborted(client):
    client.server.abort()


def _late(client):
    for seconds in (1000, 2000):
        if isinstance(client, Rest):
            client.server.check(time.monotonic() + seconds)
        else:
            client.tick(seconds)


def _half_closed(client):
    client.server.eof_received()


ENDS = [_lost, _reset, _broken, _aborted, _late, _half_closed]


async def _turns(client, count=10):
    client.loop.create_future = asyncio.get_running_loop().create_future
    client.loop.create_task = asyncio.get_running_loop().create_task
    for _ in range(count):
        client.loop.run()
        await asyncio.sleep(0)


async def _through(client, sent, end):
    client.loop.create_future = asyncio.get_running_loop().create_future
    client.loop.create_task = asyncio.get_running_loop().create_task
    try:
        client.send(sent)
        await _turns(client)
        end(client)
        await _turns(client)
    finally:
        client.server.connection_lost(None)
        client.connection.lost()
    await _turns(client)


# ---- REST


def _echo(request):
    if request.complete:
        request.respond(200, request.body_nowait())
    else:
        request.respond(413, b"{}")


async def _read(request):
    request.respond(200, await request.body())


async def _wait(request):
    async for _ in request.chunks():
        await asyncio.Event().wait()
    await asyncio.Event().wait()


async def _fail(request):
    raise ValueError(len(await request.body()))


async def _stream(request):
    async def produce():
        yield PIECE
        await asyncio.Event().wait()

    await request.stream(produce())


def _later(request):
    request.on_disconnect = lambda: request.gone


def _rest_streams(client):
    long = (b"content-length", b"2000000")
    yield client.headers(1, [*POST, long])
    yield client.headers(1, [*POST, long]) + _data(1, PIECE)
    yield client.headers(1, POST) + _data(1, PIECE) + client.headers(3, [*POST, long]) + _data(3, PIECE)
    yield client.headers(1, POST) + _data(1, PIECE, end=True)
    yield client.headers(1, [*POST, (b"content-length", b"99999999999")]) + _data(1, PIECE)
    yield client.headers(1, POST) + _data(1, PIECE) + _data(3, PIECE)
    yield client.headers(1, POST) + _data(1, PIECE)[:7000]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("handler", [_echo, _read, _wait, _fail, _stream, _later])
def test_no_end_of_a_request_leaves_a_circle(handler, end):
    with no_circles():
        for number in range(7):
            client = Rest(handler)
            asyncio.run(_through(client, list(_rest_streams(client))[number], end))
            del client


@pytest.mark.parametrize("handler", [_echo, _read])
def test_an_answered_request_leaves_no_circle_while_its_connection_lives(handler):
    async def main():
        client.send(client.post(1, PIECE))
        await _turns(client)
        assert client.answers()[1][1] == PIECE

    with no_circles():
        client = Rest(handler)
        client.loop.create_future = client.loop.create_task = None
        asyncio.run(_prepared(client, main))
    client.server.connection_lost(None)


async def _prepared(client, main):
    client.loop.create_future = asyncio.get_running_loop().create_future
    client.loop.create_task = asyncio.get_running_loop().create_task
    await main()


# ---- gRPC


def _reply(call):
    call.reply(call.message)


def _refuse(call):
    raise InvalidInput("no")


def _call_later(call):
    call.on_cancel = lambda: call.message


async def _reply_in_a_task(call):
    await asyncio.sleep(0)
    call.reply(call.message)


async def _hang(call):
    await asyncio.Event().wait()


async def _fall(call):
    await asyncio.sleep(0)
    raise ValueError(call.path)


async def _messages(call):
    async for message in call.messages():
        await call.send(message)
    call.finish()


async def _messages_and_fall(call):
    async for message in call.messages():
        raise ValueError(len(message))


async def _messages_held(call):
    held = [message async for message in call.messages()]
    call.reply(held[0])


def _grpc_streams(client):
    yield client.headers(1)
    yield client.headers(1) + _data(1, _message(PIECE, 2_000_000))
    yield client.call(1, PIECE)
    yield client.call(1, PIECE, end=False)
    yield client.call(1, PIECE, (b"grpc-timeout", b"1m"), end=False)
    yield client.call(1, PIECE, end=False) + _data(1, _message(PIECE, 2_000_000))
    yield client.headers(1) + _data(1, b"\7" + PIECE) + client.call(3, PIECE)
    yield client.headers(1) + _data(1, _message(PIECE, 2_000_000)[:7000], end=True)
    yield client.headers(1) + _data(1, _message(PIECE))[:9000]


@pytest.mark.parametrize("streaming", [(), (b"/test.Echo/Echo",)])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("handler", [_reply, _refuse, _call_later, _reply_in_a_task, _hang, _fall])
def test_no_end_of_a_call_leaves_a_circle(handler, end, streaming):
    _all_grpc(handler, end, streaming)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("handler", [_messages, _messages_and_fall, _messages_held])
def test_no_end_of_a_call_of_many_messages_leaves_a_circle(handler, end):
    _all_grpc(handler, end, (b"/test.Echo/Echo",))


def _all_grpc(handler, end, streaming):
    with no_circles():
        for number in range(9):
            client = MemoryClient(handler, streaming=streaming)
            asyncio.run(_through(client, list(_grpc_streams(client))[number], end))
            del client


def test_a_connection_that_is_never_made_is_no_circle():
    """That of a client whose TLS handshake fails."""
    client = MemoryClient()
    with no_circles():
        GrpcConnection(client.state)
    client.server.connection_lost(None)
