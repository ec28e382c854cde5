"""One call at a time on a connection that carries many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilith.wire.grpc_messages import Message, MessageReader

if TYPE_CHECKING:
    from trilith.measure.load.grpc_connection import GrpcConnection
    from trilith.measure.load.grpc_target import GrpcRequest

_LARGEST_ANSWER_BYTES: Final = 1 << 31


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
