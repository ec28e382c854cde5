"""Metadata: what can be sent, what is refused, and binary values in every form that clients send."""

import pytest
from grpc_memory import MemoryClient
from hypothesis import given
from hypothesis import strategies as st

from trilith.errors import InvalidInput, ServiceError
from trilith.wire.grpc_metadata import binary_values, check_metadata, metadata_field


@given(st.lists(st.binary(max_size=50), max_size=5), st.booleans())
def test_binary_values_come_back(values, joined):
    fields = [metadata_field("x-raw-bin", value) for value in values]
    if joined and fields:
        fields = [(b"x-raw-bin", b",".join(value for _, value in fields))]
    assert binary_values(fields, b"x-raw-bin") == values


@pytest.mark.parametrize(
    ("value", "octets"),
    [(b"AAE=", [b"\0\1"]), (b"AAE", [b"\0\1"]), (b"AAE=, AAEC", [b"\0\1", b"\0\1\2"]), (b"", [b""])],
)
def test_padded_and_unpadded(value, octets):
    assert binary_values([(b"x-bin", value), (b"other", b"!")], b"x-bin") == octets


@pytest.mark.parametrize("value", [b"A", b"!!!!", b"AA\xff="])
def test_what_is_no_base64(value):
    with pytest.raises(InvalidInput, match="x-bin"):
        binary_values([(b"x-bin", value)], b"x-bin")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-Upper", "1"),
        ("", "1"),
        ("a b", "1"),
        (":path", "1"),
        ("grpc-status", "0"),
        ("grpc-anything", "0"),
        ("content-type", "x"),
        ("x", "line\r\nbreak"),
        ("x", "é"),
        ("x", " blank"),
        ("x", "blank "),
        ("x-bin", "text"),
        ("x", b"bytes"),
    ],
)
def test_what_cannot_be_sent(name, value):
    with pytest.raises(ServiceError, match="metadata"):
        metadata_field(name, value)


def test_what_can_be_sent():
    check_metadata([(b"x-key", b"a b"), (b"x-key", b""), (b"grpc-status-details-bin", b"AAE")])
    assert metadata_field("x-key", "v") == (b"x-key", b"v")


def test_a_call_has_all_values_and_a_bad_answer_leaves_it_open():
    client = MemoryClient()
    client.send(client.call(1, b"", (b"x-key", b"1"), (b"x-key", b"2"), (b"x-raw-bin", b"AAE,AA==")))
    [call] = client.calls
    assert [value for name, value in call.metadata_fields if name == b"x-key"] == [b"1", b"2"]
    assert call.binary_values(b"x-raw-bin") == [b"\0\1", b"\0"]
    assert call.peer_certificate is None
    for answer in (
        lambda: call.reply(b"", trailers=[(b"x", b"\n")]),
        lambda: call.finish(trailers=[(b"Upper", b"")]),
        lambda: call.begin([(b"grpc-encoding", b"gzip")]),
    ):
        with pytest.raises(ServiceError):
            answer()
    call.reply(b"", trailers=[(b"x-key", b"1"), (b"x-key", b"2")])
    assert client.state.counters.outcomes[0] == 1
