"""Bytes of one connection to requests: llhttp, and every rule that llhttp leaves to the server.

Rule 1: no I/O and no clock. Bytes go in by `feed`; heads, body chunks and ends come out through the sink, in order.
Rule 2: the first violation ends reading for good. `feed` returns it, the sink hears nothing more.
Rule 3: what two parsers could read in two ways is refused (two lengths, length with chunks, folded lines, bare LF ...):
        llhttp is strict about these, tests compare it with h11.
Rule 4: trailer fields are dropped, never merged into the headers.

Sizes: a head is counted exactly where it ends, and while it is growing by the reads that follow its first one. So an
unfinished head never holds more than the limit and two reads of the socket.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

import httptools

from trilith.core.header_fields import HOST
from trilith.wire.http1 import refusal
from trilith.wire.http1.limits import HttpLimits
from trilith.wire.http1.refusal import Refusal
from trilith.wire.http1.upgrade import WEBSOCKET, handshake_refusal

_MAX_REQUEST_ID_BYTES: Final = 128
_MAX_LENGTH_DIGITS: Final = 19
_CHUNK_OVERHEAD_FACTOR: Final = 8  # a one-byte chunk costs five bytes around it; extensions beyond this are an attack


class RequestSink(Protocol):
    """Who is told what was read."""

    def head_received(self, reader: RequestReader) -> None:
        """A head is complete; it lies in the attributes of `reader`."""
        ...

    def body_received(self, chunk: bytes) -> None:
        """Some bytes of the body; never empty."""
        ...

    def message_received(self) -> None:
        """The request is complete."""
        ...


class _Stop(Exception):
    """Leaves the parser from one of its callbacks; the refusal, if any, lies in the reader."""


class RequestReader:
    """Reads the requests of one connection. Its attributes describe the request whose head came last.

    Attributes:
        method: `GET`, `POST` ...
        path: the raw target before `?` (without scheme and host when the client sent them).
        query: the raw target after `?`, or "".
        headers: (lower-case name, value without spaces around) in the order received.
        content_length: the declared length of the body in bytes, or None.
        chunked: the body comes in chunks.
        expects_continue: the client waits for `100 Continue` before it sends the body.
        keep_alive: the client would like to send another request.
        http10: the client speaks HTTP/1.0.
        request_id: the client's `x-request-id` when it is printable ASCII of at most 128 characters, else "".
        endless: this body may be longer than the limit; the sink may say so once it has the head.
        in_head: a head has begun and not ended.
        websocket: the client asks to become a websocket: nothing is read behind this request.
        rest: the octets that came behind such a request.
        stopped: nothing more will be read.
    """

    __slots__ = (
        "_begun_with_bytes",
        "_body_bytes",
        "_body_wire_bytes",
        "_feed_bytes",
        "_good_host",
        "_head_bytes",
        "_host_count",
        "_in_message",
        "_limits",
        "_max_headers",
        "_parser",
        "_refusal",
        "_sink",
        "_transfer_encodings",
        "_upgrade",
        "_url",
        "chunked",
        "content_length",
        "endless",
        "expects_continue",
        "headers",
        "http10",
        "in_head",
        "keep_alive",
        "method",
        "path",
        "query",
        "request_id",
        "rest",
        "stopped",
        "websocket",
    )

    def __init__(self, sink: RequestSink, limits: HttpLimits) -> None:
        self._sink = sink
        self._limits = limits
        self._max_headers = limits.max_headers
        self._refusal: Refusal | None = None
        self._in_message = False
        self._feed_bytes = 0
        self._body_bytes = 0
        self._body_wire_bytes = 0
        self._good_host = b""
        self.endless = False
        self.method = ""
        self.path = ""
        self.query = ""
        self.keep_alive = False
        self.http10 = False
        self.in_head = False
        self.stopped = False
        self.websocket = False
        self.rest = b""
        self._reset()
        self._parser = httptools.HttpRequestParser(self)

    def _reset(self) -> None:
        self._url = b""
        self._begun_with_bytes = self._head_bytes = 0
        self._host_count = 0
        self._transfer_encodings = 0
        self._upgrade = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.content_length: int | None = None
        self.chunked = False
        self.expects_continue = False
        self.request_id = ""

    @property
    def path_so_far(self) -> str:
        """The path, or its beginning, of the head that is being read; "" when there is none, or it has not come."""
        url = self._url.decode("latin-1") if self.in_head else ""
        return _absolute_form_removed(url).partition("?")[0] if url else ""

    def feed(self, data: bytes) -> Refusal | None:
        """Reads on. Returns why nothing more will be read, once, when `data` breaks a rule."""
        rest: bytes | memoryview = data
        while not self.stopped:
            size = self._feed_bytes = len(rest)
            if self.in_head:
                self._head_bytes += size
            elif self.chunked:
                self._body_wire_bytes += size
            try:
                self._parser.feed_data(rest)
            except httptools.HttpParserUpgrade as upgrade:
                rest = memoryview(rest)[upgrade.args[0] :]
                if self.websocket:
                    self.rest = bytes(rest)
                    self.stopped = True
                    return None
                # An upgrade that may be ignored (see `_check_upgrade`). llhttp stops behind it, we read on.
                continue
            except httptools.HttpParserError as error:
                return self._failed(error)
            return self._check_growth() if self.in_head or self.chunked else None
        return None

    def stop(self) -> None:
        """Reads nothing more, not even the rest of the bytes that are being read now."""
        self.stopped = True

    def end(self) -> None:
        """Reads nothing more, and lets go of the parser and the sink, which know this reader. To be called once."""
        self.stopped = True
        del self._parser, self._sink

    def _failed(self, error: httptools.HttpParserError) -> Refusal | None:
        already_stopped, self.stopped = self.stopped, True
        if isinstance(error, httptools.HttpParserCallbackError):
            cause = error.__context__
            if not isinstance(cause, _Stop):
                raise cause if cause is not None else error
            return self._refusal
        if already_stopped or not self._in_message:
            return None  # bytes behind the request that was to be the last: nobody waits for an answer to them
        if isinstance(error, httptools.HttpParserInvalidMethodError):
            return refusal.METHOD
        return refusal.MALFORMED.because(str(error))

    def _check_growth(self) -> Refusal | None:
        found = None
        if self.in_head:
            if self._head_bytes > self._limits.max_head_bytes:
                found = refusal.HEAD_TOO_LARGE
        elif self.chunked:
            overhead = self._body_wire_bytes - self._body_bytes
            if overhead > self._limits.max_head_bytes + _CHUNK_OVERHEAD_FACTOR * self._body_bytes:
                found = refusal.MALFORMED.because("the body is almost all chunk extensions or trailers")
        if found is not None:
            self.stopped = True
        return found

    def _refuse(self, found: Refusal) -> _Stop:
        self._refusal = found
        return _Stop()

    # The callbacks of llhttp, in the order in which they come.

    def on_message_begin(self) -> None:
        """For the parser."""
        if self.stopped:
            raise _Stop
        self._reset()
        self.method = ""  # that of the message before
        self._begun_with_bytes = self._feed_bytes
        self._in_message = self.in_head = True

    def on_url(self, piece: bytes) -> None:
        """For the parser."""
        self._url = self._url + piece if self._url else piece
        if len(self._url) > self._limits.max_url_bytes:
            raise self._refuse(refusal.URL_TOO_LONG)

    def on_header(self, name: bytes, value: bytes) -> None:
        """For the parser."""
        if not self.in_head:
            return  # a trailer field
        name = name.lower()
        value = value.rstrip(b" \t")
        headers = self.headers
        headers.append((name, value))
        if len(headers) > self._max_headers:
            raise self._refuse(refusal.HEAD_TOO_LARGE)
        if name == b"host":
            self._host_count += 1
            if value != self._good_host:
                if not HOST.fullmatch(value):
                    raise self._refuse(refusal.HOST_VALUE)
                self._good_host = value
        elif name == b"content-length":
            if len(value) > _MAX_LENGTH_DIGITS:
                raise self._refuse(refusal.MALFORMED)
            self.content_length = int(value)  # llhttp has seen to it that these are digits
        elif name in _WATCHED:
            self._watch(name, value)

    def _watch(self, name: bytes, value: bytes) -> None:
        if name == b"transfer-encoding":
            self._transfer_encodings += 1
            self.chunked = value.lower() == b"chunked"
        elif name == b"expect":
            if value.lower() != b"100-continue":
                raise self._refuse(refusal.EXPECTATION)
            self.expects_continue = True
        elif name == b"upgrade":
            self._upgrade = value.lower()
        elif len(value) <= _MAX_REQUEST_ID_BYTES and value.isascii():
            text = value.decode("ascii")
            if text.isprintable():
                self.request_id = text

    def on_headers_complete(self) -> None:
        """For the parser."""
        parser = self._parser
        version = parser.get_http_version()
        self.http10 = version != "1.1"
        self.keep_alive = parser.should_keep_alive()
        self.method = parser.get_method().decode("ascii")
        found = self._violation(version)
        if found is not None:
            raise self._refuse(found)
        self.in_head = False
        url = self._url.decode("latin-1")
        if url[0] != "/":
            url = _absolute_form_removed(url)
        if "?" in url:
            self.path, _, self.query = url.partition("?")
        else:
            self.path, self.query = url, ""
        self._body_bytes = 0
        self._body_wire_bytes = 0
        self.endless = False
        self._sink.head_received(self)

    def _violation(self, version: str) -> Refusal | None:
        limits = self._limits
        if self.http10:
            if version != "1.0":
                return refusal.VERSION
            self.expects_continue = False
        elif self._host_count != 1:
            return refusal.HOST
        if self._transfer_encodings and (self.http10 or not self.chunked or self._transfer_encodings > 1):
            return refusal.TRANSFER_ENCODING
        if (
            # At most so many: what the head began in may have had the end of another request before it.
            self._begun_with_bytes + self._head_bytes > limits.max_head_bytes
            and self._exact_head_bytes() > limits.max_head_bytes
        ):
            return refusal.HEAD_TOO_LARGE
        if b"#" in self._url:
            return refusal.MALFORMED.because("the request target has a #, which ends one (RFC 9112, section 3.2)")
        length = self.content_length
        if length is not None and length > limits.max_body_bytes:
            return refusal.BODY_TOO_LARGE.because(f"{length} bytes are more than {limits.max_body_bytes}")
        if (self._upgrade or self.method == "CONNECT") and self._parser.should_upgrade():
            return self._check_upgrade()
        return None

    def _check_upgrade(self) -> Refusal | None:
        bodiless = not self.content_length and not self.chunked
        if self._upgrade == WEBSOCKET and self.method == "GET" and bodiless and not self.http10:
            found = handshake_refusal(self.headers)
            self.websocket = found is None
            self.keep_alive = False  # whatever becomes of it
            return found
        # `curl --http2` offers h2c on an ordinary request, and RFC 9110 7.8 lets a server ignore the offer. With a body
        # it cannot be ignored here: llhttp does not read the body of a request that asks for an upgrade.
        return None if self._upgrade == b"h2c" and bodiless else refusal.UPGRADE

    def _exact_head_bytes(self) -> int:
        return len(self._url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def on_body(self, chunk: bytes) -> None:
        """For the parser."""
        if self.stopped:
            raise _Stop
        self._body_bytes += len(chunk)
        if self._body_bytes > self._limits.max_body_bytes and not self.endless:
            raise self._refuse(refusal.BODY_TOO_LARGE.because(f"it is longer than {self._limits.max_body_bytes} bytes"))
        self._sink.body_received(chunk)

    def on_message_complete(self) -> None:
        """For the parser."""
        if self.stopped:
            raise _Stop
        self._in_message = False
        self._sink.message_received()


def _absolute_form_removed(url: str) -> str:
    path = _SCHEME_AND_AUTHORITY.sub("", url, count=1)
    return path if path == url or path.startswith("/") else "/" + path


_SCHEME_AND_AUTHORITY: Final = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]*://[^/?#]*")
_WATCHED: Final = frozenset((b"transfer-encoding", b"expect", b"upgrade", b"x-request-id"))
