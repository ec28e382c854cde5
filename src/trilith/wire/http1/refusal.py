"""The requests that never reach an application, and what their senders are told.

Rule 1: a refused request is always answered, and counted under `reason`.
Rule 2: statuses that only the protocol knows (408, 414, 417, 426, 431, 505) are written here and nowhere else; all
        others come from `wire/http_status.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from trilith.errors import (
    CallerError,
    CapacityError,
    Draining,
    InvalidInput,
    PayloadTooLarge,
    QueueFull,
    TrilithError,
    Unsupported,
)
from trilith.wire.http_status import status_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why the server itself turned a request down.

    Attributes:
        reason: the word under which it is counted.
        kind: the error class whose code the client sees.
        message: a sentence for the client.
        protocol_status: HTTP status that only the protocol knows; None for that of `kind`.
        headers: of the answer.
    """

    reason: str
    kind: type[TrilithError]
    message: str
    protocol_status: int | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def status(self) -> int:
        """HTTP status of the answer."""
        return self.protocol_status or status_of(self.kind)

    def error(self) -> TrilithError:
        """The refusal as an error of the tree."""
        return self.kind(self.message)

    def because(self, detail: str) -> Refusal:
        """The same refusal with a detail at the end of its message."""
        return replace(self, message=f"{self.message}: {detail}")


MALFORMED: Final = Refusal(reason="malformed", kind=InvalidInput, message="the request is not well-formed HTTP/1.1")
HOST: Final = Refusal(reason="host", kind=InvalidInput, message="an HTTP/1.1 request must have exactly one Host header")
HOST_VALUE: Final = Refusal(
    reason="host",
    kind=InvalidInput,
    message="the Host of a request must be a name or an address, and perhaps a port (RFC 9110, section 7.2)",
)
METHOD: Final = Refusal(
    reason="method", kind=Unsupported, message="the request method is not one that this server knows"
)
VERSION: Final = Refusal(
    reason="version", protocol_status=505, kind=Unsupported, message="this port speaks HTTP/1.1 and HTTP/1.0 only"
)
TRANSFER_ENCODING: Final = Refusal(
    reason="transfer_encoding",
    kind=Unsupported,
    message="the only transfer encoding that this server reads is 'chunked', named once, in HTTP/1.1",
)
UPGRADE: Final = Refusal(
    reason="upgrade",
    kind=Unsupported,
    message="this server switches protocols (Upgrade, CONNECT) for websockets only, asked for by GET without a body",
)
WEBSOCKET_VERSION: Final = Refusal(
    reason="websocket_version",
    protocol_status=426,
    kind=Unsupported,
    message="this server speaks version 13 of websockets (RFC 6455): send one Sec-WebSocket-Version: 13",
    headers=((b"sec-websocket-version", b"13"),),
)
WEBSOCKET_KEY: Final = Refusal(
    reason="websocket_key",
    kind=InvalidInput,
    message="a websocket is asked for with one Sec-WebSocket-Key, of 16 bytes in base64 (RFC 6455, section 4.1)",
)
EXPECTATION: Final = Refusal(
    reason="expectation",
    protocol_status=417,
    kind=Unsupported,
    message="the only expectation that is met is '100-continue'",
)
URL_TOO_LONG: Final = Refusal(
    reason="url_too_long", protocol_status=414, kind=CallerError, message="the request target is too long"
)
HEAD_TOO_LARGE: Final = Refusal(
    reason="head_too_large",
    protocol_status=431,
    kind=CallerError,
    message="the header fields are too large or too many",
)
BODY_TOO_LARGE: Final = Refusal(reason="body_too_large", kind=PayloadTooLarge, message="the request body is too large")
HEAD_TIMEOUT: Final = Refusal(
    reason="head_timeout",
    protocol_status=408,
    kind=CallerError,
    message="the head of the request did not arrive in time",
)
BODY_TIMEOUT: Final = Refusal(
    reason="body_timeout", protocol_status=408, kind=InvalidInput, message="the body of the request stopped arriving"
)
DRAINING: Final = Refusal(
    reason="draining",
    kind=Draining,
    message="the server is stopping, and the request is not whole",
)
HELD_BYTES: Final = Refusal(reason="held_bytes", kind=QueueFull, message="the request is not taken")
TOO_MANY_CONNECTIONS: Final = Refusal(
    reason="connections", kind=CapacityError, message="too many connections are open: try again later"
)
