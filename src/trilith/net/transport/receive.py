"""What must be in place before calls can be read: the greeting, the accept board, the shared segments.

Rule: what the other side claims is checked, here or in `mapped_segments`; a false claim is a `MalformedFrame`.
"""

from __future__ import annotations

import os
from typing import Final

from trilith.net.transport.accept_board import AcceptBoard
from trilith.net.transport.channel import Channel
from trilith.net.transport.mapped_segments import MappedSegments
from trilith.net.transport.sender import SLOT_BYTES
from trilith.wire import frames
from trilith.wire.frames import Frame, MalformedFrame, SharedPart

HAS_BOARD: Final = 1  # flag of HELLO: a descriptor of an accept board travels beside it


class Surroundings:
    """The other side's greeting and memory.

    Attributes:
        greeted: its HELLO was read.
        board: where to mark its calls as begun; None before the greeting, and when it has none.
        segments: the shared memory that it announced.
    """

    __slots__ = ("_channel", "board", "greeted", "segments")

    def __init__(self, channel: Channel, max_mapped_bytes: int) -> None:
        self.greeted = False
        self.board: AcceptBoard | None = None
        self.segments = MappedSegments(max_mapped_bytes)
        self._channel = channel

    def greet(self, frame: Frame) -> None:
        """Takes the first frame.

        Raises:
            MalformedFrame: it is not the greeting of this protocol version.
        """
        if frame.kind != frames.HELLO or frame.call_id != frames.MAGIC:
            raise MalformedFrame("expected a greeting first: the other side is not a Trilith process")
        if frame.count != frames.PROTOCOL_VERSION:
            raise MalformedFrame(f"expected protocol version {frames.PROTOCOL_VERSION}, got {frame.count}")
        if frame.flags & HAS_BOARD:
            self.board = AcceptBoard.receive(self._descriptor())
        self.greeted = True

    def add_segment(self, frame: Frame) -> None:
        """Takes the announcement of a shared segment.

        Raises:
            MalformedFrame: it is not what it says, or over the bounds.
        """
        descriptor = self._descriptor()
        if len(frame.meta) != SLOT_BYTES.size:
            os.close(descriptor)
            raise MalformedFrame(f"expected {SLOT_BYTES.size} bytes about a segment, got {len(frame.meta)}")
        (slot_bytes,) = SLOT_BYTES.unpack(frame.meta)
        self.segments.add(frame.call_id, descriptor, slots=frame.count, slot_bytes=slot_bytes)

    def views(self, parts: list[memoryview | SharedPart]) -> list[memoryview]:
        """A frame's buffers, wherever they lie.

        Raises:
            MalformedFrame: one lies nowhere.
        """
        if len(parts) == 1 and type(parts[0]) is memoryview:
            return [parts[0]]
        return [part if isinstance(part, memoryview) else self.segments.view(part) for part in parts]

    def close(self) -> None:
        """Forgets all of it; views that were handed out stay valid."""
        self.board = None
        self.segments.close()

    def _descriptor(self) -> int:
        descriptor = self._channel.take_descriptor()
        if descriptor is None:
            raise MalformedFrame("a frame came without its descriptor")
        return descriptor
