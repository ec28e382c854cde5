"""What a gRPC server counts."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from trilith.errors import PayloadTooLarge, QueueFull, TrilithError, Unsupported
from trilith.net.statistics import ConnectionRefusal, ServerCounters, ServerStatistics
from trilith.wire.grpc_status import GrpcStatus


class CallRefusal(enum.StrEnum):
    """Why a call or a connection was refused before the application saw it whole; the HTTP/2 layer has more reasons."""

    CONNECTIONS = ConnectionRefusal.CONNECTIONS.value
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
    ACCESS = "access"


def refusal_of(error: TrilithError) -> CallRefusal:
    """Why a message could not be read."""
    return next((why for kind, why in _OF_ERROR if isinstance(error, kind)), CallRefusal.MESSAGE_PREFIX)


_OF_ERROR: Final = (
    (PayloadTooLarge, CallRefusal.MESSAGE_SIZE),
    (QueueFull, CallRefusal.BUFFERS),
    (Unsupported, CallRefusal.EXTRA_MESSAGES),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcStatistics(ServerStatistics):
    """Counts since the server started, and what is open now. `refused` has a `CallRefusal`, or a `Refusal` of HTTP/2.

    Attributes:
        outcomes: calls by the status they ended with; CANCELLED includes clients that went away.
        protocol_errors: connections closed for breaking HTTP/2, by error code.
        keepalive_timeouts: connections cut because the client answered no PING.
    """

    outcomes: Mapping[GrpcStatus, int]
    protocol_errors: Mapping[str, int]
    keepalive_timeouts: int


class GrpcCounters(ServerCounters):
    """The running counts behind `GrpcStatistics`. `outcomes` is indexed by status."""

    __slots__ = ("keepalive_timeouts", "outcomes", "protocol_errors")

    def __init__(self) -> None:
        super().__init__()
        self.outcomes = [0] * len(GrpcStatus)
        self.protocol_errors: Counter[str] = Counter()
        self.keepalive_timeouts = 0

    def snapshot(self, *, connections: int, in_flight: int) -> GrpcStatistics:
        """The counts as they stand."""
        return GrpcStatistics(
            **self.common(connections, in_flight),
            outcomes={status: self.outcomes[status] for status in GrpcStatus if self.outcomes[status]},
            protocol_errors=MappingProxyType(dict(self.protocol_errors)),
            keepalive_timeouts=self.keepalive_timeouts,
        )
