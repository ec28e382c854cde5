"""The heads of answers, as bytes.

Rule 1: nothing that an application hands over reaches the wire unchecked: a status outside 200 to 599, a name that is
        no token or a value with a control character is an error of the application, not of the client.
Rule 2: what frames the message or is the same in all answers is written here and may not be handed over.
Rule 3: the part that does not change between answers is made once: per status and content type, and per second.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

from trilith.core.header_fields import SERVERS_OWN, TOKEN, VALUE
from trilith.errors import ServiceError

Headers = Sequence[tuple[bytes, bytes]]

_REASONS: Final = {status.value: status.phrase.encode("ascii") for status in HTTPStatus}
_MAX_CACHED: Final = 512  # a service that makes up content types must not grow the cache

_UPGRADE_REQUIRED: Final = 426
_KEEP_ALIVE: Final = b"\r\nconnection: keep-alive"
_CLOSE: Final = b"\r\nconnection: close"


def bodiless(status: int) -> bool:
    """Whether an answer of this status never has a body."""
    return status in (204, 304)


class ResponseHeads:
    """Writes heads for one server.

    `refresh` must be called before the first head, and then about once a second.
    """

    __slots__ = ("_cache", "_common", "_server")

    def __init__(self, server: bytes = b"trilith") -> None:
        self._server = server
        self._cache: dict[tuple[int, bytes], bytes] = {}
        self._common = b""

    def refresh(self, date: bytes) -> None:
        """Sets the `date` of all heads from now on (IMF-fixdate, RFC 9110 5.6.7)."""
        self._common = b"\r\nserver: %b\r\ndate: %b\r\nx-request-id: " % (self._server, date)

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
    ) -> bytes:
        """The head of an answer whose body has `size` bytes (0 for none), with the empty line at its end.

        Args:
            status: 200 to 599.
            content_type: b"" for no such header.
            size: length of the body in bytes; of what a GET would send, in answer to HEAD.
            request_id: printable ASCII.
            headers: further headers.
            keep: the connection stays open after the answer.
            http10: the client speaks HTTP/1.0, and has to be told that it stays open.

        Raises:
            ServiceError: the status, content type or one of the headers cannot be sent.
        """
        start = self._cache.get((status, content_type))
        if start is None:
            start = self._start(status, content_type)
        if keep and not http10 and not headers and status == 200:  # nearly all answers
            return b"%b\r\ncontent-length: %d%b%b\r\n\r\n" % (start, size, self._common, request_id.encode())
        return b"".join(
            (
                start,
                b"" if status == 204 or status == 304 else b"\r\ncontent-length: %d" % size,
                self._common,
                request_id.encode("ascii"),
                (_KEEP_ALIVE if http10 else b"") if keep else _CLOSE,
                _checked(headers) if headers else b"",
                b"\r\n\r\n",
            )
        )

    def unsized(
        self, status: int, content_type: bytes, request_id: str, headers: Headers, *, keep: bool, http10: bool
    ) -> bytes:
        """The head of an answer whose length is not known: chunked, or ended by the connection's end in HTTP/1.0.

        Raises:
            ServiceError: as for `sized`, and for a status that has no body.
        """
        if bodiless(status):
            raise ServiceError(f"an answer of status {status} has no body: it cannot be streamed")
        return b"".join(
            (
                self._cache.get((status, content_type)) or self._start(status, content_type),
                b"" if http10 else b"\r\ntransfer-encoding: chunked",
                self._common,
                request_id.encode("ascii"),
                b"" if keep else _CLOSE,
                _checked(headers),
                b"\r\n\r\n",
            )
        )

    def switching(self, accept: bytes, request_id: str, headers: Headers, *, fields: Headers) -> bytes:
        """The answer that makes a connection a websocket.

        Args:
            accept: the value of `sec-websocket-accept`.
            request_id: as for `sized`.
            headers: further headers, an application's.
            fields: further headers, the protocol's.

        Raises:
            ServiceError: one of the headers cannot be sent.
        """
        for name, _ in headers:
            if name.lower().startswith(b"sec-websocket-"):
                raise ServiceError(f"the server writes the header {name.decode('latin-1')!r} itself: leave it out")
        return b"".join(
            (
                b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade",
                b"\r\nsec-websocket-accept: " + accept,
                self._common,
                request_id.encode("ascii"),
                _checked(fields),
                _checked(headers),
                b"\r\n\r\n",
            )
        )

    def _start(self, status: int, content_type: bytes) -> bytes:
        check_start(status, content_type)
        line = b"HTTP/1.1 %d %b" % (status, _REASONS.get(status, b"Unknown"))
        if status == _UPGRADE_REQUIRED:
            line += b"\r\nupgrade: websocket"  # RFC 9110, section 15.5.22: never without
        start = line + (b"\r\ncontent-type: " + content_type if content_type and not bodiless(status) else b"")
        if len(self._cache) < _MAX_CACHED:
            self._cache[status, content_type] = start
        return start


def check_start(status: int, content_type: bytes) -> None:
    """Refuses a status or a content type that cannot be sent.

    Raises:
        ServiceError: one of them.
    """
    if not 200 <= status <= 599:
        raise ServiceError(f"the status of an answer must be a whole number from 200 to 599, got {status!r}")
    if not VALUE.fullmatch(content_type):
        raise ServiceError(f"the content type of an answer must be printable, got {content_type!r:.100}")


def check_headers(headers: Headers) -> None:
    """Refuses headers that cannot be sent, or are the server's.

    Raises:
        ServiceError: the first of them.
    """
    for name, value in headers:
        if not TOKEN.fullmatch(name):
            raise ServiceError(f"the name of an answer's header must be a token (RFC 9110 5.6.2), got {name!r:.100}")
        if name.lower() in SERVERS_OWN:
            raise ServiceError(f"the server writes the header {name.decode()!r} itself: leave it out")
        if not VALUE.fullmatch(value):
            raise ServiceError(
                f"the value of the header {name.decode()!r} must not have control characters or line ends"
            )


def _checked(headers: Headers) -> bytes:
    check_headers(headers)
    return b"".join(b"\r\n%b: %b" % header for header in headers)
