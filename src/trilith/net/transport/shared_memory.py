"""The sending side of shared memory: which slot the next large buffer goes into.

Rule 1: a segment belongs to the side that created it, which alone decides what its slots hold.
Rule 2: a slot has one byte in the segment's first page. The sender sets it when it fills the slot; the receiver clears
        it when the last view dies. No frame and no lock is needed for that.
Rule 3: taking a slot costs O(1): at most `_RECLAIM_STEPS` bytes are looked at. Slots that a receiver keeps for long
        move to the back of the queue.
Rule 4: no room is not an error. `store` returns None and the buffer travels in the frame.
"""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Callable
from typing import Final

from trilith.net.transport.config import SharedMemoryConfig, SizeClass
from trilith.net.transport.descriptors import create_memory
from trilith.wire.frames import Buffer, SharedPart

SEGMENT_HEADER_BYTES: Final = mmap.PAGESIZE
STATE_STRIDE_BYTES: Final = 64  # one cache line a slot, so that the two processes do not fight over one
MAX_SLOTS: Final = SEGMENT_HEADER_BYTES // STATE_STRIDE_BYTES

_RECLAIM_STEPS: Final = 32
_FREE: Final = 0
_USED: Final = 1


class Segment:
    """One piece of shared memory, cut into slots of one size."""

    __slots__ = ("index", "last_used_at", "memory", "size_class", "used", "view")

    def __init__(self, index: int, size_class: SizeClass, memory: mmap.mmap) -> None:
        self.index = index
        self.size_class = size_class
        self.memory = memory
        self.view = memoryview(memory)
        self.used = 0
        self.last_used_at = 0.0

    @property
    def size_bytes(self) -> int:
        """What the segment occupies, with its header."""
        return segment_bytes(self.size_class)

    def close(self) -> None:
        """Unmaps it on this side."""
        self.view.release()
        self.memory.close()


class _Slot:
    __slots__ = ("offset", "segment", "slot", "state")

    def __init__(self, segment: Segment, slot: int) -> None:
        self.segment = segment
        self.slot = slot
        self.state = slot * STATE_STRIDE_BYTES
        self.offset = SEGMENT_HEADER_BYTES + slot * segment.size_class.slot_bytes


class _Shelf:
    """The slots of one size class."""

    def __init__(self, size_class: SizeClass) -> None:
        self.size_class = size_class
        self.free: list[_Slot] = []
        self.used: deque[_Slot] = deque()

    def take(self) -> _Slot | None:
        # The oldest used slot first: with few calls in flight the same few slots, warm in the cache, go round.
        if self.used and self._reclaim_oldest():
            return self.free.pop()
        if self.free:
            return self.free.pop()
        for _ in range(min(_RECLAIM_STEPS, len(self.used)) - 1):
            if self._reclaim_oldest():
                return self.free.pop()
        return None

    def reclaim_all(self) -> None:
        for _ in range(len(self.used)):
            self._reclaim_oldest()

    def _reclaim_oldest(self) -> bool:
        slot = self.used.popleft()
        if slot.segment.view[slot.state] != _FREE:
            self.used.append(slot)
            return False
        slot.segment.used -= 1
        self.free.append(slot)
        return True


