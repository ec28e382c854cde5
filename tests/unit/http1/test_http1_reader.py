"""The rules of `RequestReader`, one by one."""

import pytest
from http1_readings import read

from trilith.errors import InvalidConfig
from trilith.wire.http1 import HttpLimits

HOST = b"Host: a\r\n"


def request(*headers: bytes, line: bytes = b"POST /p HTTP/1.1", body: bytes = b"", host: bytes = HOST) -> bytes:
    return line + b"\r\n" + host + b"".join(header + b"\r\n" for header in headers) + b"\r\n" + body


def reason(data: bytes, limits: HttpLimits | None = None) -> tuple[str, int] | None:
    _, refused, reader = read(data, limits=limits)
    if refused is None:
        return None
    assert reader.stopped
    return refused.reason, refused.status


def test_reads_a_request() -> None:
    seen, refused, reader = read(
        request(b"X-One:  1 \t", b"X-Two:", b"Content-Length: 3", line=b"POST /a%20b?c=d?e HTTP/1.1", body=b"abc")
    )
    assert refused is None
    assert (reader.method, reader.path, reader.query) == ("POST", "/a%20b", "c=d?e")
    assert seen[0].headers == [(b"host", b"a"), (b"x-one", b"1"), (b"x-two", b""), (b"content-length", b"3")]
    assert seen[0].body == b"abc"
    assert seen[0].complete
    assert reader.content_length == 3
    assert reader.keep_alive
    assert not reader.chunked


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"http://host:1/p/q?r", "/p/q", "r"),
        (b"http://host", "/", ""),
        (b"http://host?x=/y", "/", "x=/y"),
        (b"/p?u=http://host/z", "/p", "u=http://host/z"),
        (b"*", "*", ""),
    ],
)
def test_target_forms(target: bytes, path: str, query: str) -> None:
    _, refused, reader = read(request(line=b"OPTIONS " + target + b" HTTP/1.1"))
    assert refused is None
    assert (reader.path, reader.query) == (path, query)


@pytest.mark.parametrize("target", [b"/p#", b"/a/..#/b", b"/p?q#r", b"http://host/p#q", b"/%2e%2e#"])
def test_a_target_ends_before_a_number_sign(target: bytes) -> None:
    assert reason(request(line=b"GET " + target + b" HTTP/1.1")) == ("malformed", 400)


@pytest.mark.parametrize(
    "host",
    [b"", b"a", b"my_service:8080", b"10.0.0.1:", b"[::1]:80", b"[fe80::1%25eth0]", b"%2Ftmp%2Fsocket", b"a,b;c=d"],
)
def test_what_a_host_is(host: bytes) -> None:
    assert reason(request(host=b"Host: " + host + b"\r\n")) is None


