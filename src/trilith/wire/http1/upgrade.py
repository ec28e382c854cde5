"""The opening handshake of a websocket as HTTP sees it (RFC 6455, section 4.2). Sans-I/O.

Rule: a handshake that is none is refused before an application sees it; what an application sees can be accepted.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

from trilith.wire.http1 import refusal
from trilith.wire.http1.refusal import Refusal

Headers = Sequence[tuple[bytes, bytes]]

WEBSOCKET: Final = b"websocket"
_VERSION: Final = b"13"
_KEY_BYTES: Final = 16
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_KEY: Final = b"sec-websocket-key"


def handshake_refusal(headers: Headers) -> Refusal | None:
    """Why a request to become a websocket cannot be met, whatever it is for; None when it can."""
    versions = [value for name, value in headers if name == b"sec-websocket-version"]
    if versions != [_VERSION]:
        return refusal.WEBSOCKET_VERSION
    keys = [value for name, value in headers if name == _KEY]
    if len(keys) != 1 or not _is_key(keys[0]):
        return refusal.WEBSOCKET_KEY
    return None


def accept_token(headers: Headers) -> bytes:
    """The value of `sec-websocket-accept` for a handshake that was not refused."""
    key = next(value for name, value in headers if name == _KEY)
    return base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())


def listed(headers: Headers, name: bytes) -> Iterator[str]:
    """The elements of a header that is a list, in order."""
    for key, value in headers:
        if key == name:
            yield from (part for element in value.decode("latin-1").split(",") if (part := element.strip()))


def _is_key(value: bytes) -> bool:
    try:
        return len(base64.b64decode(value, validate=True)) == _KEY_BYTES
    except binascii.Error:
        return False
