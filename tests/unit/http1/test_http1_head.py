"""Heads of answers: what h11 reads back, and what is refused."""

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilith.errors import ServiceError
from trilith.wire.http1 import ResponseHeads


@pytest.fixture
def heads() -> ResponseHeads:
    made = ResponseHeads()
    made.refresh(b"Mon, 01 Jan 2024 00:00:00 GMT")
    return made


def parsed(head: bytes) -> h11.Response:
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="GET", target="/", headers=[("host", "h")]))
    client.receive_data(head)
    event = client.next_event()
    assert isinstance(event, h11.Response)
    return event


def test_sized(heads: ResponseHeads) -> None:
    head = heads.sized(200, b"text/plain", 12, "id-1", [(b"X-A", b"b\xe9")], keep=True, http10=False)
    response = parsed(head)
    assert response.status_code == 200
    assert response.reason == b"OK"
    assert list(response.headers) == [
        (b"content-type", b"text/plain"),
        (b"content-length", b"12"),
        (b"server", b"trilith"),
        (b"date", b"Mon, 01 Jan 2024 00:00:00 GMT"),
        (b"x-request-id", b"id-1"),
        (b"x-a", b"b\xe9"),
    ]
    again = heads.sized(200, b"text/plain", 12, "id-1", [(b"X-A", b"b\xe9")], keep=True, http10=False)
    assert again == head


@pytest.mark.parametrize(
    ("keep", "http10", "expected"),
    [(True, False, None), (True, True, b"keep-alive"), (False, False, b"close"), (False, True, b"close")],
)
def test_connection(heads: ResponseHeads, keep: bool, http10: bool, expected: bytes | None) -> None:
    head = heads.sized(200, b"", 0, "i", (), keep=keep, http10=http10)
    assert dict(parsed(head).headers).get(b"connection") == expected


@pytest.mark.parametrize(("http10", "expected"), [(False, b"chunked"), (True, None)])
def test_unsized(heads: ResponseHeads, http10: bool, expected: bytes | None) -> None:
    found = dict(parsed(heads.unsized(200, b"a/b", "i", (), keep=False, http10=http10)).headers)
    assert found.get(b"transfer-encoding") == expected
    assert b"content-length" not in found
    assert found[b"connection"] == b"close"


@pytest.mark.parametrize("status", [204, 304])
def test_statuses_without_a_body(heads: ResponseHeads, status: int) -> None:
    found = dict(parsed(heads.sized(status, b"a/b", 0, "i", (), keep=True, http10=False)).headers)
    assert b"content-length" not in found
    assert b"content-type" not in found
    with pytest.raises(ServiceError, match="has no body"):
        heads.unsized(status, b"a/b", "i", (), keep=True, http10=False)


@pytest.mark.parametrize("status", [-1, 0, 99, 100, 101, 199, 600, 1000, 65536])
def test_a_status_out_of_range_is_refused(heads: ResponseHeads, status: int) -> None:
    with pytest.raises(ServiceError, match="from 200 to 599"):
        heads.sized(status, b"a/b", 0, "i", (), keep=True, http10=False)


def test_an_unregistered_status_is_sent(heads: ResponseHeads) -> None:
    assert parsed(heads.sized(499, b"", 0, "i", (), keep=True, http10=False)).status_code == 499


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (b"x", b"a\r\nset-cookie: b", "control characters"),
        (b"x", b"a\nb", "control characters"),
        (b"x", b"a\x00b", "control characters"),
        (b"x", b"a\x7fb", "control characters"),
        (b"x\r\ny", b"a", "token"),
        (b"x y", b"a", "token"),
        (b"x:", b"a", "token"),
        (b"", b"a", "token"),
        (b"Content-Length", b"5", "writes the header"),
        (b"transfer-encoding", b"chunked", "writes the header"),
        (b"CONNECTION", b"close", "writes the header"),
        (b"content-type", b"a/b", "writes the header"),
        (b"x-request-id", b"1", "writes the header"),
    ],
)
def test_injection_is_refused(heads: ResponseHeads, name: bytes, value: bytes, message: str) -> None:
    with pytest.raises(ServiceError, match=message):
        heads.sized(200, b"a/b", 0, "i", [(name, value)], keep=True, http10=False)
    with pytest.raises(ServiceError, match=message):
        heads.unsized(200, b"a/b", "i", [(name, value)], keep=True, http10=False)


@pytest.mark.parametrize("content_type", [b"a/b\r\nx: y", b"a/b\n", b"\x00"])
def test_a_bad_content_type_is_refused_and_not_remembered(heads: ResponseHeads, content_type: bytes) -> None:
    for _ in range(2):
        with pytest.raises(ServiceError, match="content type"):
            heads.sized(200, content_type, 0, "i", (), keep=True, http10=False)


def test_made_up_content_types_do_not_pile_up(heads: ResponseHeads) -> None:
    for number in range(2000):
        heads.sized(200, b"a/%d" % number, 0, "i", (), keep=True, http10=False)
    assert len(heads._cache) < 1000


@settings(max_examples=200)
@given(
    st.integers(200, 599),
    st.binary(max_size=20),
    st.lists(st.tuples(st.binary(max_size=6), st.binary(max_size=12)), max_size=3),
)
def test_whatever_is_accepted_is_one_response(
    status: int, content_type: bytes, headers: list[tuple[bytes, bytes]]
) -> None:
    heads = ResponseHeads()
    heads.refresh(b"now")
    try:
        head = heads.sized(status, content_type, 0, "i", headers, keep=True, http10=False)
    except ServiceError:
        return
    assert head.count(b"\r\n\r\n") == 1
    lines = head[:-4].split(b"\r\n")
    fixed = [b"content-length", b"content-type", b"date", b"server", b"x-request-id"]
    if status == 426:
        fixed.append(b"upgrade")  # an application cannot say it, and such an answer must (RFC 9110, section 15.5.22)
    names = [line.partition(b":")[0] for line in lines[1:]]
    assert sum(name not in fixed for name in names) == len(headers)
