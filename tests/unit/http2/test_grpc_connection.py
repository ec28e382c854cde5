"""The connection's clock, buffers and refusals, without a socket."""

import re

import pytest
from grpc_memory import MemoryClient
from http2_wire import REQUEST

from trilith.errors import Bug
from trilith.wire.grpc_status import GrpcStatus
from trilith.wire.http2 import ErrorCode
from trilith.wire.http2 import frames as f


def kinds(written):
    return [kind for kind, _, _, _ in written]


def test_answers_of_one_turn_are_one_write():
    client = MemoryClient(lambda call: call.reply(call.message))
    writes = []
    client.transport.write = writes.append
    client.send(client.call(1) + client.call(3) + client.call(5))
    assert len(writes) == 1
    assert client.loop.soon == []


def test_later_answers_are_one_write_as_well():
    client = MemoryClient()
    client.send(client.call(1) + client.call(3))
    for call in client.calls:
        call.reply(bytearray(b"x"))
    assert len(client.loop.soon) == 1
    assert kinds(client.written()).count(f.DATA) == 2


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ([*REQUEST[:-1], (b"content-type", b"application/json")], b"415"),
        ([(b":method", b"GET"), *REQUEST[1:]], b"405"),
    ],
)
def test_what_is_no_grpc_is_answered_as_http(fields, status):
    client = MemoryClient()
    client.send(client.headers(1, fields) + f.frame(f.DATA, 0, 1, b"x"))
    answer, _, reset = client.answer()
    assert answer[b":status"] == status
    assert reset == ErrorCode.NO_ERROR
    assert client.calls == []
    assert sum(client.state.counters.refused.values()) == 1


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", GrpcStatus.UNIMPLEMENTED),
        (b"\0\0\0\0\x05abc", GrpcStatus.INTERNAL),
        (b"\0\0", GrpcStatus.INTERNAL),
        (b"\0\0\0\0\0\0\0\0\0\0", GrpcStatus.UNIMPLEMENTED),
        (b"\0\0\0\0\x01a\0\0\0\0\x01b", GrpcStatus.UNIMPLEMENTED),
        (b"\x01\0\0\0\x01a", GrpcStatus.INTERNAL),
        (b"\x07\0\0\0\x01a", GrpcStatus.INVALID_ARGUMENT),
    ],
)
@pytest.mark.parametrize("pieces", [1, 100])
def test_bodies_that_are_not_one_message(body, status, pieces):
    client = MemoryClient()
    client.send(client.headers(1))
    size = max(1, len(body) // pieces)
    for at in range(0, len(body), size):
        client.send(f.frame(f.DATA, 0, 1, body[at : at + size]))
    client.send(f.frame(f.DATA, f.END_STREAM, 1))
    answer, _, _ = client.answer()
    assert answer[b"grpc-status"] == b"%d" % status
    assert client.calls == []
    assert client.state.buffered_bytes == 0


def test_a_head_without_a_body():
    client = MemoryClient()
    client.send(client.headers(1, end=True))
    answer, _, reset = client.answer()
    assert answer[b"grpc-status"] == b"12"
    assert reset is None


def test_a_message_in_pieces_and_trailers():
    client = MemoryClient()
    client.send(client.call(1, b"hello", end=False))
    assert client.calls == []
    assert client.state.buffered_bytes == 10
    client.send(client.headers(1, [(b"x-end", b"1")], end=True))
    [call] = client.calls
    assert bytes(call.message) == b"hello"
    assert client.state.buffered_bytes == 5  # it is held until it is answered
    call.reply(b"")
    assert client.state.buffered_bytes == 0


def test_a_message_over_the_limit_is_refused_from_its_prefix():
    client = MemoryClient(max_message_bytes=10)
    client.send(client.headers(1) + f.frame(f.DATA, 0, 1, b"\0\0\0\0\x0b"))
    answer, _, reset = client.answer()
    assert answer[b"grpc-status"] == b"8"
    assert reset == ErrorCode.NO_ERROR
    client.send(f.frame(f.DATA, f.END_STREAM, 1, b"x" * 11))
    assert client.written() == []


def test_a_malformed_timeout():
    client = MemoryClient()
    client.send(client.call(1, b"x", (b"grpc-timeout", b"soon")))
    assert client.answer()[0][b"grpc-status"] == b"3"


def test_one_timer_for_all_deadlines_of_a_connection():
    client = MemoryClient()
    client.send(client.call(1, b"x", (b"grpc-timeout", b"100S")) + client.call(3, b"x", (b"grpc-timeout", b"500S")))
    assert [round(timer.delay_s) for timer in client.loop.timers] == [100]
    client.send(client.call(5, b"x", (b"grpc-timeout", b"10S")))
    first, second = client.loop.timers
    assert first.cancelled
    client.calls[2].reply(b"in time")
    second.callback()  # nothing is due: it goes on to the next deadline
    assert 50 < client.loop.timers[-1].delay_s <= 100


def test_a_deadline_ends_the_call_once():
    client = MemoryClient()
    client.send(client.call(1, b"x", (b"grpc-timeout", b"0n")))
    assert client.calls == []
    assert client.answer()[0][b"grpc-status"] == b"4"
    ends = []
    client.send(client.call(3, b"x", (b"grpc-timeout", b"1m")))
    [call] = client.calls
    call.on_cancel = lambda: ends.append(call.state.name)
    client.loop.timers[-1].callback()
    assert ends == ["CANCELLED"]
    call.reply(b"too late")
    client.server.connection_lost(None)
    assert ends == ["CANCELLED"]
    assert client.state.counters.outcomes[GrpcStatus.DEADLINE_EXCEEDED] == 2


def test_a_failing_on_cancel_is_logged(caplog):
    client = MemoryClient()
    client.send(client.call())
    client.calls[0].on_cancel = lambda: 1 // 0
    client.send(f.frame(f.RST_STREAM, 0, 1, bytes(4)))
    assert "on_cancel failed" in caplog.text
    assert client.state.counters.outcomes[GrpcStatus.CANCELLED] == 1


def test_a_protocol_error_cancels_all_at_once():
    client = MemoryClient()
    client.send(client.call())
    ended = []
    client.calls[0].on_cancel = lambda: ended.append(1)
    client.send(f.frame(f.PING, 0, 0, b"short"))
    assert ended == [1]
    assert client.transport.ended
    assert not client.transport.closed  # a close now might reset the socket before the GOAWAY is read
    client.tick(2)
    assert client.transport.closed
    assert kinds(client.written()) == [f.GOAWAY]
    assert client.state.counters.protocol_errors == {"FRAME_SIZE_ERROR": 1}
    client.send(client.call(3))
    assert len(client.calls) == 1


@pytest.mark.parametrize("message", ["text", 5, None])
def test_an_answer_that_is_no_bytes_fails_the_call_and_leaves_no_client_waiting(message, caplog):
    client = MemoryClient(lambda call: call.reply(message))
    client.send(client.call())
    assert client.answer()[0][b"grpc-status"] == b"13"
    assert "memoryview" in caplog.text


def test_a_second_answer_is_a_bug():
    client = MemoryClient()
    client.send(client.call())
    [call] = client.calls
    call.reply(b"1")
    assert call.answered
    with pytest.raises(Bug, match="answered twice"):
        call.fail(GrpcStatus.INTERNAL, "2")


def test_request_ids():
    client = MemoryClient()
    client.send(client.call(1, b"", (b"x-request-id", b"my-id")))
    client.send(client.call(3, b"", (b"x-request-id", b"\xff\n"[:1])) + client.call(5, b""))
    given, unusable, missing = (call.request_id for call in client.calls)
    assert given == "my-id"
    made = re.compile(r"[0-9a-f]{12}-[0-9a-f]+")
    assert made.fullmatch(unusable)
    assert made.fullmatch(missing)
    assert unusable != missing


def test_while_the_socket_is_full_bodies_wait_and_then_reading_stops():
    client = MemoryClient(lambda call: call.reply(call.message))
    client.server.pause_writing()
    numbers = iter(range(1, 10_000, 2))
    for _ in range(60):
        client.send(b"".join(client.call(next(numbers)) for _ in range(10)))
    assert client.written() == []
    assert client.transport.reading_paused
    client.server.resume_writing()
    assert not client.transport.reading_paused
    assert kinds(client.written()).count(f.DATA) == 600


def test_a_large_answer_goes_out_in_budgets():
    client = MemoryClient(lambda call: call.reply(b"x" * (1 << 20)))
    client.send(f.window_update_frame(0, 1 << 21) + f.settings_frame([(4, 1 << 21)]) + client.call())
    first = len(client.transport.written)
    assert 256 << 10 <= first < 300 << 10
    client.server.pause_writing()
    client.loop.run()
    assert len(client.transport.written) == first
    client.server.resume_writing()
    client.loop.run()
    assert len(client.transport.written) > 1 << 20


def test_a_client_that_does_not_read_is_cut():
    client = MemoryClient(write_timeout_s=30)
    client.server.pause_writing()
    client.tick(29)
    assert not client.transport.aborted
    client.tick(31)
    assert client.transport.aborted
    assert client.state.counters.write_timeouts == 1


def test_a_message_that_stops_coming_ends_its_call():
    client = MemoryClient(receive_timeout_s=30)
    client.send(client.call(1, b"x", end=False) + client.call(3))
    client.tick(29)
    client.tick(31)
    answer, _, reset = client.answer()
    assert answer[b"grpc-status"] == b"4"
    assert reset == ErrorCode.NO_ERROR
    assert client.server.calls_in_flight == 1  # the complete one runs on


def test_keepalive():
    client = MemoryClient(keepalive_interval_s=60, keepalive_timeout_s=20)
    client.tick(59)
    assert client.written() == []
    client.tick(61)
    [(kind, flags, _, payload)] = client.written()
    assert (kind, flags) == (f.PING, 0)
    client.send(f.frame(f.PING, f.ACK, 0, payload))
    client.tick(59)
    assert client.written() == []
    client.tick(61)
    assert kinds(client.written()) == [f.PING]
    client.tick(80)
    client.tick(82)
    assert client.transport.aborted
    assert client.state.counters.keepalive_timeouts == 1


def test_idle_connections_are_drained_in_two_phases():
    client = MemoryClient(idle_timeout_s=600, keepalive_interval_s=10_000)
    client.send(client.call())
    client.tick(700)
    client.calls[0].reply(b"x")
    client.written()
    client.tick(1200)
    assert client.written() == []
    client.tick(1301)
    go_away, ping = client.written()
    assert f.u32(go_away[3]) == f.MAX_STREAM_ID
    client.send(client.call(3))  # it was on its way
    client.send(f.frame(f.PING, f.ACK, 0, ping[3]))
    [go_away] = client.written()
    assert f.u32(go_away[3]) == 3
    assert not client.transport.closed
    client.calls[1].reply(b"y")
    client.written()
    assert client.transport.closed


def test_a_drain_does_not_wait_long_for_the_client():
    client = MemoryClient()
    client.server.begin_drain()
    client.server.begin_drain()
    assert kinds(client.written()) == [f.GOAWAY, f.PING]
    client.tick(0.5)
    assert not client.server.draining
    client.tick(1.5)
    assert client.server.draining
    client.written()
    assert client.transport.closed


def test_a_connection_that_said_nothing_is_closed_by_a_drain():
    client = MemoryClient(greet=False)
    client.server.begin_drain()
    client.loop.run()
    assert client.transport.closed
    assert client.transport.written == b""


def test_a_silent_handshake_is_cut():
    client = MemoryClient(greet=False, handshake_timeout_s=10)
    client.tick(9)
    assert not client.transport.aborted
    client.send(f.PREFACE)
    client.tick(11)
    assert client.transport.aborted


def test_an_answer_that_is_not_read_is_dropped_and_the_others_go_on():
    client = MemoryClient(lambda call: call.reply(b"x" * 100_000), write_timeout_s=30, keepalive_interval_s=1e6)
    client.send(f.settings_frame([(4, 10)]) + client.call(1) + client.call(3))
    client.written()
    client.tick(1)
    client.tick(29)
    client.send(f.window_update_frame(3, 40_000))
    client.written()
    client.tick(30)
    client.tick(32)
    assert [(stream, f.u32(payload)) for kind, _, stream, payload in client.written() if kind == f.RST_STREAM] == [
        (1, ErrorCode.CANCEL)
    ]
    assert client.state.counters.write_timeouts == 1
    assert client.server._http2.open_streams == 1
    assert not client.transport.aborted
