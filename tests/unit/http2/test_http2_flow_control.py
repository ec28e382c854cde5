"""Windows, both ways."""

import pytest
from http2_wire import RawClient
from hypothesis import given, settings
from hypothesis import strategies as st

from trilith.wire.http2 import (
    ConnectionFailed,
    DataReceived,
    EncodedHeaders,
    ErrorCode,
    Http2Limits,
    Refusal,
    StreamReset,
)
from trilith.wire.http2 import frames as f

HEAD = EncodedHeaders([(b":status", b"200")])
TRAILERS = EncodedHeaders([(b"grpc-status", b"0")])


def bodies(written):
    """The body octets by stream, and whether each stream ended."""
    found, ended = {}, set()
    for kind, flags, stream_id, payload in written:
        if kind == f.DATA:
            found[stream_id] = found.get(stream_id, b"") + payload
        if kind in (f.DATA, f.HEADERS) and flags & f.END_STREAM:
            ended.add(stream_id)
    return found, ended


def test_a_small_answer_is_one_piece():
    client = RawClient()
    client.receive(client.headers(1, end=True))
    client.connection.respond(1, HEAD, (b"abc", b"def"), TRAILERS)
    assert client.connection.ready_chunks == 1
    written = client.output()
    assert [(kind, flags, stream) for kind, flags, stream, _ in written] == [
        (f.HEADERS, f.END_HEADERS, 1),
        (f.DATA, 0, 1),
        (f.HEADERS, f.END_HEADERS | f.END_STREAM, 1),
    ]
    assert written[1][3] == b"abcdef"
    assert client.connection.open_streams == 0


@settings(max_examples=60)
@given(
    body=st.binary(max_size=400),
    window=st.integers(0, 60),
    grants=st.lists(st.tuples(st.booleans(), st.integers(1, 100)), max_size=30),
)
def test_never_more_than_the_windows_and_all_in_the_end(body, window, grants):
    client = RawClient()
    client.receive(f.settings_frame([(4, window)]))
    client.receive(client.headers(1, end=True))
    client.output()
    client.connection.respond(1, HEAD, (body,), TRAILERS)
    allowed, sent = window, b""
    for of_stream, increment in [*grants, (True, 1000)]:
        sent += bodies(client.output())[0].get(1, b"")
        assert len(sent) == min(len(body), allowed)
        client.receive(f.window_update_frame(1 if of_stream and client.connection.open_streams else 0, increment))
        allowed += increment if of_stream else 0
    found, _ = bodies(client.output())
    assert sent + found.get(1, b"") == body
    assert client.connection.open_streams == 0


def test_a_smaller_initial_window_makes_windows_negative():
    client = RawClient()
    client.receive(client.headers(1, end=True))
    client.connection.respond(1, HEAD, (b"x" * 70_000,), TRAILERS)
    assert len(bodies(client.output())[0][1]) == 65_535
    client.receive(f.settings_frame([(4, 0)]) + f.window_update_frame(0, 1 << 20))
    assert bodies(client.output()) == ({}, set())
    client.receive(f.window_update_frame(1, 65_535))  # -65535 + 65535: still nothing
    assert bodies(client.output()) == ({}, set())
    client.receive(f.window_update_frame(1, 65_535))
    found, ended = bodies(client.output())
    assert len(found[1]) == 70_000 - 65_535
    assert ended == {1}


def test_streams_take_turns_and_small_answers_pass():
    client = RawClient()
    client.receive(f.window_update_frame(0, 1 << 20) + f.settings_frame([(4, 1 << 20)]))
    client.receive(b"".join(client.headers(number, end=True) for number in (1, 3, 5)))
    client.output()
    client.connection.respond(1, HEAD, (b"a" * 100_000,), TRAILERS)
    client.connection.respond(3, HEAD, (b"b" * 100_000,), TRAILERS)
    client.connection.respond(5, HEAD, (b"small",), TRAILERS)
    written = client.output(40_000)
    assert 5 in bodies(written)[1]
    order = [stream for kind, _, stream, _ in written if kind == f.DATA]
    assert order == [5, 1, 3, 1]
    found, ended = bodies(written + client.output())
    assert {stream: len(body) for stream, body in found.items()} == {1: 100_000, 3: 100_000, 5: 5}
    assert ended == {1, 3, 5}


def test_the_budget_bounds_what_is_cut():
    client = RawClient()
    client.receive(f.window_update_frame(0, 1 << 20) + f.settings_frame([(4, 1 << 20), (5, 1 << 20)]))
    client.receive(client.headers(1, end=True))
    client.output()
    client.connection.respond(1, HEAD, (b"x" * 500_000,), TRAILERS)
    assert len(bodies(client.output(100_000))[0][1]) == 100_000
    assert client.connection.has_output
    found, ended = bodies(client.output())
    assert len(found[1]) == 400_000
    assert ended == {1}
    assert not client.connection.has_output


def test_a_reset_drops_what_waits():
    client = RawClient()
    client.receive(f.settings_frame([(4, 0)]))
    client.receive(client.headers(1, end=True))
    client.connection.respond(1, HEAD, (b"x" * 10,), TRAILERS)
    client.output()
    client.connection.reset(1, ErrorCode.CANCEL)
    client.receive(f.settings_frame([(4, 100)]))
    assert bodies(client.output()) == ({}, set())
    assert client.connection.open_streams == 0


