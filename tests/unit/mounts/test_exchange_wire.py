"""The head of an exchange goes through as it came, whatever its octets are; what is none is refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.errors import InvalidInput
from trilith.wire.calls import ResultMeta, pack_meta
from trilith.wire.exchange import (
    BINARY,
    TEXT,
    ExchangeHead,
    pack_answer,
    pack_close,
    pack_head,
    unpack_answer,
    unpack_close,
    unpack_head,
)

fields = st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=80)), max_size=8)
addresses = st.none() | st.tuples(st.text(max_size=40), st.integers(0, 65535))
heads = st.builds(
    ExchangeHead,
    method=st.text(max_size=10),
    raw_path=st.binary(max_size=60),
    root_path=st.text(max_size=20),
    query=st.binary(max_size=60),
    headers=fields.map(tuple),
    client=addresses,
    server=addresses,
    scheme=st.sampled_from(["http", "https"]),
    http_version=st.sampled_from(["1.0", "1.1", "2"]),
    whole=st.booleans(),
    websocket=st.booleans(),
    subprotocols=st.lists(st.text(max_size=10), max_size=3).map(tuple),
)


@given(heads)
def test_a_head_comes_back_as_it_was(head):
    assert unpack_head(pack_head(head)) == head


@given(st.integers(100, 599), fields)
def test_the_head_of_an_answer_comes_back_as_it_was(status, headers):
    assert unpack_answer(pack_answer(status, headers)) == (status, headers)


@given(st.integers(1000, 4999), st.text(max_size=123))
def test_a_close_comes_back_as_it_was(code, reason):
    assert unpack_close(pack_close(code, reason)) == (code, reason)


def test_messages_and_ends_are_told_apart():
    assert unpack_close(TEXT) is unpack_close(BINARY) is unpack_close(b"") is None
    assert unpack_answer(pack_meta(ResultMeta(""))) is None


@given(st.binary(max_size=60))
def test_other_octets_are_refused(octets):
    for unpack in (unpack_head, unpack_answer, lambda raw: unpack_close(b"c" + raw)):
        with contextlib.suppress(InvalidInput):  # nothing else
            unpack(octets)


@pytest.mark.parametrize(
    ("raw_path", "root_path", "path", "below"),
    [
        (b"/ui", "/ui", "/ui", b"/"),
        (b"/ui/", "/ui", "/ui/", b"/"),
        (b"/ui/a%2Fb?", "/ui", "/ui/a/b?", b"/a%2Fb?"),
        (b"/%ff%C3%A9", "", "/\ufffd\u00e9", b"/%ff%C3%A9"),
        (b"/", "", "/", b"/"),
    ],
)
def test_the_path_is_decoded_and_its_end_below_the_mount_is_not(raw_path, root_path, path, below):
    head = ExchangeHead(
        method="GET",
        raw_path=raw_path,
        root_path=root_path,
        query=b"",
        headers=(),
        client=None,
        server=None,
        scheme="http",
        http_version="1.1",
        whole=True,
    )
    assert (head.path, head.raw_path_below) == (path, below)
