"""A websocket without I/O (RFC 6455) as a client sees it: for who passes messages on to another server.

Rule 1: what comes is read as a server reads (`trilith.wire.websocket`). Nothing is compressed: it goes to the same
    machine.
Rule 2: pings are answered here; who owns the connection sends what `to_send` has.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from wsproto.frame_protocol import FrameProtocol

from trilith.wire.websocket import NO_CODE, NORMAL, Closing, Ping, WebSocketReader, WebSocketViolation

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
NONCE_BYTES: Final = 16


class Closed(NamedTuple):
    """The server closes. `code`: 1005 when it said none."""

    code: int
    reason: str


class Opening:
    """The opening handshake.

    Attributes:
        headers: what a request must have for it, beside its own.
    """

    def __init__(self, nonce: bytes, subprotocols: Sequence[str] = ()) -> None:
        """`nonce`: `NONCE_BYTES` random octets; `subprotocols`: that are offered."""
        self._subprotocols = subprotocols
        key = base64.b64encode(nonce)
        self._token = base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())
        self.headers = [
            (b"connection", b"Upgrade"),
            (b"upgrade", b"websocket"),
            (b"sec-websocket-version", b"13"),
            (b"sec-websocket-key", key),
        ]
        if subprotocols:
            self.headers.append((b"sec-websocket-protocol", ", ".join(subprotocols).encode("latin-1")))

    def why_not(self, headers: Sequence[tuple[bytes, bytes]]) -> str:
        """What is wrong with the headers of an answer with the status 101; "" when it opens the websocket.

        RFC 6455, 4.1: what was not offered cannot be accepted.
        """
        if (b"sec-websocket-accept", self._token) not in headers:
            return "a token that is wrong"
        for name, value in headers:
            if name == b"sec-websocket-extensions" and value.strip():
                return f"the extension {value.decode('latin-1')[:100]!r}, which was not offered"
            if name == b"sec-websocket-protocol" and value.decode("latin-1").strip() not in self._subprotocols:
                return f"the subprotocol {value.decode('latin-1')[:100]!r}, which was not offered"
        return ""


class RelayedWebSocket:
    """An open one.

    Args:
        max_message_bytes: of a message that comes; a longer one closes it.
    """

    def __init__(self, *, max_message_bytes: int) -> None:
        self._reader = WebSocketReader(max_message_bytes=max_message_bytes, from_server=True)
        self._frames = FrameProtocol(client=True, extensions=[])  # writes: a client's frames are masked
        self._closed = False
        self.to_send = b""

    def feed(self, octets: bytes) -> list[str | bytes | Closed]:
        """Takes what came: whole messages, and the close at last, after which nothing is to be fed."""
        found: list[str | bytes | Closed] = []
        self._reader.feed(octets)
        try:
            while (read := self._reader.next()) is not None:
                if isinstance(read, str | bytes):
                    found.append(read)
                elif isinstance(read, Ping):
                    self.to_send += self._frames.pong(read.payload)
                elif isinstance(read, Closing):
                    self._end(found, read.code, read.reason)
                    break
        except WebSocketViolation as violation:
            self._end(found, violation.code, violation.reason)
        return found

    def _end(self, found: list[str | bytes | Closed], code: int, reason: str) -> None:
        found.append(Closed(code, reason))
        self.to_send += self.close(code, reason)

    def message(self, data: str | bytes) -> bytes:
        """The octets of a message to the server; b"" when it is closed."""
        return b"" if self._closed else bytes(self._frames.send_data(data))

    def close(self, code: int, reason: str = "") -> bytes:
        """The octets that close it; b"" when it is closed."""
        if self._closed:
            return b""
        self._closed = True
        return bytes(self._frames.close(code if code != NO_CODE else NORMAL, reason or None))
