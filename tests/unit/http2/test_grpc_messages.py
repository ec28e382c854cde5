"""gRPC's octets: framing, timeouts, status messages, heads."""

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.errors import InvalidInput, PayloadTooLarge
from trilith.wire.grpc_messages import (
    MessageReader,
    encode_status_message,
    list_bytes,
    message_prefix,
    parse_timeout,
    status_trailers,
)
from trilith.wire.grpc_request import call_head
from trilith.wire.grpc_status import GrpcStatus
from trilith.wire.http2 import RequestHead


@given(st.lists(st.binary(max_size=50), max_size=8), st.lists(st.integers(1, 20), min_size=1, max_size=8))
def test_messages_come_whole_from_any_cutting(messages, sizes):
    body = b"".join(message_prefix(len(message)) + message for message in messages)
    reader, found, position, turn = MessageReader(50), [], 0, 0
    while position < len(body):
        size = sizes[turn % len(sizes)]
        found += reader.feed(body[position : position + size])
        position, turn = position + size, turn + 1
    assert [bytes(message) for message in found] == messages
    assert reader.at_boundary
    assert reader.completed == len(messages)


def test_a_half_message_is_no_boundary():
    reader = MessageReader(10)
    assert reader.feed(b"\0\0") == []
    assert not reader.at_boundary
    assert reader.feed(b"\0\0\x02a") == []
    assert not reader.at_boundary
    assert reader.feed(b"b") == [b"ab"]
    assert reader.at_boundary


@pytest.mark.parametrize(
    ("piece", "error", "words"),
    [
        (b"\0\0\0\0\x0b", PayloadTooLarge, "11 bytes, over the limit of 10"),
        (b"\x02\0\0\0\x01x", InvalidInput, "got 2"),
    ],
)
def test_wrong_prefixes_are_refused_before_the_message(piece, error, words):
    with pytest.raises(error, match=words):
        MessageReader(10).feed(piece)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(b"1H", 3600), (b"2M", 120), (b"3S", 3), (b"250m", 0.25), (b"99999999u", 99.999999), (b"0n", 0)],
)
def test_timeouts(value, seconds):
    assert parse_timeout(value) == pytest.approx(seconds)


@pytest.mark.parametrize("value", [b"", b"1", b"S", b"1s", b"-1S", b"123456789S", b"1.5S", b" 1S", b"\xb2S"])
def test_malformed_timeouts(value):
    with pytest.raises(InvalidInput, match="grpc-timeout"):
        parse_timeout(value)


@given(st.text(max_size=100))
def test_status_messages_survive(message):
    encoded = encode_status_message(message)
    assert unquote(encoded.decode()) == message
    assert all(0x20 <= octet < 0x7F for octet in encoded)
    assert encoded == encoded.strip()


def test_long_status_messages_are_cut():
    encoded = encode_status_message("é" * 100_000)
    assert len(encoded) <= 4096
    assert unquote(encoded.decode()).startswith("é" * 300)


@given(st.text(st.characters(exclude_characters=".", exclude_categories=["Cs"]), max_size=300), st.integers(0, 200))
def test_a_text_that_is_too_long_keeps_its_beginning_and_its_end(message, most):
    encoded = encode_status_message(message, most)
    assert len(encoded) <= most
    shown = unquote(encoded.decode())
    if shown and shown != message:
        first, _, last = shown.partition("...")
        assert first
        assert last
        assert message.startswith(first)
        assert message.endswith(last)


def test_a_name_of_any_length_leaves_the_sentence_readable():
    for name in ("n" * 10_000_000, "\u00e9" * 100_000):
        shown = unquote(
            encode_status_message(f"[request id: {name}] Request for unknown model: 'm' is not found").decode()
        )
        assert shown.startswith("[request id: ")
        assert shown.endswith("Request for unknown model: 'm' is not found")


METADATA = st.lists(st.tuples(st.sampled_from([b"a", b"grpc-status-details-bin"]), st.binary(max_size=99)), max_size=3)


@given(st.sampled_from(GrpcStatus), st.text(max_size=200), METADATA, st.integers(-100, 700))
def test_trailers_are_no_longer_than_the_client_takes(status, message, extra, most):
    fields = status_trailers(status, message, extra, max_list_bytes=most)
    assert fields[0] == (b"grpc-status", b"%d" % status)
    assert len(fields) == 1 or list_bytes(fields) <= most
    whole = status_trailers(status, message, extra)
    if list_bytes(whole) <= most:
        assert fields == whole


def test_trailers():
    assert status_trailers(GrpcStatus.OK) == [(b"grpc-status", b"0")]
    assert status_trailers(GrpcStatus.NOT_FOUND, "50 % é", [(b"a", b"b")]) == [
        (b"grpc-status", b"5"),
        (b"grpc-message", b"50 %25 %C3%A9"),
        (b"a", b"b"),
    ]


def head(*fields, method=b"POST"):
    return RequestHead(((b":method", method), (b":scheme", b"http"), (b":path", b"/s/M"), *fields))


@pytest.mark.parametrize(
    ("value", "status"),
    [
        (b"application/grpc", 200),
        (b"application/grpc+proto", 200),
        (b"application/grpc;x=y", 200),
        (b"application/grpcweb", 415),
        (b"application/json", 415),
        (b"", 415),
    ],
)
def test_content_types(value, status):
    assert call_head(head((b"content-type", value))).http_status == status


def test_heads_are_read_once_and_keep_duplicates():
    request = head((b"content-type", b"application/grpc"), (b"a", b"1"), (b"a", b"2"), (b"k-bin", b"AAE"))
    read = call_head(request)
    assert call_head(request) is read
    assert read.path == b"/s/M"
    assert read.metadata[1:] == ((b"a", b"1"), (b"a", b"2"), (b"k-bin", b"AAE"))
    assert read.timeout_s is None


def test_a_malformed_timeout_fails_the_call_and_not_the_connection():
    read = call_head(head((b"content-type", b"application/grpc"), (b"grpc-timeout", b"soon")))
    assert read.error is not None
    assert call_head(head(method=b"GET")).http_status == 405
