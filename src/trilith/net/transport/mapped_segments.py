"""The receiving side of shared memory: views that give their slot back when the last of them dies.

Rule 1: nothing that the other side says is believed: sizes, seals, slots and offsets are checked here.
Rule 2: a buffer is handed out as a view over a `ctypes` array that lies on the mapping. Slices, casts and numpy arrays
        made of it keep that array alive, and its weak reference's callback is one store of one byte: it may run in any
        thread and in the middle of a collection.
Rule 3: dropping a segment here does not unmap it under living views; they hold the mapping.
Rule 4: a segment that cannot be mapped here is read through its descriptor. That costs a copy, and nobody his answer.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from collections.abc import Callable
from functools import partial
from typing import Final

from trilith.net.transport.descriptors import map_memory
from trilith.net.transport.owner import LOG
from trilith.net.transport.shared_memory import MAX_SLOTS, SEGMENT_HEADER_BYTES, STATE_STRIDE_BYTES
from trilith.wire.frames import MalformedFrame, SharedPart

MAX_SEGMENTS: Final = 4096
_FREE: Final = b"\0"

_Array = ctypes.Array[ctypes.c_ubyte]
_References = list["weakref.ref[_Array] | None"]


class _MappedSegment:
    def __init__(self, memory: mmap.mmap, slots: int, slot_bytes: int) -> None:
        self.memory = memory
        self.slots = slots
        self.slot_bytes = slot_bytes
        self.size_bytes = SEGMENT_HEADER_BYTES + slots * slot_bytes
        self._array_type = ctypes.c_ubyte * slot_bytes  # one type a segment: making a ctypes type costs microseconds
        self._references: _References = [None] * slots
        states = memoryview(memory)[:SEGMENT_HEADER_BYTES]
        self._release: list[Callable[[weakref.ref[_Array]], None]] = [
            partial(_release, states, self._references, slot) for slot in range(slots)
        ]

    def view(self, slot: int, size: int) -> memoryview:
        _check_place(self, slot, size)
        if self._references[slot] is not None:
            raise MalformedFrame(f"slot {slot} was sent again while it is still read here")
        array = self._array_type.from_buffer(self.memory, SEGMENT_HEADER_BYTES + slot * self.slot_bytes)
        self._references[slot] = weakref.ref(array, self._release[slot])
        return memoryview(array).cast("B")[:size]

    def drop(self) -> None:
        # Without references there are no callbacks; whoever still reads keeps the mapping through its array.
        self._references[:] = [None] * self.slots
        self._release.clear()


class _ReadSegment:
    """A segment that there is no room to map: what is in it is copied out, and the slot is given back at once."""

    def __init__(self, descriptor: int, slots: int, slot_bytes: int) -> None:
        self.slots = slots
        self.slot_bytes = slot_bytes
        self.size_bytes = SEGMENT_HEADER_BYTES + slots * slot_bytes
        self._descriptor = descriptor

    def view(self, slot: int, size: int) -> memoryview:
        _check_place(self, slot, size)
        start = SEGMENT_HEADER_BYTES + slot * self.slot_bytes
        try:
            copy = memoryview(bytearray(size))
            done = 0
            while done < size:
                done += os.preadv(self._descriptor, [copy[done:]], start + done)
            os.pwrite(self._descriptor, _FREE, slot * STATE_STRIDE_BYTES)
        except (OSError, MemoryError) as error:
            raise MalformedFrame(f"{size} bytes of a shared segment cannot be read: {error}") from error
        return copy

    def drop(self) -> None:
        os.close(self._descriptor)


def _check_place(segment: _MappedSegment | _ReadSegment, slot: int, size: int) -> None:
    if slot >= segment.slots or size > segment.slot_bytes:
        raise MalformedFrame(
            f"{size} bytes in slot {slot} lie outside a segment of {segment.slots} slots of {segment.slot_bytes} bytes"
        )


def _release(states: memoryview, references: _References, slot: int, _: weakref.ref[_Array]) -> None:
    references[slot] = None  # before the store: after it the other side may fill and send the slot again
    states[slot * STATE_STRIDE_BYTES] = 0


def _received(descriptor: int, slots: int, slot_bytes: int, size: int) -> _MappedSegment | _ReadSegment:
    try:
        memory = map_memory(descriptor, size)
    except OSError as error:
        LOG.warning("a shared segment of %d bytes cannot be mapped: %s; what comes in it is copied", size, error)
        return _ReadSegment(descriptor, slots, slot_bytes)
    except MalformedFrame:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return _MappedSegment(memory, slots, slot_bytes)


class MappedSegments:
    """The segments that the other side announced.

    Args:
        max_bytes: bound on all of them together.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._segments: dict[int, _MappedSegment | _ReadSegment] = {}
        self.total_bytes = 0

    def add(self, index: int, descriptor: int, *, slots: int, slot_bytes: int) -> None:
        """Maps a new segment; the descriptor is this object's to close.

        Raises:
            MalformedFrame: it is not what was announced, or over the bound.
        """
        size = SEGMENT_HEADER_BYTES + slots * slot_bytes
        problem = self._problem(index, slots, slot_bytes, size)
        if problem is not None:
            os.close(descriptor)
            raise MalformedFrame(problem)
        self._segments[index] = _received(descriptor, slots, slot_bytes, size)
        self.total_bytes += size

    def _problem(self, index: int, slots: int, slot_bytes: int, size: int) -> str | None:
        if not 0 < slots <= MAX_SLOTS or slot_bytes <= 0 or slot_bytes % mmap.PAGESIZE:
            return f"a shared segment cannot have {slots} slots of {slot_bytes} bytes"
        if index in self._segments:
            return f"shared segment {index} was announced twice"
        if len(self._segments) >= MAX_SEGMENTS or self.total_bytes + size > self._max_bytes:
            return f"shared segment {index} of {size} bytes is over {self._max_bytes} bytes or {MAX_SEGMENTS} segments"
        return None

    def view(self, part: SharedPart) -> memoryview:
        """The bytes of a shared part, writable; the slot is given back when the last view of them dies.

        Raises:
            MalformedFrame: there is no such place.
        """
        segment = self._segments.get(part.segment)
        if segment is None:
            raise MalformedFrame(f"there is no shared segment {part.segment}")
        return segment.view(part.slot, part.size)

    def remove(self, index: int) -> None:
        """Forgets a segment that the other side retired.

        Raises:
            MalformedFrame: there is no such segment.
        """
        segment = self._segments.pop(index, None)
        if segment is None:
            raise MalformedFrame(f"there is no shared segment {index} to retire")
        self.total_bytes -= segment.size_bytes
        segment.drop()

    def close(self) -> None:
        """Forgets all of them."""
        for segment in self._segments.values():
            segment.drop()
        self._segments.clear()
        self.total_bytes = 0
