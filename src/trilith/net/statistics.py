"""What every server counts, whatever it speaks. Each protocol adds what it alone knows."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any


class ConnectionRefusal(enum.StrEnum):
    """Why a connection was refused before a protocol saw it, whatever the server speaks."""

    CONNECTIONS = "connections"
    HANDSHAKE = "handshake"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatistics:
    """Counts since the server started, and what is open now.

    Attributes:
        connections: open now.
        connections_accepted_total: accepted since the start, refused ones included.
        requests: handed to the application.
        in_flight: begun and not ended yet.
        refused: requests and connections that never reached the application, or whose body broke a rule, by reason.
        write_timeouts: connections cut, and answers dropped, because the client did not read.
        bytes_received: read from sockets (after TLS).
        bytes_sent: handed to sockets (before TLS).
    """

    connections: int
    connections_accepted_total: int
    requests: int
    in_flight: int
    refused: Mapping[str, int]
    write_timeouts: int
    bytes_received: int
    bytes_sent: int


class ServerCounters:
    """The running counts behind `ServerStatistics`."""

    __slots__ = ("bytes_received", "bytes_sent", "connections_accepted_total", "refused", "requests", "write_timeouts")

    def __init__(self) -> None:
        self.connections_accepted_total = 0
        self.requests = 0
        self.refused: Counter[str] = Counter()
        self.write_timeouts = 0
        self.bytes_received = 0
        self.bytes_sent = 0

    def common(self, connections: int, in_flight: int) -> dict[str, Any]:
        """The fields of `ServerStatistics` as they stand."""
        return {
            "connections": connections,
            "connections_accepted_total": self.connections_accepted_total,
            "requests": self.requests,
            "in_flight": in_flight,
            "refused": MappingProxyType(dict(self.refused)),
            "write_timeouts": self.write_timeouts,
            "bytes_received": self.bytes_received,
            "bytes_sent": self.bytes_sent,
        }
