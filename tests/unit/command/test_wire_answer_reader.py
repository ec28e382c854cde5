"""An answer that is passed on, read as another parser reads it."""

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.wire.http1.answer_reader import AnswerReader

SECOND = b"HTTP/1.1 500 No\r\ncontent-length: 3\r\nset-cookie: a=1\r\n\r\nbad"


def fed(octets, sizes, **options):
    answer, pieces, at = AnswerReader(**options), [], 0
    for size in [*sizes, len(octets)]:
        if at < len(octets) and not answer.complete:
            pieces += answer.push(octets[at : at + size])
            at += size
    return answer, b"".join(pieces)


def written(status, headers, body, *, informational=False):
    server = h11.Connection(h11.SERVER)
    server.receive_data(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n")
    server.next_event()
    octets = b""
    if informational:
        octets += server.send(h11.InformationalResponse(status_code=103, headers=[(b"link", b"</a>")]))
    octets += server.send(h11.Response(status_code=status, headers=headers))
    octets += server.send(h11.Data(data=body)) + server.send(h11.EndOfMessage())
    return octets


@given(
    st.sampled_from([200, 201, 404, 500]),
    st.binary(max_size=200),
    st.booleans(),
    st.booleans(),
    st.lists(st.integers(1, 50), max_size=8),
)
def test_answers_of_another_writer_are_read(status, body, sized, informational, sizes):
    headers = [(b"set-cookie", b"a=1"), (b"Set-Cookie", b"b=2")]
    if sized:
        headers.append((b"content-length", str(len(body)).encode()))
    answer, got = fed(written(status, headers, body, informational=informational), sizes)
    assert (answer.status, got, answer.complete, answer.reusable) == (status, body, True, True)
    assert [value for name, value in answer.headers if name == b"set-cookie"] == [b"a=1", b"b=2"]
    assert not any(name == b"link" for name, _ in answer.headers)


def test_a_body_without_a_length_ends_with_the_connection():
    answer, got = fed(b"HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\n\r\nabc", [])
    assert (got, answer.complete) == (b"abc", False)
    assert answer.connection_ended()
    assert not answer.reusable


def test_a_body_that_is_cut_is_not_whole():
    answer, _ = fed(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc", [])
    assert not answer.connection_ended()
    answer, _ = fed(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n", [])
    assert not answer.connection_ended()


def test_a_head_without_an_end_is_given_up():
    answer = AnswerReader()
    answer.push(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000)
    with pytest.raises(ValueError, match="longer than"):
        answer.push(b"a: b\r\n" * 200_000)


@given(st.lists(st.integers(1, 50), max_size=8))
def test_trailers_are_no_headers_however_they_come(sizes):
    octets = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nset-cookie: evil=1\r\n\r\n"
    answer, got = fed(octets, sizes)
    assert (got, answer.complete, answer.headers) == (b"ok", True, [(b"transfer-encoding", b"chunked")])


def test_trailers_without_an_end_are_given_up():
    answer = AnswerReader()
    answer.push(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n")
    for _ in range(60):
        answer.push(b"a: %b\r\n" % (b"b" * 1000))
    with pytest.raises(ValueError, match="longer than"):
        answer.push(b"a: %b\r\n" % (b"b" * 10_000))
    assert answer.headers == [(b"transfer-encoding", b"chunked")]


def test_an_answer_to_head_has_no_body():
    answer, got = fed(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n", [], has_body=False)
    assert (answer.complete, answer.reusable, got) == (True, False, b"")


@given(st.lists(st.integers(1, 50), max_size=8), st.sampled_from([SECOND, SECOND[:30], b"\0"]))
def test_what_comes_with_an_answer_and_is_none_of_it_is_dropped_with_the_connection(sizes, more):
    answer, got = fed(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok" + more, sizes)
    assert (answer.status, got, answer.complete) == (200, b"ok", True)
    assert answer.headers == [(b"content-length", b"2")]


def test_a_second_answer_in_the_same_octets_makes_a_connection_useless():
    one = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
    assert not fed(one + one, [])[0].reusable
    assert not fed(one + b"\0", [])[0].reusable
    assert fed(one, [])[0].reusable


@pytest.mark.parametrize("status", [204, 304])
def test_some_statuses_have_no_body(status):
    answer, got = fed(b"HTTP/1.1 %d x\r\netag: a\r\n\r\n" % status, [])
    assert (answer.complete, got) == (True, b"")


def test_a_switch_of_protocols_leaves_what_follows():
    answer = AnswerReader()
    answer.push(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n\x81\x01a")
    assert (answer.status, answer.upgraded, answer.rest) == (101, True, b"\x81\x01a")


@pytest.mark.parametrize(
    "octets",
    [
        b"HTTP/1.1 600 Odd\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 999 Odd\r\n\r\n",
        b"HTTP/1.1 000 Odd\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 099 Odd\r\n\r\n",
        b"HELLO\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
    ],
)
def test_what_is_no_http_is_said_to_be_none(octets):
    with pytest.raises(ValueError, match="no HTTP"):
        AnswerReader().push(octets)
