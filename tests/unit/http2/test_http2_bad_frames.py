"""Each rule of RFC 9113 that a client can break, and the code that it gets for it."""

import pytest
from http2_wire import REQUEST, RawClient, parse_frames

from trilith.wire.http2 import (
    ConnectionFailed,
    ConnectionState,
    DataReceived,
    EncodedHeaders,
    ErrorCode,
    Http2Limits,
    RequestReceived,
    RequestRefused,
    StreamReset,
    TrailersReceived,
)
from trilith.wire.http2 import frames as f

E = ErrorCode
ZERO = bytes(4)


def request_without(name: bytes) -> list[tuple[bytes, bytes]]:
    return [field for field in REQUEST if field[0] != name]


CONNECTION_FAULTS = {
    "too large frame": (lambda c: f.frame_head(16385, f.DATA, 0, 1), E.FRAME_SIZE_ERROR),
    "data on stream 0": (lambda c: f.frame(f.DATA, 0, 0, b"x"), E.PROTOCOL_ERROR),
    "data on idle stream": (lambda c: f.frame(f.DATA, 0, 1, b"x"), E.PROTOCOL_ERROR),
    "padding as long as the payload": (
        lambda c: c.headers(1) + f.frame(f.DATA, f.PADDED, 1, b"\x05abcd"),
        E.PROTOCOL_ERROR,
    ),
    "padded without a pad length": (lambda c: c.headers(1) + f.frame(f.DATA, f.PADDED, 1), E.FRAME_SIZE_ERROR),
    "headers on stream 0": (lambda c: c.headers(0), E.PROTOCOL_ERROR),
    "headers on an even stream": (lambda c: c.headers(2), E.PROTOCOL_ERROR),
    "headers with short priority": (
        lambda c: f.frame(f.HEADERS, f.END_HEADERS | f.HAS_PRIORITY, 1, b"abc"),
        E.FRAME_SIZE_ERROR,
    ),
    "headers with padding over priority": (
        lambda c: f.frame(f.HEADERS, f.END_HEADERS | f.HAS_PRIORITY | f.PADDED, 1, b"\x03" + bytes(7)),
        E.FRAME_SIZE_ERROR,
    ),
    "headers on a skipped stream": (lambda c: c.headers(5) + c.headers(3), E.PROTOCOL_ERROR),
    "priority on stream 0": (lambda c: f.frame(f.PRIORITY, 0, 0, bytes(5)), E.PROTOCOL_ERROR),
    "short priority": (lambda c: f.frame(f.PRIORITY, 0, 1, bytes(4)), E.FRAME_SIZE_ERROR),
    "reset of stream 0": (lambda c: f.frame(f.RST_STREAM, 0, 0, ZERO), E.PROTOCOL_ERROR),
    "reset of an idle stream": (lambda c: f.frame(f.RST_STREAM, 0, 1, ZERO), E.PROTOCOL_ERROR),
    "short reset": (lambda c: c.headers(1) + f.frame(f.RST_STREAM, 0, 1, b"abc"), E.FRAME_SIZE_ERROR),
    "settings on a stream": (lambda c: f.frame(f.SETTINGS, 0, 1), E.PROTOCOL_ERROR),
    "settings of 5 octets": (lambda c: f.frame(f.SETTINGS, 0, 0, bytes(5)), E.FRAME_SIZE_ERROR),
    "settings acknowledgement with payload": (
        lambda c: f.frame(f.SETTINGS, f.ACK, 0, bytes(6)),
        E.FRAME_SIZE_ERROR,
    ),
    "initial window over 2**31-1": (lambda c: f.settings_frame([(4, 1 << 31)]), E.FLOW_CONTROL_ERROR),
    "max frame size too small": (lambda c: f.settings_frame([(5, 16383)]), E.PROTOCOL_ERROR),
    "max frame size too large": (lambda c: f.settings_frame([(5, 1 << 24)]), E.PROTOCOL_ERROR),
    "enable push of 2": (lambda c: f.settings_frame([(2, 2)]), E.PROTOCOL_ERROR),
    "push promise": (lambda c: f.frame(f.PUSH_PROMISE, f.END_HEADERS, 1, ZERO), E.PROTOCOL_ERROR),
    "ping on a stream": (lambda c: f.frame(f.PING, 0, 1, bytes(8)), E.PROTOCOL_ERROR),
    "short ping": (lambda c: f.frame(f.PING, 0, 0, bytes(7)), E.FRAME_SIZE_ERROR),
    "go away on a stream": (lambda c: f.frame(f.GOAWAY, 0, 1, bytes(8)), E.PROTOCOL_ERROR),
    "short go away": (lambda c: f.frame(f.GOAWAY, 0, 0, bytes(7)), E.FRAME_SIZE_ERROR),
    "short window update": (lambda c: f.frame(f.WINDOW_UPDATE, 0, 0, bytes(3)), E.FRAME_SIZE_ERROR),
    "window update of 0": (lambda c: f.window_update_frame(0, 0), E.PROTOCOL_ERROR),
    "window update on an idle stream": (lambda c: f.window_update_frame(7, 1), E.PROTOCOL_ERROR),
    "connection window overflow": (lambda c: f.window_update_frame(0, f.MAX_WINDOW), E.FLOW_CONTROL_ERROR),
    "initial window overflows a widened stream": (
        lambda c: c.headers(1) + f.window_update_frame(1, f.MAX_WINDOW - 70000) + f.settings_frame([(4, 200_000)]),
        E.FLOW_CONTROL_ERROR,
    ),
    "lone continuation": (lambda c: f.frame(f.CONTINUATION, f.END_HEADERS, 1), E.PROTOCOL_ERROR),
    "continuation of another stream": (
        lambda c: f.frame(f.HEADERS, 0, 1, b"") + f.frame(f.CONTINUATION, f.END_HEADERS, 3),
        E.PROTOCOL_ERROR,
    ),
    "block interrupted": (lambda c: f.frame(f.HEADERS, 0, 1) + f.frame(f.PING, 0, 0, bytes(8)), E.PROTOCOL_ERROR),
    "block interrupted by an unknown frame": (
        lambda c: f.frame(f.HEADERS, 0, 1) + f.frame(0x42, 0, 0, b""),
        E.PROTOCOL_ERROR,
    ),
    "endless continuation": (
        lambda c: f.frame(f.HEADERS, 0, 1) + f.frame(f.CONTINUATION, 0, 1) * 65,
        E.ENHANCE_YOUR_CALM,
    ),
    "large header block": (
        lambda c: f.frame(f.HEADERS, 0, 1, bytes(16384)) + f.frame(f.CONTINUATION, 0, 1, bytes(16384)) * 8,
        E.ENHANCE_YOUR_CALM,
    ),
    "header list over the limit": (
        lambda c: f.frame(f.HEADERS, f.END_HEADERS, 1, b"\x40\x01a\x7f\xa1\x1e" + b"v" * 4000 + b"\xbe" * 20),
        E.ENHANCE_YOUR_CALM,
    ),
    "index 0": (lambda c: f.frame(f.HEADERS, f.END_HEADERS, 1, b"\x80"), E.COMPRESSION_ERROR),
    "index beyond the table": (lambda c: f.frame(f.HEADERS, f.END_HEADERS, 1, b"\xbe"), E.COMPRESSION_ERROR),
    "block ends inside a string": (
        lambda c: f.frame(f.HEADERS, f.END_HEADERS, 1, b"\x00\x05ab"),
        E.COMPRESSION_ERROR,
    ),
    "integer without end": (
        lambda c: f.frame(f.HEADERS, f.END_HEADERS, 1, b"\xff" + b"\xff" * 8 + b"\x01"),
        E.COMPRESSION_ERROR,
    ),
    "table size over the limit": (lambda c: f.frame(f.HEADERS, f.END_HEADERS, 1, b"\x3f\xe2\x1f"), E.COMPRESSION_ERROR),
    "table size after a field": (lambda c: f.frame(f.HEADERS, f.END_HEADERS, 1, b"\x82\x20"), E.COMPRESSION_ERROR),
    "bad huffman": (lambda c: f.frame(f.HEADERS, f.END_HEADERS, 1, b"\x00\x81\xff\x01a"), E.COMPRESSION_ERROR),
    "ping flood": (lambda c: f.frame(f.PING, 0, 0, bytes(8)) * 4001, E.ENHANCE_YOUR_CALM),
    "settings flood": (lambda c: f.settings_frame([]) * 4001, E.ENHANCE_YOUR_CALM),
    "empty data flood": (lambda c: c.headers(1) + f.frame(f.DATA, 0, 1) * 4001, E.ENHANCE_YOUR_CALM),
    "priority flood": (lambda c: f.frame(f.PRIORITY, 0, 1, bytes(5)) * 4001, E.ENHANCE_YOUR_CALM),
    "window flood": (lambda c: f.window_update_frame(0, 1) * 4001, E.ENHANCE_YOUR_CALM),
    "window flood of a stream that was": (
        lambda c: c.headers(1) + f.frame(f.RST_STREAM, 0, 1, ZERO) + f.window_update_frame(1, 1) * 4001,
        E.ENHANCE_YOUR_CALM,
    ),
    "flood of unknown frames": (lambda c: f.frame(0x42, 0, 0, b"x") * 4001, E.ENHANCE_YOUR_CALM),
    "rapid reset": (
        lambda c: b"".join(c.headers(2 * n + 1) + f.frame(f.RST_STREAM, 0, 2 * n + 1, ZERO) for n in range(4001)),
        E.ENHANCE_YOUR_CALM,
    ),
    "resets provoked by window updates": (
        lambda c: b"".join(c.headers(2 * n + 1) + f.window_update_frame(2 * n + 1, 0) for n in range(4001)),
        E.ENHANCE_YOUR_CALM,
    ),
    "refused streams without end": (lambda c: b"".join(c.headers(2 * n + 1) for n in range(5001)), E.ENHANCE_YOUR_CALM),
}