class SegmentPool:
    """Puts large buffers into shared memory, creating segments as they are needed.

    Args:
        config: bounds and size classes.
        announce: tells the other side of a new segment and passes it the descriptor, which is the callee's to close
            in every case; returns False when that cannot be done now.
        retire: tells the other side that a segment is not used any more.
    """

    def __init__(
        self,
        config: SharedMemoryConfig,
        announce: Callable[[Segment, int], bool],
        retire: Callable[[int], None],
    ) -> None:
        self._config = config
        self._announce = announce
        self._retire = retire
        self._shelves = [_Shelf(size_class) for size_class in config.size_classes]
        self._segments: dict[int, Segment] = {}
        self._next_index = 0
        self._retry_at = 0.0
        self.total_bytes = 0

    def store(self, buffer: Buffer, now: float) -> SharedPart | None:
        """Copies a flat buffer into a free slot; None when there is no room.

        Args:
            buffer: at least one byte.
            now: the instant in seconds.
        """
        size = len(buffer)
        for shelf in self._shelves:
            if size <= shelf.size_class.slot_bytes:
                break
        else:
            return None
        slot = shelf.take()
        if slot is None:
            self._grow(shelf, now)
            if not shelf.free:
                return None
            slot = shelf.free.pop()
        segment = slot.segment
        segment.view[slot.offset : slot.offset + size] = buffer
        segment.view[slot.state] = _USED
        segment.used += 1
        segment.last_used_at = now
        shelf.used.append(slot)
        return SharedPart(segment.index, slot.slot, size)

    def take_back(self, part: SharedPart) -> None:
        """Frees a slot whose frame was never sent."""
        segment = self._segments.get(part.segment)
        if segment is not None:
            segment.view[part.slot * STATE_STRIDE_BYTES] = _FREE

    def trim(self, now: float) -> int:
        """Gives back the segments that were idle for `idle_s`; returns the bytes given back."""
        before = self.total_bytes
        for shelf in self._shelves:
            shelf.reclaim_all()
        for segment in list(self._segments.values()):
            if segment.used == 0 and now - segment.last_used_at >= self._config.idle_s:
                self._give_back(segment)
        return before - self.total_bytes

    def close(self) -> None:
        """Unmaps everything. What the other side still reads stays mapped there."""
        for segment in self._segments.values():
            segment.close()
        self._segments.clear()
        for shelf in self._shelves:
            shelf.free.clear()
            shelf.used.clear()
        self.total_bytes = 0

    def counts(self) -> tuple[int, int, int]:
        """Segments, slots, and slots in use."""
        for shelf in self._shelves:
            shelf.reclaim_all()
        used = sum(len(shelf.used) for shelf in self._shelves)
        free = sum(len(shelf.free) for shelf in self._shelves)
        return len(self._segments), used + free, used

    def check_integrity(self) -> None:
        """For tests: every slot is free or used, exactly once, and the sums agree.

        Raises:
            AssertionError: they do not.
        """
        seen: set[tuple[int, int]] = set()
        for shelf in self._shelves:
            for slot in (*shelf.free, *shelf.used):
                key = (slot.segment.index, slot.slot)
                _expect(key not in seen, f"slot {key} is listed once")
                seen.add(key)
                _expect(self._segments.get(slot.segment.index) is slot.segment, f"the segment of slot {key} is alive")
        total = sum(segment.size_class.slots for segment in self._segments.values())
        used = sum(segment.used for segment in self._segments.values())
        _expect(len(seen) == total, f"{total} slots exist, {len(seen)} are free or used")
        _expect(used == sum(len(shelf.used) for shelf in self._shelves), "the segments' counts of used slots add up")
        size = sum(segment.size_bytes for segment in self._segments.values())
        _expect(
            size == self.total_bytes <= self._config.total_bytes, f"{size} bytes are within {self._config.total_bytes}"
        )

    def _grow(self, shelf: _Shelf, now: float) -> None:
        size = segment_bytes(shelf.size_class)
        if now < self._retry_at or self.total_bytes + size > self._config.total_bytes:
            return
        try:
            descriptor, memory = create_memory("trilith-segment", size)
        except (OSError, AttributeError):  # no room, no descriptors, or a system without memfd: the frame carries it
            self._retry_at = now + self._config.retry_s
            return
        segment = Segment(self._next_index, shelf.size_class, memory)
        if not self._announce(segment, descriptor):
            segment.close()
            return
        self._next_index += 1
        self._segments[segment.index] = segment
        self.total_bytes += size
        shelf.free.extend(_Slot(segment, slot) for slot in reversed(range(shelf.size_class.slots)))

    def _give_back(self, segment: Segment) -> None:
        for shelf in self._shelves:
            if shelf.size_class is segment.size_class:
                shelf.free = [slot for slot in shelf.free if slot.segment is not segment]
        del self._segments[segment.index]
        self.total_bytes -= segment.size_bytes
        segment.close()
        self._retire(segment.index)


def segment_bytes(size_class: SizeClass) -> int:
    """What a segment of that class occupies, with its header."""
    return SEGMENT_HEADER_BYTES + size_class.slot_bytes * size_class.slots


def _expect(condition: bool, what: str) -> None:
    if not condition:
        raise AssertionError(f"shared memory is not in order: expected that {what}")
