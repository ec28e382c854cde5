"""Streaming calls against grpcio: blocking and asyncio clients, all kinds, all ends."""

import asyncio
import threading
import time

import grpc
import pytest
from stream_app import STREAMING, StreamApp

from trilith.net.grpc import GrpcCompression, GrpcLimits
from trilith.wire.grpc_status import GrpcStatus


@pytest.fixture
def streams(serve):
    def start(**options):
        return serve(StreamApp(), streaming=STREAMING, **options)

    return start


def until(condition):
    ends_at = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < ends_at
        time.sleep(0.01)


def test_one_in_many_out(streams, connect):
    count = connect(streams().target).unary_stream("/s/Count")
    assert list(count(b"1000", timeout=20)) == [b"%d" % number for number in range(1000)]
    assert list(count(b"0", timeout=20)) == []


def test_many_in_one_out(streams, connect):
    total = connect(streams().target).stream_unary("/s/Sum")
    assert total(iter([b"x" * number for number in range(1000)]), timeout=20) == b"499500"
    assert total(iter([]), timeout=20) == b"0"
    assert total(iter([b"x" * 10_000_000] * 3), timeout=20) == b"30000000"


def test_a_conversation(streams, connect):
    server = streams()
    questions = iter(range(20))
    answered = threading.Semaphore(1)

    def ask():
        for number in questions:
            answered.acquire()
            yield b"%d" % number

    call = connect(server.target).stream_stream("/s/Chat")(ask(), timeout=20)
    for number, answer in enumerate(call):
        assert answer == b"%d" % number
        answered.release()  # the next question is asked only after this answer
    assert [value for key, value in call.initial_metadata() if key == "x-kind"] == ["chat", "again"]
    assert ("x-total", "all") in call.trailing_metadata()
    assert server.statistics.outcomes == {GrpcStatus.OK: 1}


@pytest.mark.parametrize("size", [0, 1, 16_379, 65_536, 5_000_000])
def test_messages_of_all_sizes(streams, connect, size):
    chat = connect(streams().target).stream_stream("/s/Chat")
    messages = [bytes([number]) * size for number in range(6)]
    assert list(chat(iter(messages), timeout=20)) == messages


def test_many_streams_at_once_with_an_asyncio_client(streams):
    server = streams()

    async def one(channel, number):
        call = channel.stream_stream("/s/Chat")(timeout=20)
        for turn in range(5):
            await call.write(b"%d-%d" % (number, turn))
            assert await call.read() == b"%d-%d" % (number, turn)
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
        return await call.code()

    async def main():
        async with grpc.aio.insecure_channel(server.target) as channel:
            return await asyncio.gather(*(one(channel, number) for number in range(200)))

    assert set(asyncio.run(main())) == {grpc.StatusCode.OK}
    assert server.statistics.outcomes == {GrpcStatus.OK: 200}


def test_an_error_in_mid_stream_comes_behind_the_messages(streams, connect):
    call = connect(streams().target).stream_stream("/s/Fail")(iter([b"a", b"b", b"bad", b"c"]), timeout=20)
    assert (next(call), next(call)) == (b"a", b"b")
    with pytest.raises(grpc.RpcError) as caught:
        next(call)
    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.INVALID_ARGUMENT, "this one is bad")


def test_a_refusal_and_an_early_end_while_the_client_still_sends(streams, connect):
    channel = connect(streams().target)
    endless = iter(lambda: b"x" * 100_000, None)
    with pytest.raises(grpc.RpcError, match="not for you"):
        channel.stream_unary("/s/Refuse")(endless, timeout=20)
    call = channel.stream_stream("/s/Early")(iter(lambda: b"x" * 100_000, None), timeout=20)
    assert [len(message) for message in call] == [100_000]
    assert call.code() is grpc.StatusCode.OK
    assert channel.unary_unary("/s/Echo")(b"still there", timeout=20) == b"still there"


@pytest.mark.parametrize("path", ["/s/Forever", "/s/Wait"])
def test_a_cancel_ends_the_handler(streams, connect, path):
    server = streams()
    channel = connect(server.target)
    call = channel.unary_stream(path)(b"")
    next(call)
    call.cancel()
    assert server.app.cancelled.wait(10)
    until(lambda: server.statistics.in_flight == 0)
    assert server.statistics.outcomes == {GrpcStatus.CANCELLED: 1}


