"""Calls of many messages through a whole connection, in memory: order, windows, room, ends and cancels."""

import asyncio

import pytest
from grpc_memory import MemoryClient
from hpack import Decoder
from http2_wire import REQUEST, parse_frames
from hypothesis import given, settings
from hypothesis import strategies as st

from trilith.errors import Bug, Cancelled, InvalidInput
from trilith.wire.grpc_status import GrpcStatus
from trilith.wire.http2 import ErrorCode
from trilith.wire.http2 import frames as f

PATH = b"/test.Echo/Echo"


def framed(*messages):
    return b"".join(b"\0" + len(message).to_bytes(4, "big") + message for message in messages)


def stream_client(app=None, **limits):
    return MemoryClient(app, streaming=[PATH], **limits)


def data(stream_id, body, *, end=False):
    return f.frame(f.DATA, f.END_STREAM if end else 0, stream_id, body)


async def turns(client, count=20):
    """Lets tasks and the connection's own callbacks run."""
    for _ in range(count):
        client.loop.run()
        await asyncio.sleep(0)


def run(coroutine):
    return asyncio.run(coroutine)


async def echo(call):
    async for message in call.messages():
        await call.send(message)
    call.finish(trailers=[(b"x-end", b"1")])


def with_tasks(client):
    """The handlers of this client run on the loop of the test."""
    client.loop.create_task = asyncio.get_running_loop().create_task
    return client


def endings(written):
    """The statuses of the answers that ended, and the codes of resets, by stream."""
    ended = {
        stream: next(value for name, value in map(tuple, Decoder().decode(payload, raw=True)) if name == b"grpc-status")
        for kind, flags, stream, payload in written
        if kind == f.HEADERS and flags & f.END_STREAM
    }
    return ended, {stream: f.u32(payload) for kind, _, stream, payload in written if kind == f.RST_STREAM}


def test_messages_are_answered_as_they_come():
    async def main():
        client = with_tasks(stream_client(echo))
        client.send(client.headers(1))
        await turns(client)
        assert client.answer() == ({}, b"", None)
        client.send(data(1, framed(b"a", b"bb")))
        await turns(client)
        fields, body, _ = client.answer()
        assert fields[b":status"] == b"200"
        assert body == framed(b"a", b"bb")
        client.send(data(1, framed(b"c"), end=True))
        await turns(client)
        fields, body, reset = client.answer()
        assert body == framed(b"c")
        assert (fields[b"grpc-status"], fields[b"x-end"], reset) == (b"0", b"1", None)
        assert client.server.calls_in_flight == 0
        assert client.state.buffered_bytes == 0
        assert client.server._http2.open_streams == 0

    run(main())


