"""Reads one answer of HTTP/1.1 as it comes: for clients that still send, and for who passes it on. Sans-I/O.

Rule 1: interim answers (1xx) are passed over, but for 101, with which the connection is no HTTP any more.
Rule 2: the end of the connection is the end of a body without a length; of any other it is a cut.
Rule 3: an answer to HEAD has no body, whatever it says.
Rule 4: what comes before the body and after it is bounded, interim answers counted together. Fields after it (trailers)
    are passed over.
Rule 5: what comes behind the answer is none of it, and ends the use of its connection.
"""

from __future__ import annotations

from typing import Final

import httptools

from trilith.wire.http1.passed_headers import Header

_MOST_HEAD_BYTES: Final = 64 << 10
_LOWEST_STATUS: Final = 100
_HIGHEST_STATUS: Final = 599


class AnswerReader:
    """Reads one answer.

    Args:
        has_body: false for an answer to HEAD.

    Attributes:
        status: 0 until the head is here.
        headers: as they came, names in lower case, without what stands behind the body.
        complete: the end of the answer is here.
        reusable: the connection may have another request after it. Never after an answer to HEAD: a process that sends
            its body all the same cannot be told from one that does not.
        upgraded: the connection is not HTTP any more.
        rest: octets that belong to what the connection is then.
    """

    def __init__(self, *, has_body: bool = True) -> None:
        self.status = 0
        self.headers: list[Header] = []
        self.complete = False
        self.reusable = False
        self.upgraded = False
        self.rest = b""
        self._has_body = has_body
        self._head_bytes = self._bodiless_bytes = 0
        self._extra = False
        self._wrong = ""
        self._chunks: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)

    def push(self, octets: bytes) -> list[bytes]:
        """Takes what came; the pieces of the body in it.

        Raises:
            ValueError: it is no HTTP, more than one answer, or its head is too long.
        """
        if self.complete:
            raise ValueError("there is more than the answer")
        try:
            self._parser.feed_data(octets)
        except httptools.HttpParserUpgrade as upgrade:
            self.upgraded, self.rest = True, octets[upgrade.args[0] :]
        except httptools.HttpParserError as error:
            self._is_no_http(error)
        if self._wrong:
            raise ValueError(f"the answer is no HTTP: {self._wrong}")
        chunks, self._chunks = self._chunks, []
        self._bodiless_bytes = 0 if chunks else self._bodiless_bytes + len(octets)
        if max(self._head_bytes, self._bodiless_bytes) > _MOST_HEAD_BYTES:
            raise ValueError(f"the head of the answer is longer than {_MOST_HEAD_BYTES} bytes")
        return chunks

    @property
    def fields(self) -> dict[str, str]:
        """The headers by name; of one that came twice the last value."""
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in self.headers}

    def _is_no_http(self, error: Exception) -> None:
        if not self.complete:
            raise ValueError(f"the answer is no HTTP: {error}") from error
        self.reusable = False  # more came than the answer

    def connection_ended(self) -> bool:
        """Whether the answer is whole now that the connection has ended."""
        names = {name for name, _ in self.headers}
        self.reusable = False
        if self.status and not {b"content-length", b"transfer-encoding"} & names:
            self.complete = True
        return self.complete

    # For the parser.

    def on_message_begin(self) -> None:
        """For the parser."""
        self._extra = self.complete
        self.reusable = self.reusable and not self._extra

    def on_header(self, name: bytes, value: bytes) -> None:
        """For the parser."""
        self._head_bytes += len(name) + len(value) + 4
        if not (self.status or self._head_bytes > _MOST_HEAD_BYTES):  # else it is a trailer, or too much
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """For the parser."""
        status = self._parser.get_status_code()
        if self._extra:
            return
        if not _LOWEST_STATUS <= status <= _HIGHEST_STATUS:
            self._wrong = f"its status is {status:03}, which is none of HTTP"
            return
        if status < 200 and status != 101:
            return
        self.status = status
        if not self._has_body:
            self.complete = True

    def on_body(self, chunk: bytes) -> None:
        """For the parser."""
        if self._has_body and not self._extra:
            self._chunks.append(chunk)

    def on_message_complete(self) -> None:
        """For the parser."""
        if not self.status:
            self.headers.clear()
            return
        if not self.complete:
            self.complete = True
            self.reusable = self._parser.should_keep_alive()
