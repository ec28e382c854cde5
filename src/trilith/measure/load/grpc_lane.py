"""One call at a time on a connection that carries many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from trilith.wire.grpc_messages import Message, MessageReader
from trilith.wire.grpc_status import GrpcStatus

if TYPE_CHECKING:
    from trilith.measure.load.grpc_connection import GrpcConnection
    from trilith.measure.load.grpc_target import GrpcRequest

_LARGEST_ANSWER_BYTES: Final = 1 << 31


class Owner(Protocol):
    """The station of a connection."""

    def ready(self, connection: GrpcConnection) -> None:
        """The server has said what it allows."""
        ...

    def draining(self, connection: GrpcConnection) -> None:
        """The server takes no more calls on it."""
        ...

    def lost(self, connection: GrpcConnection, kind: str) -> None:
        """The connection is of no more use."""
        ...


class GrpcLane:
    """A `Lane`. The attributes of one, and:

    Attributes:
        stream: the number of the call in flight on its connection.
        counts: whether messages of an answer are told as items.
        kept: the messages of the answer, where they are wanted; else None.
        reader: cuts messages out of the answer, where they are counted or kept; else None.
        received_bytes: of an answer that is read so.
        unsent: what of a large request waits for a window; None, or empty, when nothing does.
        window: what of it the server takes on this stream.
        status_message: what the server said of the last failure, percent-encoded.
    """

    __slots__ = (
        "_connection",
        "counts",
        "due_at",
        "kept",
        "last_item_at",
        "reader",
        "received_bytes",
        "sampled",
        "sent_at",
        "slot",
        "station",
        "status_message",
        "stream",
        "timeline",
        "timeline_place",
        "unsent",
        "waiting",
        "window",
    )

    def __init__(self, connection: GrpcConnection, *, station: int, slot: int, counts: bool = False) -> None:
        self._connection = connection
        self.counts = counts
        self.station = station
        self.slot = slot
        self.stream = 0
        self.due_at = 0.0
        self.sent_at = 0.0
        self.last_item_at = 0.0
        self.waiting = False
        self.sampled = False
        self.timeline: bytes | None = None
        self.timeline_place: bytes | None = None
        self.kept: list[Message] | None = None
        self.reader: MessageReader | None = None
        self.received_bytes = 0
        self.unsent: memoryview | None = None
        self.window = 0
        self.status_message = b""

    @property
    def reusable(self) -> bool:
        """Whether another call may be sent."""
        return self._connection.open

    def send(self, request: GrpcRequest, *, sampled: bool) -> None:
        """Writes a call."""
        self.waiting = True
        self.sampled = sampled
        if self.counts or self.kept is not None:
            self.last_item_at = 0.0
            self.received_bytes = 0
            self.reader = MessageReader(_LARGEST_ANSWER_BYTES)
        self._connection.start(self, request)

    def cancel(self) -> None:
        """Gives up the call in flight and reports nothing."""
        self.waiting = False
        self.sent_at = 0.0
        self._connection.cancel(self)

    def belongs_to(self, connection: GrpcConnection) -> bool:
        """Whether it is a lane of this connection."""
        return self._connection is connection


def error_of(fields: Sequence[tuple[bytes, bytes]], lane: GrpcLane) -> str:
    """What the last header list of a call says went wrong; "" when nothing did."""
    found = dict(fields)
    status = found.get(b"grpc-status")
    if status == b"0":
        return ""
    lane.status_message = found.get(b"grpc-message", b"")
    if status is None:
        http = found.get(b":status", b"").decode("latin-1")
        return f"status {http}" if http not in ("", "200") else "answer without a status"
    number = status.decode("latin-1")
    known = number.isdecimal() and int(number) in GrpcStatus.__members__.values()
    return f"grpc-status {number} ({GrpcStatus(int(number)).name})" if known else f"grpc-status {number}"