STREAM_FAULTS = {
    "data after the end": (lambda c: c.headers(1, end=True) + f.frame(f.DATA, 0, 1, b"x"), E.STREAM_CLOSED),
    "headers after the end": (lambda c: c.headers(1, end=True) + c.headers(1, end=True), E.STREAM_CLOSED),
    "trailers that do not end": (lambda c: c.headers(1) + c.headers(1, [(b"a", b"b")]), E.PROTOCOL_ERROR),
    "trailers with a pseudo-field": (lambda c: c.headers(1) + c.headers(1, end=True), E.PROTOCOL_ERROR),
    "window update of 0": (lambda c: c.headers(1) + f.window_update_frame(1, 0), E.PROTOCOL_ERROR),
    "window overflow": (lambda c: c.headers(1) + f.window_update_frame(1, f.MAX_WINDOW), E.FLOW_CONTROL_ERROR),
    "no method": (lambda c: c.headers(1, request_without(b":method")), E.PROTOCOL_ERROR),
    "no path": (lambda c: c.headers(1, request_without(b":path")), E.PROTOCOL_ERROR),
    "no scheme": (lambda c: c.headers(1, request_without(b":scheme")), E.PROTOCOL_ERROR),
    "empty path": (lambda c: c.headers(1, [*request_without(b":path")[:2], (b":path", b"")]), E.PROTOCOL_ERROR),
    "method twice": (lambda c: c.headers(1, [REQUEST[0], *REQUEST]), E.PROTOCOL_ERROR),
    "unknown pseudo-field": (lambda c: c.headers(1, [(b":status", b"200"), *REQUEST]), E.PROTOCOL_ERROR),
    "pseudo-field after a field": (lambda c: c.headers(1, [*REQUEST[1:], REQUEST[0]]), E.PROTOCOL_ERROR),
    "upper case": (lambda c: c.headers(1, [*REQUEST, (b"X-A", b"1")]), E.PROTOCOL_ERROR),
    "empty name": (lambda c: c.headers(1, [*REQUEST, (b"", b"1")]), E.PROTOCOL_ERROR),
    "connection field": (lambda c: c.headers(1, [*REQUEST, (b"connection", b"close")]), E.PROTOCOL_ERROR),
    "transfer-encoding": (lambda c: c.headers(1, [*REQUEST, (b"transfer-encoding", b"chunked")]), E.PROTOCOL_ERROR),
    "te": (lambda c: c.headers(1, [*REQUEST, (b"te", b"gzip")]), E.PROTOCOL_ERROR),
    "line break": (lambda c: c.headers(1, [*REQUEST, (b"x", b"a\r\nb")]), E.PROTOCOL_ERROR),
    "two content-lengths": (
        lambda c: c.headers(1, [*REQUEST, (b"content-length", b"1"), (b"content-length", b"2")]),
        E.PROTOCOL_ERROR,
    ),
    "content-length of letters": (lambda c: c.headers(1, [*REQUEST, (b"content-length", b"a")]), E.PROTOCOL_ERROR),
    "content-length without a body": (
        lambda c: c.headers(1, [*REQUEST, (b"content-length", b"5")], end=True),
        E.PROTOCOL_ERROR,
    ),
    "body too long": (
        lambda c: c.headers(1, [*REQUEST, (b"content-length", b"1")]) + f.frame(f.DATA, 0, 1, b"ab"),
        E.PROTOCOL_ERROR,
    ),
    "body too short": (
        lambda c: c.headers(1, [*REQUEST, (b"content-length", b"3")]) + f.frame(f.DATA, f.END_STREAM, 1, b"ab"),
        E.PROTOCOL_ERROR,
    ),
    "body too short before trailers": (
        lambda c: c.headers(1, [*REQUEST, (b"content-length", b"3")]) + c.headers(1, [(b"a", b"b")], end=True),
        E.PROTOCOL_ERROR,
    ),
}


