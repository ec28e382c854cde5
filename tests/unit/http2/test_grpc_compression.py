"""Compressed messages: what goes in comes out, bounded, and every lie about it is named."""

import asyncio
import contextlib
import gzip
import random
import zlib

import pytest
from grpc_memory import MemoryClient
from http2_wire import REQUEST
from hypothesis import given
from hypothesis import strategies as st

from trilith.errors import InvalidConfig, InvalidInput, PayloadTooLarge
from trilith.wire.grpc_compression import GrpcCompression, inflate
from trilith.wire.grpc_status import GrpcStatus
from trilith.wire.http2 import frames as f

PATH = b"/test.Echo/Echo"


def framed(octets, *, flag=1):
    return bytes([flag]) + len(octets).to_bytes(4, "big") + octets


@given(st.binary(max_size=2000), st.sampled_from(["gzip", "deflate"]), st.integers(1, 9))
def test_both_ways(message, encoding, level):
    compression = GrpcCompression(encoding=encoding, level=level)
    octets = compression.compress(message)
    assert inflate(memoryview(octets), compression.name, max_bytes=len(message)) == message
    assert (gzip.decompress if encoding == "gzip" else zlib.decompress)(octets) == message


@given(st.binary(max_size=200), st.sampled_from([b"gzip", b"deflate"]))
def test_any_octets_are_a_message_or_an_error(octets, encoding):
    with contextlib.suppress(InvalidInput):
        assert len(inflate(octets, encoding, max_bytes=1000)) <= 1000


def test_a_bomb_is_counted_while_it_inflates():
    bomb = gzip.compress(bytes(50 << 20))
    with pytest.raises(PayloadTooLarge, match="inflates to more than the limit of 1000"):
        inflate(bomb, b"gzip", max_bytes=1000)
    assert inflate(gzip.compress(bytes(1000)), b"gzip", max_bytes=1000) == bytes(1000)


@pytest.mark.parametrize(
    ("octets", "words"),
    [
        (b"", "in the middle"),
        (gzip.compress(b"hello", mtime=0)[:-3], "in the middle"),
        (gzip.compress(b"hello", mtime=0) + b"x", "1 bytes follow"),
        (gzip.compress(b"hello", mtime=0)[:-8] + bytes(8), "not the gzip"),
        (zlib.compress(b"hello"), "not the gzip"),
    ],
)
def test_what_is_no_gzip(octets, words):
    with pytest.raises(InvalidInput, match=words):
        inflate(octets, b"gzip", max_bytes=1000)


@pytest.mark.parametrize("options", [{"encoding": "br"}, {"level": 0}, {"level": 10}])
def test_wrong_configurations(options):
    with pytest.raises(InvalidConfig):
        GrpcCompression(**options)


def head(*fields):
    return [*REQUEST, *fields]


@pytest.mark.parametrize("pieces", [1, 7])
def test_a_compressed_message_of_a_unary_call(pieces):
    client = MemoryClient()
    body = framed(gzip.compress(b"hello" * 100))
    client.send(client.headers(1, head((b"grpc-encoding", b"gzip"))))
    size = len(body) // pieces + 1
    for at in range(0, len(body), size):
        client.send(f.frame(f.DATA, 0, 1, body[at : at + size]))
    client.send(f.frame(f.DATA, f.END_STREAM, 1))
    [call] = client.calls
    assert (call.message, call.encoding) == (b"hello" * 100, b"gzip")
    assert client.state.buffered_bytes == len(call.message)  # as it is kept, not as it came
    call.reply(b"")
    assert client.state.buffered_bytes == 0


