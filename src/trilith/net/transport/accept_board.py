"""Which calls the other side has begun, readable after it was killed.

Rule 1: the board is memory of the calling side, shared with the called side: one word of 8 bytes a call slot.
Rule 2: `IncomingCall.begin` stores the call's whole id into the word of its slot: no system call, and the store
        survives SIGKILL a nanosecond later. A slot's next call has another id, so an old mark is never misread.
Rule 3: without a board (no memfd, no room to map it) the called side sends ACCEPT frames, each flushed at once.
"""

from __future__ import annotations

import mmap
import os
from typing import Final

from trilith.net.transport.descriptors import create_memory, map_memory

SLOT_BITS: Final = 12
MAX_CALLS: Final = 1 << SLOT_BITS  # in flight, one way, on one connection
SLOT_MASK: Final = MAX_CALLS - 1

_WORD_BYTES: Final = 8
_BOARD_BYTES: Final = MAX_CALLS * _WORD_BYTES


class AcceptBoard:
    """One connection's board, on either side."""

    __slots__ = ("_words",)

    def __init__(self, memory: mmap.mmap) -> None:
        self._words = memoryview(memory).cast("Q")

    @classmethod
    def create(cls) -> tuple[AcceptBoard, int] | None:
        """A board and its descriptor (the caller's to close); None when the system has no room for one."""
        try:
            descriptor, memory = create_memory("trilith-accepted", _BOARD_BYTES)
        except (OSError, AttributeError):
            return None
        return cls(memory), descriptor

    @classmethod
    def receive(cls, descriptor: int) -> AcceptBoard | None:
        """The board that the other side created, None when there is no room for it; closes the descriptor.

        Raises:
            MalformedFrame: it is none.
        """
        try:
            return cls(map_memory(descriptor, _BOARD_BYTES))
        except OSError:
            return None
        finally:
            os.close(descriptor)

    def mark(self, call_id: int) -> None:
        """Records that the call was begun. From any thread."""
        self._words[call_id & SLOT_MASK] = call_id

    def unmark(self, call_id: int) -> None:
        """Takes the record back. From any thread."""
        self._words[call_id & SLOT_MASK] = 0

    def is_marked(self, call_id: int) -> bool:
        """Whether the call was begun."""
        return self._words[call_id & SLOT_MASK] == call_id