@pytest.mark.parametrize("name", CONNECTION_FAULTS)
def test_connection_fault(name):
    make, code = CONNECTION_FAULTS[name]
    client = RawClient()
    go_aways, _ = client.codes(make(client))
    assert go_aways == [code]
    assert client.connection.state is ConnectionState.CLOSED
    assert client.receive(client.headers(9)) == []


@pytest.mark.parametrize("name", STREAM_FAULTS)
def test_stream_fault(name):
    make, code = STREAM_FAULTS[name]
    client = RawClient()
    assert client.codes(make(client)) == ([], [code])
    assert client.connection.open_streams == 0
    # The connection goes on, and frames that were on their way to the stream are ignored.
    assert client.codes(f.frame(f.DATA, 0, 1, b"late") + f.window_update_frame(1, 5)) == ([], [])
    assert [type(event) for event in client.receive(client.headers(3, end=True))] == [RequestReceived]


def test_headers_on_a_stream_that_ended_are_fatal(answered):
    client = answered
    assert client.codes(client.headers(1)) == ([E.STREAM_CLOSED], [])


def test_data_on_a_stream_that_ended_resets_it(answered):
    assert answered.codes(f.frame(f.DATA, 0, 1, b"x")) == ([], [E.STREAM_CLOSED])


def test_late_frames_for_a_stream_that_ended_are_ignored(answered):
    late = f.window_update_frame(1, 9) + f.frame(f.RST_STREAM, 0, 1, ZERO) + f.frame(f.PRIORITY, 0, 1, bytes(5))
    assert answered.receive(late) == []
    assert answered.output() == []


