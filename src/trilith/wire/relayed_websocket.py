"""A websocket without I/O (RFC 6455) as a client sees it: for who passes messages on to another server.

Rule 1: a message is joined from its frames, and bounded. Nothing is compressed: it goes to the same machine.
Rule 2: pings are answered here; who owns the connection sends what `to_send` has.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
NONCE_BYTES: Final = 16
_NO_CODE: Final = 1005
_TOO_BIG: Final = 1009
_PROTOCOL_ERROR: Final = 1002


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
        self._connection = Connection(ConnectionType.CLIENT)
        self._max_bytes = max_message_bytes
        self._text: list[str] = []
        self._pieces: list[bytes] = []
        self._size = 0
        self.to_send = b""

    def feed(self, octets: bytes) -> list[str | bytes | Closed]:
        """Takes what came: whole messages, and the close at last, after which nothing is to be fed."""
        found: list[str | bytes | Closed] = []
        try:
            self._connection.receive_data(octets)
            for event in self._connection.events():
                if isinstance(event, Ping):
                    self.to_send += self._connection.send(event.response())
                elif isinstance(event, CloseConnection):
                    if self._connection.state is ConnectionState.REMOTE_CLOSING:  # and was not closed from here
                        self.to_send += self._connection.send(event.response())
                    found.append(Closed(int(event.code), event.reason or ""))
                elif isinstance(event, (TextMessage, BytesMessage)) and not self._message(event, found):
                    break
        except (RemoteProtocolError, LocalProtocolError) as error:
            found.append(Closed(_PROTOCOL_ERROR, str(error)[:100]))
        return found

    def _message(self, event: TextMessage | BytesMessage, found: list[str | bytes | Closed]) -> bool:
        """Takes some of a message; False when it is too long."""
        self._size += len(event.data)
        if self._size > self._max_bytes:
            self.to_send += self.close(_TOO_BIG, "the message is too big")
            found.append(Closed(_TOO_BIG, "the message is too big"))
            return False
        if isinstance(event, TextMessage):
            self._text.append(event.data)
        else:
            self._pieces.append(bytes(event.data))
        if event.message_finished:
            found.append("".join(self._text) if isinstance(event, TextMessage) else b"".join(self._pieces))
            self._text, self._pieces, self._size = [], [], 0
        return True

    def message(self, data: str | bytes) -> bytes:
        """The octets of a message to the server; b"" when it is closed."""
        if self._connection.state is not ConnectionState.OPEN:
            return b""
        return self._connection.send(TextMessage(data) if isinstance(data, str) else BytesMessage(data))

    def close(self, code: int, reason: str = "") -> bytes:
        """The octets that close it; b"" when it is closed."""
        said = CloseConnection(code if code != _NO_CODE else 1000, reason or None)
        try:
            return self._connection.send(said)
        except LocalProtocolError:
            return b""
