"""The head that a process gets: end to end, and true about the client."""

import dataclasses

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.service.command.headers import Asked, may_hide_body, request_head
from trilith.wire.http1.passed_headers import end_to_end


def asked(method="GET", headers=((b"host", b"example.org"),), **more):
    given = {
        "raw_path": b"/a",
        "query": b"",
        "client": "10.0.0.1",
        "scheme": "https",
        "prefix": "",
        "request_id": "r-1",
    }
    return Asked(method=method, headers=headers, **{**given, **more})


def parsed(head):
    server = h11.Connection(h11.SERVER)
    server.receive_data(head.octets)
    return server.next_event()


def test_headers_of_one_connection_end_here():
    headers = [
        (b"host", b"example.org"),
        (b"connection", b"keep-alive, X-Secret, content-length"),
        (b"keep-alive", b"timeout=5"),
        (b"x-secret", b"1"),
        (b"te", b"trailers"),
        (b"upgrade", b"h2c"),
        (b"proxy-authorization", b"x"),
        (b"content-length", b"3"),
        (b"accept", b"a/b"),
        (b"accept", b"c/d"),
    ]
    got = parsed(request_head(asked("POST", headers)))
    names = [name for name, _ in got.headers]
    assert names[:4] == [b"host", b"content-length", b"accept", b"accept"]
    assert not {b"connection", b"keep-alive", b"x-secret", b"te", b"upgrade", b"proxy-authorization"} & set(names)


def test_what_a_client_says_of_itself_is_not_believed():
    headers = [
        (b"host", b"example.org"),
        (b"x-forwarded-for", b"1.2.3.4"),
        (b"x-forwarded-anything", b"x"),
        (b"forwarded", b"for=1.2.3.4"),
        (b"x-real-ip", b"1.2.3.4"),
        (b"x-request-id", b"theirs"),
    ]
    got = dict(parsed(request_head(asked(headers=headers, prefix="/app"))).headers)
    assert got == {
        b"host": b"example.org",
        b"x-request-id": b"r-1",
        b"x-forwarded-for": b"10.0.0.1",
        b"x-forwarded-proto": b"https",
        b"x-forwarded-host": b"example.org",
        b"x-forwarded-prefix": b"/app",
    }


@pytest.mark.parametrize(
    ("method", "headers", "has_body", "chunked", "repeatable"),
    [
        ("GET", [], False, False, True),
        ("POST", [], True, True, False),
        ("POST", [(b"content-length", b"5")], True, False, False),
        ("POST", [(b"content-length", b"0")], False, False, False),
        ("PUT", [(b"content-length", b"0")], False, False, True),
        ("GET", [(b"transfer-encoding", b"chunked")], True, True, False),
        ("DELETE", [], False, False, True),
        ("PATCH", [], True, True, False),
    ],
)
def test_how_the_body_is_framed(method, headers, has_body, chunked, repeatable):
    head = request_head(asked(method, [(b"host", b"h"), *headers]))
    assert (head.has_body, head.chunked, head.repeatable) == (has_body, chunked, repeatable)
    got = dict(parsed(head).headers)
    assert (b"transfer-encoding" in got) == chunked


@pytest.mark.parametrize(
    ("method", "headers", "version", "hides"),
    [
        ("DELETE", (), "2", True),
        ("GET", (), "2", True),
        ("GET", (), "1.1", False),
        ("POST", (), "2", False),
        ("DELETE", ((b"content-length", b"5"),), "2", False),
    ],
)
def test_a_body_that_no_header_speaks_of(method, headers, version, hides):
    request = asked(method, [(b"host", b"h"), *headers])
    assert may_hide_body(request, version) == hides
    head = request_head(dataclasses.replace(request, has_body=True))
    sized = bool(headers)
    assert (head.has_body, head.chunked, head.repeatable) == (True, not sized, False)


def test_a_request_without_a_host_gets_one():
    assert dict(parsed(request_head(asked(headers=()))).headers)[b"host"] == b"localhost"


TOKENS = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=12)
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20)


@given(st.lists(st.tuples(TOKENS, VALUES), max_size=8), st.lists(TOKENS, max_size=3))
def test_what_connection_names_never_passes(headers, named):
    fields = [(name.encode(), value.encode()) for name, value in headers]
    fields.append((b"connection", ", ".join(named).encode()))
    kept = end_to_end(fields)
    assert not {name for name, _ in kept} & {name.encode() for name in named if name != "content-length"}
    assert all(field in fields for field in kept)