def test_a_deadline_in_mid_stream(streams, connect):
    server = streams()
    call = connect(server.target).unary_stream("/s/Wait")(b"", timeout=0.3)
    assert next(call) == b"first"
    with pytest.raises(grpc.RpcError) as caught:
        next(call)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert server.app.cancelled.wait(10)


def test_a_client_that_does_not_read_holds_its_own_stream_only(streams, connect):
    server = streams()
    channel = connect(server.target, **{"grpc.http2.bdp_probe": 0})  # else its window grows while it is at it
    call = channel.unary_stream("/s/Forever")(b"")
    next(call)
    until(lambda: server.app.sent > 0)
    before = -1
    while server.app.sent != before:  # until it stands still
        before = server.app.sent
        for number in range(50):
            assert channel.unary_unary("/s/Echo")(b"%d" % number, timeout=20) == b"%d" % number
    assert server.app.sent < 100
    call.cancel()
    assert server.app.cancelled.wait(10)


def test_a_handler_that_does_not_read_holds_its_own_client_only(streams, connect):
    server = streams(limits=GrpcLimits(stream_window_bytes=1 << 20))
    channel = connect(server.target)
    sent = [0]

    def produce():
        for _ in range(200):
            sent[0] += 1
            yield b"x" * 100_000

    future = channel.stream_unary("/s/Unread").future(produce())
    assert server.app.started.wait(10)
    before = -1
    while sent[0] != before:
        before = sent[0]
        for number in range(50):
            assert channel.unary_unary("/s/Echo")(b"%d" % number, timeout=20) == b"%d" % number
    assert sent[0] < 60
    assert server.call_soon(lambda: server.server._state.buffered_bytes) < 2 << 20
    server.call_soon(server.app.may_read.set)
    assert future.result(20) == b"20000000"
    assert server.call_soon(lambda: server.server._state.buffered_bytes) == 0


def test_a_message_over_the_limit_in_mid_stream(streams, connect):
    server = streams(limits=GrpcLimits(max_message_bytes=1000))
    answered = threading.Event()

    def messages():
        yield b"x" * 1000
        answered.wait(10)
        yield b"x" * 1001

    call = connect(server.target).stream_stream("/s/Chat")(messages(), timeout=20)
    assert len(next(call)) == 1000
    answered.set()
    with pytest.raises(grpc.RpcError) as caught:
        next(call)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert server.statistics.refused == {"message_size": 1}


def test_a_drain_lets_polite_streams_end_and_cuts_the_others(streams, connect):
    server = streams()
    polite = connect(server.target).unary_stream("/s/Polite")(b"")
    stubborn = connect(server.target).unary_stream("/s/Wait")(b"")
    assert (next(polite), next(stubborn)) == (b"first", b"first")
    assert server.run(server.server.drain(1.5)) == 1
    assert list(polite) == [b"last"]
    with pytest.raises(grpc.RpcError) as caught:
        next(stubborn)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert server.app.cancelled.wait(10)


def test_the_end_of_a_drain_is_told_to_a_client_that_read_nothing(streams, connect):
    server = streams()
    call = connect(server.target, **{"grpc.http2.bdp_probe": 0}).unary_stream("/s/Forever")(b"")
    next(call)
    assert server.run(server.server.drain(0.5)) == 1
    with pytest.raises(grpc.RpcError) as caught:
        list(call)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "stopping" in caught.value.details()
    assert server.app.cancelled.wait(10)


def test_many_messages_to_a_method_that_takes_one(streams, connect):
    with pytest.raises(grpc.RpcError) as caught:
        connect(streams().target).stream_unary("/s/Echo")(iter([b"a", b"b"]), timeout=20)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("algorithm", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compressed_streams_both_ways(streams, connect, algorithm):
    server = streams(compression=GrpcCompression(min_bytes=10))
    chat = connect(server.target).stream_stream("/s/Chat")
    messages = [bytes([number]) * 1_000_000 for number in range(10)] + [b"short", b""]
    assert list(chat(iter(messages), compression=algorithm, timeout=20)) == messages
    assert server.statistics.bytes_received < 100_000
    assert server.statistics.bytes_sent < 100_000
