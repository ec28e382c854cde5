"""Headers of a message that is passed on to somebody else. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

Header = tuple[bytes, bytes]

# RFC 9110, 7.6.1, and what browsers and proxies have said instead
_OF_ONE_CONNECTION: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_OF_EVERY_MESSAGE: Final = frozenset({b"content-length", b"host"})


def end_to_end(headers: Sequence[Header]) -> list[Header]:
    """The headers that go on to the next one: without those of one connection, and those that `Connection` names.

    `headers`: names in lower case. What every message needs stays, whatever `Connection` says.
    """
    named = {
        name.strip().lower()
        for key, value in headers
        if key == b"connection"
        for name in value.split(b",")
        if name.strip().lower() not in _OF_EVERY_MESSAGE
    }
    return [(key, value) for key, value in headers if key not in _OF_ONE_CONNECTION and key not in named]
