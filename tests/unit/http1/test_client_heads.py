"""Heads of requests as a client writes them, and of answers as it reads them: neither has more in it than one head."""

from __future__ import annotations

import re

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.wire.http1.answer_reader import AnswerReader
from trilith.wire.http1.request_head import header_fault, request_head

TEXTS = st.one_of(st.text(max_size=12), st.text("aZ-\r\n \t:\0\x7f\x1f\xe9", max_size=6))
FRAMING = ("content-length", "Transfer-Encoding", "upgrade")


@given(TEXTS, TEXTS)
def test_what_is_let_through_is_one_header(name, value):
    if header_fault(name, value):
        return
    head = request_head("POST", "/x", {"host": "h", name: value})
    reader = h11.Connection(h11.SERVER)
    reader.receive_data(head)
    found = reader.next_event()
    assert isinstance(found, h11.Request)
    assert list(found.headers)[1:] == [(name.lower().encode(), value.encode())]
    assert head.count(b"\r\n") == 4
    assert head.count(b"\n") == 4


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("x-a", "one\r\nx-b: two", r"the value of 'x-a' is none: .* got '\\n\\r' in it"),
        ("x-a", "one\ntwo", "without line breaks"),
        ("x-a", "nul\0", "in it"),
        ("x-a", "caf\xe9", "printable ASCII"),
        ("x-a", " hush", "spaces at an end of it"),
        ("x-a\r\nx-b", "hush", "is no name of a header"),
        ("x a", "hush", "is no name of a header"),
        ("x:", "hush", "is no name of a header"),
        ("", "hush", "is no name of a header"),
        ("x-a", 1, "expected names and values of text, got 'x-a': a value of type int"),
        (b"x-a", "hush", "expected names and values of text"),
        *((name, "1", "is not for callers") for name in FRAMING),
    ],
)
def test_what_http_does_not_allow_is_said_without_the_value(name, value, says):
    fault = header_fault(name, value)
    assert fault
    assert re.search(says, fault)
    assert not isinstance(value, str) or len(value) < 3 or value not in fault


@pytest.mark.parametrize("value", ["", "a", "a b", "a\tb", "!~", "Bearer x.y-z="])
def test_what_http_allows_is_allowed(value):
    assert header_fault("X-Some", value) == ""


@pytest.mark.parametrize(
    ("target", "headers"), [("/a b", {}), ("/a\r\nx: y", {}), ("", {}), ("/é", {}), ("/", {"accept": "a\r\nb"})]
)
def test_a_head_that_would_be_another_is_not_written(target, headers):
    with pytest.raises(ValueError, match="cannot be sent"):
        request_head("POST", target, headers)


def pushed(*pieces):
    reader = AnswerReader()
    return reader, [chunk for piece in pieces for chunk in reader.push(piece)]


@pytest.mark.parametrize(
    "pieces",
    [
        [b"HTTP/1.1 200 OK\r\n", *[b"x-%d: " % n + b"a" * 5000 + b"\r\n" for n in range(20)]],
        [b"HTTP/1.1 200 OK\r\nx: ", *[b"a" * 5000] * 20],
        [b"HTTP/1.1 200 " + b"O" * 70_000],
        [b"HTTP/1.1 200 OK\r\nx: " + b"a" * 70_000 + b"\r\ncontent-length: 1\r\n\r\nx"],
        [b"HTTP/1.1 102 Wait\r\n\r\n"] * 4000,
        [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: ", *[b"a" * 5000] * 20],
        [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;x=", *[b"a" * 5000] * 20],
    ],
)
def test_what_is_no_body_is_bounded(pieces):
    with pytest.raises(ValueError, match="head of the answer is longer than 65536 bytes"):
        pushed(*pieces)


def test_a_body_has_no_bound_and_trailers_change_nothing():
    piece = b"a" * 50_000
    reader, chunks = pushed(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nx: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        *[b"%x\r\n%b\r\n" % (len(piece), piece)] * 10,
        b"0\r\nx: 2\r\ny: 3\r\n\r\n",
    )
    assert b"".join(chunks) == piece * 10
    assert reader.complete
    assert reader.fields == {"x": "1", "transfer-encoding": "chunked"}
