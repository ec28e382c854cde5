"""Reads one answer of HTTP/1.1 as it comes, for a client that sends its request meanwhile. Sans-I/O.

Rule: what comes before the body, and after it, is bounded; fields after it (trailers) are passed over.
"""

from __future__ import annotations

from typing import Final

import httptools

_MOST_HEAD_BYTES: Final = 64 << 10


class AnswerReader:
    """Reads one answer. Interim answers (1xx) are passed over.

    Attributes:
        status: 0 until the head is here.
        headers: by name in lower case; of one that came twice the last value.
        complete: the end of the body is here.
    """

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.complete = False
        self._chunks: list[bytes] = []
        self._head_bytes = self._bodiless_bytes = 0
        self._parser = httptools.HttpResponseParser(self)

    def push(self, octets: bytes) -> list[bytes]:
        """Takes what came; the pieces of the body in it.

        Raises:
            ValueError: it is no HTTP, or its head is too long.
        """
        try:
            self._parser.feed_data(octets)
        except httptools.HttpParserError as error:
            raise ValueError(f"the answer is no HTTP: {error}") from error
        chunks, self._chunks = self._chunks, []
        self._bodiless_bytes = 0 if chunks else self._bodiless_bytes + len(octets)
        if max(self._head_bytes, self._bodiless_bytes) > _MOST_HEAD_BYTES:
            raise ValueError(f"the head of the answer is longer than {_MOST_HEAD_BYTES} bytes")
        return chunks

    def ends_with_connection(self) -> bool:
        """Whether the end of the connection is the end of the answer: it says no length."""
        return bool(self.status) and not {"content-length", "transfer-encoding"} & self.headers.keys()

    # For the parser.

    def on_header(self, name: bytes, value: bytes) -> None:
        """For the parser."""
        self._head_bytes += len(name) + len(value) + 4
        if self._head_bytes > _MOST_HEAD_BYTES or self.status:
            return
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """For the parser."""
        status = self._parser.get_status_code()
        if status >= 200:
            self.status = status

    def on_body(self, chunk: bytes) -> None:
        """For the parser."""
        self._chunks.append(chunk)

    def on_message_complete(self) -> None:
        """For the parser."""
        if self.status:
            self.complete = True
        else:
            self.headers.clear()
