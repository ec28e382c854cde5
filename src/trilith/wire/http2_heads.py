"""The heads of HTTP answers in HTTP/2, by the same rules as those of HTTP/1.1 (`http1/head.py`)."""

from __future__ import annotations

from trilith.errors import ServiceError
from trilith.wire.http1.head import Headers, bodiless, check_headers, check_start
from trilith.wire.http2 import EncodedHeaders, Field


class Http2Heads:
    """Writes heads for one server. `refresh` must be called before the first head, and then about once a second."""

    __slots__ = ("_common", "_server")

    def __init__(self, server: bytes = b"trilith") -> None:
        self._server = server
        self._common: tuple[Field, ...] = ()

    def refresh(self, date: bytes) -> None:
        """Sets the `date` of all heads from now on."""
        self._common = ((b"server", self._server), (b"date", date))

    def sized(
        self,
        status: int,
        content_type: bytes,
        size: int,
        request_id: str,
        headers: Headers,
        *,
        keep: bool,
        http10: bool,
    ) -> EncodedHeaders:
        """The head of an answer whose body has `size` bytes. `keep` and `http10` mean nothing here.

        Raises:
            ServiceError: the status, content type or one of the headers cannot be sent.
        """
        length = () if bodiless(status) else ((b"content-length", b"%d" % size),)
        return self._encoded(status, content_type, request_id, headers, length)

    def unsized(
        self, status: int, content_type: bytes, request_id: str, headers: Headers, *, keep: bool, http10: bool
    ) -> EncodedHeaders:
        """The head of an answer whose length is not known.

        Raises:
            ServiceError: as for `sized`, and for a status that has no body.
        """
        if bodiless(status):
            raise ServiceError(f"an answer of status {status} has no body: it cannot be streamed")
        return self._encoded(status, content_type, request_id, headers, ())

    def _encoded(
        self, status: int, content_type: bytes, request_id: str, headers: Headers, length: tuple[Field, ...]
    ) -> EncodedHeaders:
        check_start(status, content_type)
        if headers:
            check_headers(headers)
        typed = ((b"content-type", content_type),) if content_type and not bodiless(status) else ()
        return EncodedHeaders(
            (
                (b":status", b"%d" % status),
                *typed,
                *length,
                *self._common,
                (b"x-request-id", request_id.encode("ascii")),
                *((name.lower(), value.strip(b" \t")) for name, value in headers),
            )
        )