@pytest.fixture
def answered():
    client = RawClient()
    client.receive(client.headers(1, end=True))
    client.connection.send_headers(1, EncodedHeaders([(b":status", b"200")]))
    client.output()
    return client


def test_preface_in_pieces_and_settings_both_ways():
    client = RawClient(greet=False)
    for octet in f.PREFACE:
        assert client.receive(bytes((octet,))) == []
    settings, window = client.output()
    assert settings[0] == f.SETTINGS
    assert dict(f.settings_entries(settings[3])) == {3: 1000, 4: 4 << 20, 5: 16384, 6: 64 << 10}
    assert window[0] == f.WINDOW_UPDATE
    assert f.u32(window[3]) == (16 << 20) - 65535
    client.receive(f.settings_frame([(0x99, 5)]))
    assert client.output() == [(f.SETTINGS, f.ACK, 0, b"")]
    assert client.connection.state is ConnectionState.OPEN


@pytest.mark.parametrize("first", [f.frame(f.PING, 0, 0, bytes(8)), f.frame(f.SETTINGS, f.ACK, 0)])
def test_first_frame_must_be_settings(first):
    client = RawClient(greet=False)
    client.receive(f.PREFACE)
    client.output()
    assert client.codes(first)[0] == [E.PROTOCOL_ERROR]


