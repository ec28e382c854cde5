"""The bytes of one request body between the socket and its reader: counting only."""

from __future__ import annotations

import msgspec

from trilith.wire.pieces import Pieces


class InboundBody(msgspec.Struct, eq=False):
    """Chunks that have arrived and were not read yet.

    Attributes:
        allowance: bytes that may lie here unread; with more, `full` asks for the client to be held.
        received: bytes that arrived in all.
        buffered: bytes that lie here unread.
        complete: the last byte is here.
        discarding: nobody will read it: what arrives is dropped.
    """

    allowance: int
    received: int = 0
    buffered: int = 0
    complete: bool = False
    discarding: bool = False
    _pieces: Pieces = msgspec.field(default_factory=Pieces)

    def add(self, chunk: bytes) -> None:
        """Takes what the socket brought."""
        size = len(chunk)
        self.received += size
        if not self.discarding:
            self._pieces.add(chunk)
            self.buffered += size

    @property
    def full(self) -> bool:
        """Whether the client should be held until something is read."""
        return self.buffered > self.allowance and not self.complete

    def gather(self) -> None:
        """Says that it will be read as a whole."""
        self._pieces.gathers = True

    def whole(self) -> bytes | memoryview:
        """All unread bytes in one piece; they stay, so that a second call gives the same."""
        return self._pieces.whole()

    def take(self) -> bytes:
        """Removes and returns all unread bytes."""
        taken = bytes(self.whole())  # the same object, when it is bytes
        self._pieces.clear()
        self.buffered = 0
        return taken

    def discard(self) -> None:
        """Drops what is here and whatever comes."""
        self.discarding = True
        self._pieces.clear()
        self.buffered = 0
