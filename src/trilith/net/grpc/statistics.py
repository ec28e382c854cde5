"""What a gRPC server counts."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from trilith.errors import PayloadTooLarge, QueueFull, TrilithError, Unsupported
from trilith.wire.grpc_status import GrpcStatus


class CallRefusal(enum.StrEnum):
    """Why a call or a connection was refused before the application saw it whole; the HTTP/2 layer has more reasons."""

    CONNECTIONS = "connections"
    STREAMS = "streams"
    CONTENT_TYPE = "content_type"
    HTTP_METHOD = "http_method"
    TIMEOUT = "timeout"
    MESSAGE_SIZE = "message_size"
    MESSAGE_PREFIX = "message_prefix"
    COMPRESSION = "compression"
    EXTRA_MESSAGES = "extra_messages"
    NO_MESSAGE = "no_message"
    TRUNCATED = "message_truncated"
    SLOW = "message_slow"
    BUFFERS = "buffers"


def refusal_of(error: TrilithError) -> CallRefusal:
    """Why a message could not be read."""
    return next((why for kind, why in _OF_ERROR if isinstance(error, kind)), CallRefusal.MESSAGE_PREFIX)


_OF_ERROR: Final = (
    (PayloadTooLarge, CallRefusal.MESSAGE_SIZE),
    (QueueFull, CallRefusal.BUFFERS),
    (Unsupported, CallRefusal.EXTRA_MESSAGES),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcStatistics:
    """Counts since the server started, and what is open now.

    Attributes:
        connections: open now.
        connections_total: accepted since the start, refused ones included.
        calls: handed to the application.
        in_flight: begun by a client and not ended yet.
        outcomes: calls by the status they ended with; CANCELLED includes clients that went away.
        refused: what never became a call, by reason: a `CallRefusal`, or a `Refusal` of the HTTP/2 layer.
        protocol_errors: connections closed for breaking HTTP/2, by error code.
        write_timeouts: connections cut, and answers dropped, because the client did not read.
        keepalive_timeouts: connections cut because the client answered no PING.
        bytes_received: read from sockets (after TLS).
        bytes_sent: handed to sockets (before TLS).
    """

    connections: int
    connections_total: int
    calls: int
    in_flight: int
    outcomes: Mapping[GrpcStatus, int]
    refused: Mapping[str, int]
    protocol_errors: Mapping[str, int]
    write_timeouts: int
    keepalive_timeouts: int
    bytes_received: int
    bytes_sent: int


class GrpcCounters:
    """The running counts behind `GrpcStatistics`. `outcomes` is indexed by status."""

    __slots__ = (
        "bytes_received",
        "bytes_sent",
        "calls",
        "connections_total",
        "keepalive_timeouts",
        "outcomes",
        "protocol_errors",
        "refused",
        "write_timeouts",
    )

    def __init__(self) -> None:
        self.connections_total = 0
        self.calls = 0
        self.outcomes = [0] * len(GrpcStatus)
        self.refused: Counter[str] = Counter()
        self.protocol_errors: Counter[str] = Counter()
        self.write_timeouts = 0
        self.keepalive_timeouts = 0
        self.bytes_received = 0
        self.bytes_sent = 0

    def snapshot(self, *, connections: int, in_flight: int) -> GrpcStatistics:
        """The counts as they stand."""
        return GrpcStatistics(
            connections=connections,
            connections_total=self.connections_total,
            calls=self.calls,
            in_flight=in_flight,
            outcomes={status: self.outcomes[status] for status in GrpcStatus if self.outcomes[status]},
            refused=dict(self.refused),
            protocol_errors=dict(self.protocol_errors),
            write_timeouts=self.write_timeouts,
            keepalive_timeouts=self.keepalive_timeouts,
            bytes_received=self.bytes_received,
            bytes_sent=self.bytes_sent,
        )
