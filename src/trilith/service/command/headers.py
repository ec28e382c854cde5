"""The head of a request as a command's process gets it. Pure.

Rule 1: headers of one connection end here (RFC 9110, 7.6.1); so do those that say who a client is (`forwarded`,
    `x-forwarded-...`), which anybody can write. What is true of them is written anew.
Rule 2: `host` stays the client's, so that addresses that the process makes of it lead the client back. A path is passed
    on as it came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trilith.wire.http1.passed_headers import Header, end_to_end

_WITHOUT_BODY: Final = frozenset({"GET", "HEAD", "OPTIONS", "DELETE", "TRACE"})
_REPEATABLE: Final = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
_FORWARDED: Final = b"x-forwarded-"
_NOT_PASSED: Final = frozenset({b"forwarded", b"x-request-id", b"expect", b"x-real-ip"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request.

    Attributes:
        method: `GET`, `POST` ...
        raw_path: the path as the process is to see it, as it came.
        query: what stood behind `?`, as it came.
        headers: names in lower case.
        client: the address of the client, without a port; "" when it has none.
        scheme: `http` or `https`.
        prefix: what was taken from the front of the path.
        request_id: its id in logs.
        has_body: a body comes with it, whatever its headers say: HTTP/2 needs none that does.
    """

    method: str
    raw_path: bytes
    query: bytes
    headers: Sequence[Header]
    client: str
    scheme: str
    prefix: str
    request_id: str
    has_body: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHead:
    """What goes to the process.

    Attributes:
        octets: the head.
        has_body: a body follows it.
        chunked: it has no length and is sent in chunks.
        repeatable: it may be sent again when the connection ended before any answer.
    """

    octets: bytes
    has_body: bool
    chunked: bool
    repeatable: bool


def request_head(asked: Asked, *, more: Sequence[Header] = ()) -> RequestHead:
    """The head of the request to the process; `more`: of the new connection, as for a websocket."""
    kept = passed_headers(asked)
    names = {name for name, _ in asked.headers}
    sized = b"content-length" in names
    has_length = sized and any(name == b"content-length" and value.strip() != b"0" for name, value in asked.headers)
    unsized = asked.has_body or b"transfer-encoding" in names or asked.method not in _WITHOUT_BODY
    chunked = unsized and not sized and not more
    lines = [b"%s %s HTTP/1.1" % (asked.method.encode("latin-1"), target(asked))]
    if b"host" not in names:  # of HTTP/1.0
        lines.append(b"host: localhost")
    lines += [b"%s: %s" % header for header in (*kept, *more)]
    if chunked:
        lines.append(b"transfer-encoding: chunked")
    has_body = chunked or has_length
    return RequestHead(
        octets=b"\r\n".join((*lines, b"", b"")),
        has_body=has_body,
        chunked=chunked,
        repeatable=not has_body and asked.method in _REPEATABLE,
    )


def may_hide_body(asked: Asked, http_version: str) -> bool:
    """Whether only the body itself can say if there is one: in HTTP/2 it needs no header."""
    said = {b"content-length", b"transfer-encoding"} & {name for name, _ in asked.headers}
    return http_version.startswith("2") and not said and asked.method in _WITHOUT_BODY


def target(asked: Asked) -> bytes:
    """Path and query."""
    return asked.raw_path + b"?" + asked.query if asked.query else asked.raw_path


def passed_headers(asked: Asked) -> list[Header]:
    """The client's headers that the process gets, and those that say who the client is."""
    kept = [
        (name, value)
        for name, value in end_to_end(asked.headers)
        if name not in _NOT_PASSED and not name.startswith(_FORWARDED) and not name.startswith(b"sec-websocket-")
    ]
    host = next((value for name, value in asked.headers if name == b"host"), b"")
    said = {
        b"x-request-id": asked.request_id.encode("latin-1", "replace"),
        b"x-forwarded-for": asked.client.encode("latin-1", "replace"),
        b"x-forwarded-proto": asked.scheme.encode("latin-1"),
        b"x-forwarded-host": host,
        b"x-forwarded-prefix": asked.prefix.encode("latin-1", "replace"),
    }
    return kept + [(name, value) for name, value in said.items() if value]