def test_http1_client_is_told():
    client = RawClient(greet=False)
    [event] = client.receive(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    assert isinstance(event, ConnectionFailed)
    assert client.connection.take_output(1000).startswith(b"HTTP/1.1 400 ")


def test_padding_priority_and_unknown_frames_are_read_over():
    client = RawClient()
    block = bytes(5) + client.block()
    flags = f.END_HEADERS | f.PADDED | f.HAS_PRIORITY
    head, data, trailers = client.receive(
        f.frame(0x77, 0xFF, 3, b"unknown")
        + f.frame(f.HEADERS, flags, 1, b"\x07" + block + bytes(7))
        + f.frame(f.PRIORITY, 0, 5, bytes(5))
        + f.frame(f.DATA, f.PADDED, 1, b"\x02abc\0\0")
        + client.headers(1, [(b"x-end", b"1")], end=True)
    )
    assert isinstance(head, RequestReceived)
    assert head.head.path == b"/test.Echo/Echo"
    assert isinstance(data, DataReceived)
    assert data.data == b"abc"
    assert isinstance(trailers, TrailersReceived)
    assert trailers.fields == ((b"x-end", b"1"),)


def test_streams_over_the_limit_are_refused_and_the_table_still_follows():
    client = RawClient(Http2Limits(max_concurrent_streams=1))
    custom = [*REQUEST, (b"x-custom", b"value")]
    first, refused = client.receive(client.headers(1) + client.headers(3, custom))
    assert isinstance(first, RequestReceived)
    assert refused == RequestRefused(3)
    assert client.output() == [(f.RST_STREAM, 0, 3, E.REFUSED_STREAM.to_bytes(4, "big"))]
    client.receive(f.frame(f.RST_STREAM, 0, 1, ZERO))
    [third] = client.receive(client.headers(5, custom))
    assert third.head.field(b"x-custom") == b"value"


def test_reset_by_the_peer_is_an_event_once():
    client = RawClient()
    client.receive(client.headers(1))
    reset = f.frame(f.RST_STREAM, 0, 1, E.CANCEL.to_bytes(4, "big"))
    assert client.receive(reset + reset) == [StreamReset(1, E.CANCEL)]


def test_two_phase_drain():
    client = RawClient()
    connection = client.connection
    client.receive(client.headers(1))
    connection.announce_drain()
    assert client.output() == [(f.GOAWAY, 0, 0, f.MAX_STREAM_ID.to_bytes(4, "big") + ZERO)]
    assert isinstance(client.receive(client.headers(3))[0], RequestReceived)
    connection.go_away()
    assert client.output() == [(f.GOAWAY, 0, 0, (3).to_bytes(4, "big") + ZERO)]
    assert client.receive(client.headers(5)) == [RequestRefused(5)]
    assert connection.open_streams == 2
    assert isinstance(client.receive(f.frame(f.DATA, f.END_STREAM, 1, b"x"))[0], DataReceived)


def test_control_frames_are_earned_back_by_answers_and_time():
    client = RawClient(Http2Limits(control_burst=2, control_per_s=1.0))  # the greeting took one
    ping = f.frame(f.PING, 0, 0, bytes(8))
    connection = client.connection
    assert connection.receive(ping, 0.0) == []
    assert connection.receive(ping, 1.0) == []
    assert isinstance(connection.receive(ping, 1.5)[0], ConnectionFailed)


def test_go_away_carries_the_last_stream_and_a_reason():
    client = RawClient()
    client.receive(client.headers(5))
    client.receive(f.frame(f.PING, 0, 0, b""))
    [(kind, _, _, payload)] = parse_frames(client.connection.take_output(1))
    assert kind == f.GOAWAY
    assert (f.u32(payload), f.u32(payload, 4)) == (5, E.FRAME_SIZE_ERROR)
    assert b"8 octets" in payload[8:]