@pytest.mark.parametrize(
    "host",
    [b"x/y?@z#", b"a b", b"a\tb", b"user@a", b"a:80:90", b"a:b", b"[::1", b"::1", b"a%zz", b"\xc3\xa9", b"http://a"],
)
def test_what_no_host_is(host: bytes) -> None:
    assert reason(request(host=b"Host: " + host + b"\r\n")) == ("host", 400)
    assert reason(request(host=b"Host: a\r\n") + request(host=b"Host: " + host + b"\r\n")) == ("host", 400)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([b"Content-Length: 3", b"Transfer-Encoding: chunked"], ("malformed", 400)),
        ([b"Transfer-Encoding: chunked", b"Content-Length: 3"], ("malformed", 400)),
        ([b"Content-Length: 3", b"Content-Length: 3"], ("malformed", 400)),
        ([b"Content-Length: 3", b"Content-Length: 4"], ("malformed", 400)),
        ([b"Content-Length: 3,3"], ("malformed", 400)),
        ([b"Content-Length: +3"], ("malformed", 400)),
        ([b"Content-Length: -3"], ("malformed", 400)),
        ([b"Content-Length: 0x3"], ("malformed", 400)),
        ([b"Content-Length:"], ("malformed", 400)),
        ([b"Content-Length: 99999999999999999999999999"], ("malformed", 400)),
        ([b"Content-Length: " + b"0" * 5000 + b"3"], ("malformed", 400)),
        ([b"Transfer-Encoding: chunked, gzip"], ("malformed", 400)),
        ([b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"], ("malformed", 400)),
        ([b"Transfer-Encoding: xchunked"], ("transfer_encoding", 501)),
        ([b"Transfer-Encoding: gzip, chunked"], ("transfer_encoding", 501)),
        ([b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked"], ("transfer_encoding", 501)),
        ([b"a : b"], ("malformed", 400)),
        ([b": b"], ("malformed", 400)),
        ([b"a: b", b" folded"], ("malformed", 400)),
        ([b"a: b\x00c"], ("malformed", 400)),
        ([b"a\x00: b"], ("malformed", 400)),
        ([b"a: b\rc"], ("malformed", 400)),
        ([b"a: b\nc: d"], ("malformed", 400)),
        ([b"a: \x01"], ("malformed", 400)),
        ([b"Host: b"], ("host", 400)),
        ([b"Expect: the-unexpected"], ("expectation", 417)),
        ([b"Connection: Upgrade", b"Upgrade: websocket"], ("upgrade", 501)),
        ([b"Connection: Upgrade", b"Upgrade: h2c", b"Content-Length: 3"], ("upgrade", 501)),
    ],
)
def test_refused_heads(headers: list[bytes], expected: tuple[str, int]) -> None:
    assert reason(request(*headers, body=b"abc")) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", ("host", 400)),
        (b"GET / HTTP/1.0\r\n\r\n", None),
        (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", ("version", 505)),
        (b"GET /\r\n\r\n", ("version", 505)),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ("malformed", 400)),
        (b"FOO / HTTP/1.1\r\nHost: a\r\n\r\n", ("method", 501)),
        (b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", ("malformed", 400)),
        (b"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", ("malformed", 400)),
        (b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", ("upgrade", 501)),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ("transfer_encoding", 501)),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", ("method", 501)),
    ],
)
def test_refused_lines(data: bytes, expected: tuple[str, int] | None) -> None:
    assert reason(data) == expected


@pytest.mark.parametrize(
    "body",
    [
        b"x\r\n",
        b"3\r\nabcd\r\n",
        b"-3\r\nabc\r\n",
        b"0x3\r\nabc\r\n",
        b"f" * 18 + b"\r\n",
        b"3\nabc\n0\n\n",
        b"3 \r\nabc",
    ],
)
def test_bad_chunks(body: bytes) -> None:
    assert reason(request(b"Transfer-Encoding: chunked", body=body)) == ("malformed", 400)


def test_bad_chunk_of_a_last_request_is_refused_too() -> None:
    assert reason(request(b"Transfer-Encoding: chunked", b"Connection: close", body=b"x\r\n")) == ("malformed", 400)


def test_bytes_behind_a_last_request_are_ignored() -> None:
    seen, refused, _ = read(request(b"Connection: close") + b"garbage", b"more garbage")
    assert refused is None
    assert len(seen) == 1


def test_trailers_are_dropped() -> None:
    chunked = request(b"Transfer-Encoding: chunked", body=b"3\r\nabc\r\n0\r\nX-Evil: 1\r\nHost: b\r\n\r\n")
    seen, refused, _ = read(chunked + request())
    assert refused is None
    assert [item.headers for item in seen] == [[(b"host", b"a"), (b"transfer-encoding", b"chunked")], [(b"host", b"a")]]


def test_chunk_extensions_are_bounded() -> None:
    head = request(b"Transfer-Encoding: chunked")
    flood = b"1;" + b"e" * 1000 + b"\r\nx\r\n"
    _, refused, _ = read(head, *[flood] * 50)
    assert refused is None
    _, refused, _ = read(head, *[flood] * 200)
    assert refused is not None
    assert refused.reason == "malformed"


def test_one_byte_chunks_are_fine() -> None:
    seen, refused, _ = read(request(b"Transfer-Encoding: chunked"), *[b"1\r\nx\r\n"] * 50_000, b"0\r\n\r\n")
    assert refused is None
    assert seen[0].body == b"x" * 50_000


def test_an_offer_of_h2c_is_ignored_as_often_as_it_comes() -> None:
    offer = request(b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", line=b"GET /u HTTP/1.1")
    seen, refused, _ = read(offer * 2000 + request(b"Content-Length: 2", body=b"ok"))
    assert refused is None
    assert len(seen) == 2001
    assert seen[-1].body == b"ok"


def test_upgrade_without_connection_is_no_upgrade() -> None:
    assert reason(request(b"Upgrade: websocket", b"Content-Length: 3", body=b"abc")) is None


@pytest.mark.parametrize(("size", "expected"), [(0, None), (900, None), (1100, ("head_too_large", 431))])
@pytest.mark.parametrize("piece", [1, 7, 600, 1000, 100_000])
def test_head_limit(size: int, expected: tuple[str, int] | None, piece: int) -> None:
    data = request(b"X: " + b"v" * size)
    _, refused, _ = read(
        *(data[at : at + piece] for at in range(0, len(data), piece)), limits=HttpLimits(max_head_bytes=1024)
    )
    assert (refused and (refused.reason, refused.status)) == expected


def test_head_limit_does_not_count_the_body_before() -> None:
    limits = HttpLimits(max_head_bytes=1024)
    first = request(b"Content-Length: 5000", body=b"b" * 5000)
    _, refused, _ = read(first + b"GET / HT", b"TP/1.1\r\nHost: a\r\nX: " + b"v" * 900, b"\r\n\r\n", limits=limits)
    assert refused is None


def test_endless_head_is_refused_before_its_end() -> None:
    _, refused, reader = read(b"GET / HTTP/1.1\r\nX: ", *[b"v" * 100] * 20, limits=HttpLimits(max_head_bytes=1024))
    assert refused is not None
    assert refused.status == 431
    assert reader.in_head


def test_header_count_limit() -> None:
    limits = HttpLimits(max_headers=10)
    assert reason(request(*[b"a: b"] * 9), limits) is None
    assert reason(request(*[b"a: b"] * 10), limits) == ("head_too_large", 431)


@pytest.mark.parametrize("piece", [1, 50, 100_000])
def test_url_limit_holds_within_one_read_and_across(piece: int) -> None:
    data = request(line=b"GET /" + b"u" * 100 + b" HTTP/1.1")
    _, refused, _ = read(
        *(data[at : at + piece] for at in range(0, len(data), piece)), limits=HttpLimits(max_url_bytes=100)
    )
    assert refused is not None
    assert refused.status == 414


def test_declared_body_limit_is_refused_before_a_byte_of_body() -> None:
    limits = HttpLimits(max_body_bytes=10)
    seen, refused, _ = read(request(b"Content-Length: 11"), limits=limits)
    assert refused is not None
    assert refused.status == 413
    assert not seen
    assert reason(request(b"Content-Length: 10", body=b"0123456789"), limits) is None


def test_chunked_body_limit_is_refused_as_soon_as_exceeded() -> None:
    seen, refused, _ = read(
        request(b"Transfer-Encoding: chunked"), b"6\r\n012345\r\n", b"5\r\n01234", limits=HttpLimits(max_body_bytes=10)
    )
    assert refused is not None
    assert refused.status == 413
    assert len(seen[0].body) <= 10


@pytest.mark.parametrize(
    ("sent", "taken"),
    [
        (b"abc-1", "abc-1"),
        (b"a b", "a b"),
        (b"x" * 128, "x" * 128),
        (b"x" * 129, ""),
        (b"a\tb", ""),
        (b"\xe9", ""),
        (b"", ""),
    ],
)
def test_request_id(sent: bytes, taken: str) -> None:
    _, refused, reader = read(request(b"X-Request-Id: " + sent))
    assert refused is None
    assert reader.request_id == taken


@pytest.mark.parametrize(
    ("line", "header", "keeps"),
    [
        (b"GET / HTTP/1.1", b"X: y", True),
        (b"GET / HTTP/1.1", b"Connection: close", False),
        (b"GET / HTTP/1.0", b"X: y", False),
        (b"GET / HTTP/1.0", b"Connection: keep-alive", True),
    ],
)
def test_keep_alive(line: bytes, header: bytes, keeps: bool) -> None:
    _, refused, reader = read(request(header, line=line))
    assert refused is None
    assert reader.keep_alive is keeps


def test_expect_is_for_http11_only() -> None:
    assert read(request(b"Expect: 100-Continue", b"Content-Length: 1"))[2].expects_continue
    old = request(b"Expect: 100-continue", b"Content-Length: 1", line=b"POST / HTTP/1.0")
    assert not read(old)[2].expects_continue


def test_stop_from_within_a_callback() -> None:
    class Stopper:
        heads = 0

        def head_received(self, reader: object) -> None:
            self.heads += 1

        def body_received(self, chunk: bytes) -> None:
            raise AssertionError

        def message_received(self) -> None:
            reader.stop()

    from trilith.wire.http1 import RequestReader

    sink = Stopper()
    reader = RequestReader(sink, HttpLimits())
    assert reader.feed(request() * 3) is None
    assert reader.feed(request()) is None
    assert sink.heads == 1


def test_an_error_of_the_sink_is_not_swallowed() -> None:
    class Broken:
        def head_received(self, reader: object) -> None:
            raise KeyboardInterrupt

        body_received = message_received = head_received

    from trilith.wire.http1 import RequestReader

    with pytest.raises(KeyboardInterrupt):
        RequestReader(Broken(), HttpLimits()).feed(request())  # type: ignore[arg-type]


def test_limits_must_be_positive() -> None:
    with pytest.raises(InvalidConfig, match="max_headers must be greater than 0, got 0"):
        HttpLimits(max_headers=0)
