"""Every refusal at the door of the gRPC port is counted, by a reason that says what the client did."""

import pytest
from grpc_memory import MemoryClient
from http2_wire import REQUEST

from trilith.wire.http2 import frames as f

HELLO = f.PREFACE + f.settings_frame([])


def refused(client):
    return dict(client.state.counters.refused)


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", "http1"),
        (b"POST /v2/models/x/infer HTTP/1.1\r\n", "http1"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "tls"),
        (b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "preface"),
    ],
)
def test_what_is_no_http2(octets, reason):
    client = MemoryClient(greet=False)
    client.send(octets)
    assert refused(client) == {reason: 1}
    assert client.transport.ended


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (f.frame_head(16_385, f.DATA, 0, 1), "frame_size"),
        (f.frame(f.PING, 0, 0, b"short"), "frame_size"),
        (f.frame(f.HEADERS, f.END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff"), "header_compression"),
        (f.frame(f.HEADERS, f.END_HEADERS, 1, b"\x80"), "header_compression"),
        (f.frame(f.HEADERS, f.END_HEADERS, 2, b""), "protocol"),
        (f.window_update_frame(0, f.MAX_WINDOW), "flow_control"),
        (f.frame(f.PUSH_PROMISE, 0, 1, bytes(4)), "protocol"),
        (f.settings_frame([]) * 101, "settings_flood"),
        (b"".join(f.frame(f.PING, 0, 0, bytes(8)) for _ in range(101)), "ping_flood"),
        (
            f.frame(f.HEADERS, 0, 1, b"\x82") + f.frame(f.CONTINUATION, 0, 1, b"\x84") * 66,
            "continuation_flood",
        ),
    ],
)
def test_faults_of_the_connection(octets, reason):
    client = MemoryClient(control_burst=100, control_per_s=0.0, max_ping_strikes=1000)
    client.send(octets)
    assert refused(client) == {reason: 1}
    assert client.transport.ended


def test_a_list_of_headers_over_the_limit():
    client = MemoryClient(max_metadata_bytes=1000)
    client.send(client.headers(1, [*REQUEST, (b"x-long", b"x" * 1000)]))
    assert refused(client) == {"header_list": 1}


def test_rapid_reset_is_a_flood_of_resets():
    client = MemoryClient(control_burst=50, control_per_s=0.0)
    for number in range(1, 200, 2):
        client.send(client.call(number) + f.reset_frame(number, 8))
    assert refused(client) == {"reset_flood": 1}
    assert client.server.calls_in_flight == 0


def test_empty_frames_are_a_flood():
    client = MemoryClient(control_burst=50, control_per_s=0.0)
    client.send(client.headers(1) + f.frame(f.DATA, 0, 1) * 51)
    assert refused(client) == {"empty_frame_flood": 1}


def test_too_many_pings_in_the_words_that_clients_know():
    client = MemoryClient(min_ping_interval_s=10, max_ping_strikes=2)
    client.send(f.frame(f.PING, 0, 0, bytes(8)) * 3)
    assert refused(client) == {}
    client.send(f.frame(f.PING, 0, 0, bytes(8)))
    assert refused(client) == {"too_many_pings": 1}
    *_, (kind, _, _, payload) = client.written()
    assert kind == f.GOAWAY
    assert f.u32(payload, 4) == 0xB
    assert payload[8:] == b"too_many_pings"


def test_pings_beside_answers_are_no_strikes():
    client = MemoryClient(lambda call: call.reply(b"x"), min_ping_interval_s=10, max_ping_strikes=2)
    for number in range(1, 41, 2):
        client.send(f.frame(f.PING, 0, 0, bytes(8)) + client.call(number))
    assert refused(client) == {}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ([*REQUEST, (b"X-Upper", b"1")], "malformed_headers"),
        ([*REQUEST, (b"connection", b"close")], "malformed_headers"),
        (REQUEST[1:], "malformed_headers"),
        ([*REQUEST, (b"content-length", b"3")], "content_length"),
        ([*REQUEST[:-1], (b"content-type", b"application/json")], "content_type"),
        ([(b":method", b"GET"), *REQUEST[1:]], "http_method"),
        ([*REQUEST, (b"grpc-timeout", b"soon")], "timeout"),
    ],
)
def test_faults_of_one_stream_end_that_stream_alone(fields, reason):
    client = MemoryClient()
    client.send(client.headers(1, fields, end=True))
    assert refused(client) == {reason: 1}
    client.send(client.call(3))
    assert len(client.calls) == 1


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "no_message"),
        (b"\0\0\0\0\x05abc", "message_truncated"),
        (b"\0\0\0\0\x0b" + b"x" * 11, "message_size"),
        (b"\x07\0\0\0\x01a", "message_prefix"),
        (b"\0\0\0\0\x01a\0\0\0\0\x01b", "extra_messages"),
    ],
)
def test_bodies_that_are_not_one_message_are_counted(body, reason):
    client = MemoryClient(max_message_bytes=10)
    client.send(client.headers(1) + f.frame(f.DATA, f.END_STREAM, 1, body))
    assert refused(client) == {reason: 1}
    assert client.server.calls_in_flight == 0


def test_too_many_streams_and_buffers_and_slow_messages():
    client = MemoryClient(max_concurrent_streams=2, max_buffered_bytes=20)
    client.send(client.call(1) + client.call(3) + client.call(5))
    assert refused(client) == {"streams": 1}
    client.calls[0].reply(b"")
    client.send(client.call(7, b"x" * 30, end=False))
    assert refused(client) == {"streams": 1, "buffers": 1}
    client.send(client.call(9, b"slow", end=False))
    client.tick(31)
    assert refused(client) == {"streams": 1, "buffers": 1, "message_slow": 1}