@settings(max_examples=60)
@given(
    st.lists(st.binary(max_size=300), max_size=12),
    st.lists(st.integers(1, 200), min_size=1, max_size=6),
    st.integers(1, 400),
)
def test_any_cutting_and_any_windows_give_the_messages_back(messages, sizes, window):
    """The body in pieces of any size, the answer through a window that opens bit by bit."""

    async def main():
        client = with_tasks(stream_client(echo, stream_window_bytes=70_000))
        client.send(f.settings_frame([(4, 0)]) + client.headers(1))
        body, position, turn = framed(*messages), 0, 0
        while position < len(body):
            size = sizes[turn % len(sizes)]
            client.send(data(1, body[position : position + size]))
            position, turn = position + size, turn + 1
        client.send(data(1, b"", end=True))
        answered, ended = b"", False
        for _ in range(len(body) // window + 20):
            await turns(client, 2 + len(messages))
            for kind, flags, _, payload in client.written():
                answered += payload if kind == f.DATA else b""
                ended |= kind == f.HEADERS and bool(flags & f.END_STREAM)
                assert kind != f.DATA or len(payload) <= window
            if ended:
                break
            client.send(f.window_update_frame(1, window))
        assert ended
        assert answered == body
        assert client.state.buffered_bytes == 0

    run(main())


def test_what_is_not_read_is_not_granted_again():
    async def main():
        client = with_tasks(stream_client(stream_window_bytes=65_535))
        client.send(client.headers(1))
        [call] = client.calls
        message = b"x" * 16_000
        client.send(b"".join(data(1, framed(message)) for _ in range(4)))
        assert [kind for kind, *_ in client.written()] == []
        inbox = call.messages()
        for _ in range(4):
            assert bytes(await anext(inbox)) == message
        granted = [f.u32(payload) for kind, _, stream, payload in client.written() if stream == 1]
        assert sum(granted) >= 2 * 16_000
        assert client.state.buffered_bytes == 0

    run(main())


def test_a_message_larger_than_the_window_arrives():
    async def main():
        client = with_tasks(stream_client(stream_window_bytes=65_535))
        client.send(client.headers(1))
        [call] = client.calls
        body, window, position = framed(b"y" * 300_000), 65_535, 0
        while position < len(body):
            size = min(16_384, window, len(body) - position)
            assert size > 0, "the client may send no more, and the message is not complete"
            client.send(data(1, body[position : position + size]))
            position, window = position + size, window - size
            window += sum(f.u32(p) for kind, _, s, p in client.written() if (kind, s) == (f.WINDOW_UPDATE, 1))
        assert len(await anext(call.messages())) == 300_000
        assert client.state.buffered_bytes == 0

    run(main())


def test_send_waits_while_much_waits():
    async def main():
        client = with_tasks(stream_client())
        client.send(client.headers(1))
        [call] = client.calls
        sent = 0

        async def produce():
            nonlocal sent
            for _ in range(100):
                await call.send(b"z" * 10_000)
                sent += 1
            call.finish()

        task = asyncio.create_task(produce())
        await turns(client)
        assert 6 <= sent < 20  # a window of 64 KiB, and 64 KiB that wait
        client.send(f.window_update_frame(0, 1 << 20) + f.window_update_frame(1, 1 << 20))
        await turns(client, 200)
        assert sent == 100
        await task
        _, body, _ = client.answer()
        assert len(body) == 100 * 10_005

    run(main())


def test_a_slow_stream_does_not_hold_the_others():
    async def main():
        client = with_tasks(stream_client())
        client.send(f.window_update_frame(0, 1 << 24) + client.headers(1) + client.headers(3))
        slow, fast = client.calls
        stuck = asyncio.create_task(slow.send(b"z" * 1_000_000))
        await turns(client)
        assert not stuck.done()
        await fast.send(b"quick")
        fast.finish()
        await turns(client)
        ended = [stream for kind, flags, stream, _ in client.written() if kind == f.HEADERS and flags & f.END_STREAM]
        assert ended == [3]
        client.send(f.reset_frame(1, 8))
        with pytest.raises(Cancelled):
            await stuck
        assert client.server._http2.open_streams == 0  # the fast one too: its client, which had not ended, was told to

    run(main())


def test_a_stream_that_goes_on_may_be_read_as_slowly_as_its_client_likes():
    async def main():
        client = with_tasks(stream_client(write_timeout_s=30, keepalive_interval_s=1e6, idle_timeout_s=1e6))
        client.send(client.headers(1))
        sending = asyncio.create_task(client.calls[0].send(b"z" * 1_000_000))
        await turns(client)
        for seconds in (0, 60, 600):
            client.tick(seconds)
        assert f.RST_STREAM not in [kind for kind, *_ in client.written()]
        assert not sending.done()
        sending.cancel()
        client.server.connection_lost(None)

    run(main())


def test_an_error_after_messages_is_in_the_trailers_behind_them():
    async def failing(call):
        await call.send(b"one")
        raise InvalidInput("no more than one")

    async def main():
        client = with_tasks(stream_client(failing))
        client.send(client.headers(1))
        await turns(client)
        written = client.written()
        assert [kind for kind, *_ in written] == [f.HEADERS, f.DATA, f.HEADERS, f.RST_STREAM]
        assert written[-1][3] == ErrorCode.NO_ERROR.to_bytes(4, "big")
        assert client.state.counters.outcomes[GrpcStatus.INVALID_ARGUMENT] == 1
        client.send(data(1, framed(b"late")))  # it was on its way
        assert client.written() == []

    run(main())


@pytest.mark.parametrize(
    ("body", "end", "status", "reason"),
    [
        (b"\0\0\0\0\x64", False, GrpcStatus.RESOURCE_EXHAUSTED, "message_size"),
        (b"\0\0\0\0\x05ab", True, GrpcStatus.INTERNAL, "message_truncated"),
        (b"\x09\0\0\0\x01a", False, GrpcStatus.INVALID_ARGUMENT, "message_prefix"),
    ],
)
def test_a_message_that_cannot_be_read_ends_the_call_and_its_handler(body, end, status, reason):
    cancelled = []

    async def reading(call):
        try:
            async for message in call.messages():
                await call.send(message)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def main():
        client = with_tasks(stream_client(reading, max_message_bytes=10))
        client.send(client.headers(1) + data(1, framed(b"good")))
        await turns(client)
        client.written()
        client.send(data(1, body, end=end))
        await turns(client)
        fields, _, _ = client.answer()
        assert fields[b"grpc-status"] == b"%d" % status
        assert b":status" not in fields  # the head was sent with the first message
        assert dict(client.state.counters.refused) == {reason: 1}
        assert cancelled == [True]
        assert client.state.buffered_bytes == 0

    run(main())


def test_a_cancel_reaches_readers_senders_and_on_cancel():
    async def main():
        client = with_tasks(stream_client())
        client.send(client.headers(1))
        [call] = client.calls
        told = []
        call.on_cancel = lambda: told.append(1)
        reading = asyncio.create_task(anext(call.messages()))
        sending = asyncio.create_task(call.send(b"z" * 1_000_000))
        await turns(client)
        client.send(f.reset_frame(1, 8))
        for task in (reading, sending):
            with pytest.raises(Cancelled):
                await task
        with pytest.raises(Cancelled):
            await call.send(b"more")
        call.finish()  # nobody waits: no answer, and no mistake
        assert told == [1]
        assert client.state.counters.outcomes[GrpcStatus.CANCELLED] == 1

    run(main())


def test_a_deadline_in_mid_stream():
    async def main():
        client = with_tasks(stream_client())
        client.send(client.headers(1, None) + client.headers(3))
        waiting, stuck = client.calls
        waiting.deadline = stuck.deadline = 0.0
        await waiting.send(b"first")
        sending = asyncio.create_task(stuck.send(b"z" * 1_000_000))
        await turns(client)
        client.written()
        client.server._on_deadline()
        written = client.written()
        # 3 had octets that no window lets out: they are dropped.
        assert endings(written) == ({1: b"4", 3: b"4"}, {1: ErrorCode.NO_ERROR, 3: ErrorCode.NO_ERROR})
        with pytest.raises(Cancelled):
            await sending
        assert client.state.counters.outcomes[GrpcStatus.DEADLINE_EXCEEDED] == 2

    run(main())


def test_mistakes_of_an_application():
    async def main():
        client = with_tasks(stream_client())
        client.send(client.headers(1))
        [call] = client.calls
        call.begin([(b"x-first", b"1"), (b"x-first", b"2")])
        with pytest.raises(Bug, match="sent before"):
            call.begin()
        first = asyncio.create_task(anext(call.messages()))
        await asyncio.sleep(0)
        with pytest.raises(Bug, match="two tasks"):
            await anext(call.messages())
        call.finish()
        with pytest.raises(Bug, match="answered twice"):
            await call.send(b"more")
        with pytest.raises(Cancelled):
            await first

    run(main())


def test_a_drain_is_told_and_open_streams_end_in_their_time():
    async def main():
        client = with_tasks(stream_client())
        client.send(client.headers(1))
        [call] = client.calls
        told = []
        call.on_drain = lambda: told.append(call.draining)
        client.server.begin_drain()
        assert told == [True]
        ping = next(payload for kind, _, _, payload in client.written() if kind == f.PING)
        client.send(f.frame(f.PING, f.ACK, 0, ping))
        await turns(client)
        assert not client.transport.closed
        await call.send(b"last")
        call.finish()
        await turns(client)
        assert client.transport.closed

    run(main())


def test_a_connection_of_age_is_drained_and_then_cut():
    client = stream_client(
        max_connection_age_s=100, max_connection_age_grace_s=30, keepalive_interval_s=1e6, idle_timeout_s=1e6
    )
    client.send(client.headers(1))
    client.tick(89)
    assert client.written() == []
    client.tick(111)
    assert [kind for kind, *_ in client.written()] == [f.GOAWAY, f.PING]
    client.tick(113)
    assert client.server.draining
    client.tick(140)
    assert not client.transport.closed
    client.tick(142)
    written = parse_frames(client.transport.written)
    assert f.HEADERS in [kind for kind, *_ in written]
    assert client.transport.ended
    assert client.state.counters.outcomes[GrpcStatus.UNAVAILABLE] == 1


@pytest.mark.parametrize(("size", "sent"), [(100, 105), (70_000, 65_535)])
def test_a_deadline_is_a_status_though_messages_wait(size, sent):
    """What the client has room for goes before it; what it has no room for, it does not wait for."""

    async def main():
        client = with_tasks(stream_client())
        client.send(client.headers(1, [*REQUEST, (b"grpc-timeout", b"1S")]))
        [call] = client.calls
        if size > sent:  # the window is full when the time is over
            call.send_now(b"z" * size)
            written = client.written()
        else:
            written = []
            call.send_now(b"z" * size)
        call.deadline = 0.0
        client.loop.timers[0].callback()
        written += client.written()
        assert sum(len(payload) for kind, _, _, payload in written if kind == f.DATA) == sent
        assert endings(written) == ({1: b"4"}, {1: ErrorCode.NO_ERROR})
        assert client.state.counters.outcomes[GrpcStatus.DEADLINE_EXCEEDED] == 1
        assert call.cancelled
        assert client.server._http2.open_streams == 0
        assert client.server._http2.waiting_bytes == 0

    run(main())


def test_the_end_of_a_drain_is_a_status_though_messages_wait():
    async def main():
        client = with_tasks(stream_client())
        client.send(f.window_update_frame(0, 1 << 24) + client.headers(1) + client.headers(3) + client.headers(5))
        for call, size in zip(client.calls, (100, 70_000, 0), strict=True):
            call.send_now(b"z" * size)
        client.server.cut()
        assert client.transport.ended  # for writing: a reset may overtake the statuses
        ended, resets = endings(parse_frames(client.transport.written))
        assert ended == {1: b"14", 3: b"14", 5: b"14"}
        assert set(resets.values()) == {ErrorCode.NO_ERROR}
        assert all(call.cancelled for call in client.calls)

    run(main())


def test_an_answer_over_the_limit():
    async def main():
        client = with_tasks(MemoryClient(max_response_bytes=10))
        client.send(client.call(1) + client.call(3))
        first, second = client.calls
        first.reply(b"x" * 11)
        assert client.answer()[0][b"grpc-status"] == b"8"
        await second.send(b"x" * 10)
        second.reply(b"y" * 10)
        assert client.answer()[1] == framed(b"x" * 10, b"y" * 10)

    run(main())


@given(st.lists(st.sampled_from(["data", "end", "reset", "send", "finish", "fail", "window", "turn"]), max_size=14))
def test_no_order_of_events_breaks_a_stream(steps):
    """Whatever both sides do in whatever order: no exception but those that are promised, and nothing is left."""

    async def main():
        client = with_tasks(stream_client())
        client.send(f.settings_frame([(4, 10)]) + client.headers(1))
        [call] = client.calls
        tasks, ended, gone = [], False, False
        for step in steps:
            if step == "data" and not ended and not gone:
                client.send(data(1, framed(b"abc")))
            elif step == "end" and not ended and not gone:
                client.send(data(1, b"", end=True))
                ended = True
            elif step == "reset" and not gone:
                client.send(f.reset_frame(1, 8))
                gone = True
            elif step == "send" and not call.answered:
                tasks.append(asyncio.create_task(call.send(b"q" * 100_000)))
                await asyncio.sleep(0)
            elif step == "finish" and not call.answered:
                call.finish()
            elif step == "fail" and not call.answered:
                call.fail(GrpcStatus.ABORTED, "enough")
            elif step == "window":
                client.send(f.window_update_frame(0, 100_000) + f.window_update_frame(1, 100_000))
            elif step == "turn":
                await turns(client, 3)
        if not call.answered and not call.cancelled:
            call.finish()
        client.send(f.window_update_frame(0, 1 << 30) + f.window_update_frame(1, 1 << 30))
        await turns(client, 10)
        assert client.server.calls_in_flight == 0
        assert client.server._http2.open_streams == 0
        assert client.state.buffered_bytes == 0
        assert sum(client.state.counters.outcomes) == 1
        assert not client.transport.ended, "the connection failed"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(main())
