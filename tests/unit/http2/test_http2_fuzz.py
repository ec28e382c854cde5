"""Frames that no client would send, in any order and cut anywhere: no exception, and nothing is left behind."""

import asyncio
import gzip

from grpc_memory import MemoryClient
from hpack import Encoder
from http2_wire import REQUEST
from hypothesis import given, settings
from hypothesis import strategies as st
from test_http_over_http2 import POST, Rest

from trilith.wire.http2 import frames as f

PATH = b"/test.Echo/Echo"
MESSAGE = b"\0\0\0\0\x05hello"


def block(fields):
    return Encoder().encode(fields, huffman=False)


BLOCKS = st.sampled_from(
    [
        block(REQUEST),
        block([*REQUEST, (b"grpc-encoding", b"gzip"), (b"grpc-timeout", b"1H")]),
        block([*REQUEST, (b"grpc-timeout", b"soon")]),
        block([*REQUEST[:2], (b":path", b"/unary"), *REQUEST[3:]]),
        block([*POST, (b"content-length", b"10")]),
        block(POST),
        block([(b"x-trailer", b"1")]),
        block([(b"X-Upper", b"1")]),
        b"\xff\xff\xff\xff",
        b"",
    ]
)
BODIES = st.sampled_from(
    [
        MESSAGE,
        MESSAGE[:7],
        MESSAGE[7:],
        MESSAGE * 3,
        b"\x01" + len(gzip.compress(b"x", mtime=0)).to_bytes(4, "big") + gzip.compress(b"x", mtime=0),
        b"\x02\0\0\0\0",
        b"\0\xff\xff\xff\xff",
        b"",
    ]
)
PAYLOADS = st.one_of(
    BLOCKS,
    BODIES,
    st.binary(max_size=20),
    st.integers(0, 2**32 - 1).map(lambda number: number.to_bytes(4, "big")),
    st.tuples(st.integers(0, 7), st.integers(0, 2**32 - 1)).map(
        lambda pair: pair[0].to_bytes(2, "big") + pair[1].to_bytes(4, "big")
    ),
    st.just(bytes(8)),
)
ANY_FRAME = st.builds(f.frame, st.integers(0, 10), st.integers(0, 255), st.integers(0, 9), PAYLOADS)
# Likely ones, so that streams get further than their first frame.
HEAD = st.builds(
    lambda stream, fields, end: f.frame(f.HEADERS, f.END_HEADERS | end, stream, fields),
    st.sampled_from([1, 3, 5, 7]),
    BLOCKS,
    st.sampled_from([0, 1]),
)
BODY = st.builds(
    lambda stream, body, end: f.frame(f.DATA, end, stream, body),
    st.sampled_from([1, 3, 5, 7]),
    BODIES,
    st.sampled_from([0, 0, 1]),
)
FRAMES = st.lists(st.one_of(HEAD, BODY, BODY, ANY_FRAME), max_size=12)
CUTS = st.lists(st.integers(1, 60), min_size=1, max_size=4)


def pieces(octets, cuts):
    position, turn = 0, 0
    while position < len(octets):
        size = cuts[turn % len(cuts)]
        yield octets[position : position + size]
        position, turn = position + size, turn + 1


async def answer(call):
    async for message in call.messages():
        await call.send(message)
    call.finish()


@settings(max_examples=200, deadline=None)
@given(FRAMES, CUTS)
def test_grpc(frames, cuts):
    async def main():
        client = MemoryClient(answer, streaming=[PATH], max_message_bytes=1000)
        client.loop.create_task = asyncio.get_running_loop().create_task
        for piece in pieces(b"".join(frames), cuts):
            client.send(piece)
            await asyncio.sleep(0)
            client.written()
        client.tick(1000)
        client.server.connection_lost(None)
        tasks = list(client.state.tasks)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert client.server.calls_in_flight == 0
        assert client.state.buffered_bytes == 0

    asyncio.run(main())


@settings(max_examples=200, deadline=None)
@given(FRAMES, CUTS)
def test_rest(frames, cuts):
    async def reading(request):
        request.respond(200, await request.body())

    async def main():
        client = Rest(reading, max_body_bytes=1000)
        running = asyncio.get_running_loop()
        client.loop.create_task, client.loop.create_future = running.create_task, running.create_future
        for piece in pieces(b"".join(frames), cuts):
            client.send(piece)
            await asyncio.sleep(0)
            client.loop.run()
        client.server.check(client.state.now + 1000)
        client.server.connection_lost(None)
        await asyncio.gather(*list(client.state.tasks), return_exceptions=True)
        assert client.server.in_flight == 0
        assert client.state.connections == {}

    asyncio.run(main())


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), CUTS)
def test_octets_of_any_kind(octets, cuts):
    for client in (MemoryClient(greet=False), MemoryClient(), Rest()):
        for piece in pieces(octets, cuts):
            client.send(piece)
        client.server.connection_lost(None)