@pytest.mark.parametrize(
    ("encoding", "body", "status", "reason"),
    [
        (b"snappy", framed(b"x"), GrpcStatus.UNIMPLEMENTED, "compression"),
        (b"identity", framed(b"x"), GrpcStatus.INTERNAL, "compression"),
        (None, framed(b"x"), GrpcStatus.INTERNAL, "compression"),
        (b"gzip", framed(b"no gzip"), GrpcStatus.INVALID_ARGUMENT, "compression"),
        (b"gzip", framed(gzip.compress(bytes(10_000), mtime=0)), GrpcStatus.RESOURCE_EXHAUSTED, "message_size"),
        (b"deflate", framed(gzip.compress(b"hello", mtime=0)), GrpcStatus.INVALID_ARGUMENT, "compression"),
    ],
)
@pytest.mark.parametrize("streaming", [False, True])
def test_what_cannot_be_read_is_refused_and_counted(encoding, body, status, reason, streaming):
    read = []

    async def reading(call):
        async for message in call.messages():
            read.append(message)  # noqa: PERF401 - it is to fail
        call.finish()

    async def main():
        client = MemoryClient(reading, max_message_bytes=1000, streaming=[PATH] if streaming else [])
        client.loop.create_task = asyncio.get_running_loop().create_task
        fields = [] if encoding is None else [(b"grpc-encoding", encoding)]
        client.send(client.headers(1, head(*fields)) + f.frame(f.DATA, f.END_STREAM, 1, body))
        for _ in range(10):
            await asyncio.sleep(0)
        answer, _, _ = client.answer()
        assert answer[b"grpc-status"] == b"%d" % status
        assert (b"grpc-accept-encoding" in answer) == (status is GrpcStatus.UNIMPLEMENTED)
        assert dict(client.state.counters.refused) == {reason: 1}
        assert read == []
        assert client.state.buffered_bytes == 0
        assert sum(client.state.counters.outcomes) == 1

    asyncio.run(main())


def test_an_uncompressed_message_in_a_compressed_call():
    client = MemoryClient()
    client.send(
        client.headers(1, head((b"grpc-encoding", b"gzip")))
        + f.frame(f.DATA, f.END_STREAM, 1, framed(b"plain", flag=0))
    )
    assert client.calls[0].message == b"plain"


@pytest.mark.parametrize(
    ("accepts", "message", "encoding"),
    [
        (b"identity, deflate,gzip", b"a" * 5000, b"gzip"),
        (b"identity,gzip", b"short", None),
        (b"identity,gzip", random.Random(1).randbytes(5000), b"gzip"),
        (b"identity", b"a" * 5000, None),
        (None, b"a" * 5000, None),
    ],
)
def test_answers_are_compressed_for_who_accepts_it(accepts, message, encoding):
    client = MemoryClient(lambda call: call.reply(call.message))
    client.state.compression = GrpcCompression(min_bytes=100)
    fields = [] if accepts is None else [(b"grpc-accept-encoding", accepts)]
    client.send(client.call(1, message, *fields))
    answer, body, _ = client.answer()
    assert answer.get(b"grpc-encoding") == encoding
    if encoding is not None and len(set(message)) == 1:
        assert body[0] == 1
        assert len(body) < 200
        assert gzip.decompress(body[5:]) == message
    else:
        assert body == framed(message, flag=0)


def test_what_waits_inflates_only_when_it_is_taken():
    """A window of small bombs is a window of memory, not a thousand of them."""

    async def main():
        client = MemoryClient(streaming=[PATH], max_message_bytes=10 << 20)
        bomb = framed(gzip.compress(bytes(10 << 20)))
        client.send(client.headers(1, head((b"grpc-encoding", b"gzip"))))
        for _ in range(20):
            client.send(f.frame(f.DATA, 0, 1, bomb[:8000]) + f.frame(f.DATA, 0, 1, bomb[8000:]))
        assert client.state.buffered_bytes < 20 * (len(bomb) + 100)
        [call] = client.calls
        assert len(await anext(call.messages())) == 10 << 20
        client.send(f.reset_frame(1, 8))
        assert client.state.buffered_bytes == 0

    asyncio.run(main())


def test_compression_is_settled_with_the_head():
    async def main():
        client = MemoryClient()
        accepts = (b"grpc-accept-encoding", b"gzip,deflate")
        client.send(client.call(1, b"", accepts) + client.call(3, b"", accepts))
        plain, deflated = client.calls
        plain.begin()
        plain.compression = GrpcCompression(min_bytes=1)
        plain.reply(b"a" * 100)
        fields, body, _ = client.answer()
        assert b"grpc-encoding" not in fields
        assert body == framed(b"a" * 100, flag=0)
        deflated.compression = GrpcCompression(encoding="deflate", min_bytes=1)
        await deflated.send(b"a" * 100)
        deflated.compression = None
        deflated.reply(b"b" * 100)
        fields, body, _ = client.answer()
        assert fields[b"grpc-encoding"] == b"deflate"
        first = int.from_bytes(body[1:5], "big")
        assert zlib.decompress(body[5 : 5 + first]) == b"a" * 100
        assert zlib.decompress(body[10 + first :]) == b"b" * 100

    asyncio.run(main())