def test_the_stream_window_opens_as_octets_are_released():
    client = RawClient(Http2Limits(stream_window_bytes=100_000))
    client.receive(client.headers(1))
    piece = f.frame(f.DATA, 0, 1, b"x" * 10_000)
    assert len(client.receive(piece * 10)) == 10
    client.connection.release(1, 40_000)
    assert client.output() == []
    client.connection.release(1, 20_000)
    assert client.output() == [(f.WINDOW_UPDATE, 0, 1, (60_000).to_bytes(4, "big"))]
    assert len(client.receive(piece * 6)) == 6
    assert client.receive(piece) == [StreamReset(1, ErrorCode.FLOW_CONTROL_ERROR, Refusal.FLOW_CONTROL)]


def test_padding_is_released_by_itself():
    client = RawClient(Http2Limits(stream_window_bytes=100_000))
    client.receive(client.headers(1))
    padded = f.frame(f.DATA, f.PADDED, 1, b"\xff" + b"x" * 744 + bytes(255))
    for _ in range(1000):
        [event] = client.receive(padded)
        assert isinstance(event, DataReceived)
        client.connection.release(1, len(event.data))


def test_a_small_window_of_ours_holds_only_once_it_is_acknowledged():
    client = RawClient(Http2Limits(stream_window_bytes=10), greet=False)
    client.receive(f.PREFACE + f.settings_frame([]))
    [*_, event] = client.receive(client.headers(1) + f.frame(f.DATA, 0, 1, b"x" * 50))
    assert isinstance(event, DataReceived)
    assert client.receive(f.frame(f.SETTINGS, f.ACK, 0)) == []
    assert isinstance(client.receive(f.frame(f.DATA, 0, 1, b"x"))[0], StreamReset)


def test_the_connection_window_is_kept_open_and_enforced():
    client = RawClient(Http2Limits(connection_window_bytes=65_535, stream_window_bytes=1 << 20))
    client.receive(client.headers(1))
    client.receive(f.frame(f.DATA, 0, 1, b"x" * 16_384) * 2)
    assert client.output() == [(f.WINDOW_UPDATE, 0, 0, (32_768).to_bytes(4, "big"))]
    tight = RawClient(Http2Limits(connection_window_bytes=65_535, stream_window_bytes=1 << 20))
    tight.connection._inbound._window = 10
    [event] = tight.receive(tight.headers(1) + f.frame(f.DATA, 0, 1, b"x" * 11))[1:]
    assert event == ConnectionFailed(
        ErrorCode.FLOW_CONTROL_ERROR, "more DATA than the connection's window allows", Refusal.FLOW_CONTROL
    )


@pytest.mark.parametrize("size", [0, 100])
def test_a_smaller_header_table_of_the_peer_is_acknowledged_in_the_next_block(size):
    client = RawClient()
    client.receive(f.settings_frame([(1, size)]) + client.headers(1, end=True) + client.headers(3, end=True))
    client.output()
    client.connection.respond(1, HEAD, (b"x",), TRAILERS)
    client.connection.respond(3, HEAD, (b"x",), TRAILERS)
    heads = [payload for kind, flags, _, payload in client.output() if kind == f.HEADERS and not flags & f.END_STREAM]
    assert [head[:1] for head in heads] == [b"\x20", b"\x88"]


def test_a_large_header_list_is_continued():
    client = RawClient()
    client.receive(client.headers(1, end=True))
    large = EncodedHeaders([(b":status", b"200"), (b"x-large", b"v" * 40_000)])
    client.connection.send_headers(1, large)
    assert [(kind, flags) for kind, flags, _, _ in client.output()] == [
        (f.HEADERS, f.END_STREAM),
        (f.CONTINUATION, 0),
        (f.CONTINUATION, f.END_HEADERS),
    ]


def test_a_fault_drops_what_waits():
    client = RawClient()
    client.receive(client.headers(1, end=True) + client.headers(3, end=True))
    for stream_id in (1, 3):
        client.connection.respond(stream_id, HEAD, (b"x" * 100_000,), TRAILERS)
    client.output(1000)
    client.receive(f.frame(f.PING, 0, 0))
    assert [kind for kind, _, _, _ in client.output()] == [f.GOAWAY]
    client.connection.respond(1, HEAD, (b"x",), TRAILERS)
    assert client.output() == []


def test_reset_streams_leave_no_trace_while_the_connection_cannot_send():
    client = RawClient()
    client.receive(client.headers(1, end=True) + f.settings_frame([(4, 1 << 20)]))
    client.connection.respond(1, HEAD, (b"x" * 70_000,), TRAILERS)
    client.output()  # uses up the connection's window
    for stream_id in range(3, 103, 2):
        client.receive(client.headers(stream_id, end=True))
        client.connection.respond(stream_id, HEAD, (b"y",), TRAILERS)
        client.receive(f.frame(f.RST_STREAM, 0, stream_id, bytes(4)))
    assert len(client.connection._outbound._blocked) == 1
