"""Slots: each is free or used, none is freed while a view lives, and every one comes back."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import resource
import threading

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from trilith.net.transport.config import KIB, SharedMemoryConfig, SizeClass
from trilith.net.transport.descriptors import create_memory, map_memory
from trilith.net.transport.mapped_segments import MappedSegments
from trilith.net.transport.shared_memory import SEGMENT_HEADER_BYTES, Segment, SegmentPool
from trilith.wire.frames import MalformedFrame, SharedPart

CONFIG = SharedMemoryConfig(
    threshold_bytes=1,
    total_bytes=200 * KIB,
    idle_s=10.0,
    size_classes=(SizeClass(slot_bytes=4 * KIB, slots=4), SizeClass(slot_bytes=16 * KIB, slots=2)),
)


class Linked:
    """A sending and a receiving side without a socket between them."""

    def __init__(self, config: SharedMemoryConfig = CONFIG) -> None:
        self.mapped = MappedSegments(config.max_mapped_bytes)
        self.pool = SegmentPool(config, self._announce, self.mapped.remove)
        self.may_announce = True

    def _announce(self, segment: Segment, descriptor: int) -> bool:
        if not self.may_announce:
            os.close(descriptor)
            return False
        size_class = segment.size_class
        self.mapped.add(segment.index, descriptor, slots=size_class.slots, slot_bytes=size_class.slot_bytes)
        return True

    def send(self, content: bytes, now: float = 0.0) -> memoryview | None:
        part = self.pool.store(content, now)
        return None if part is None else self.mapped.view(part)

    def used(self) -> int:
        self.pool.check_integrity()
        return self.pool.counts()[2]


class SlotLives(RuleBasedStateMachine):
    """Messages are sent, kept as they are or as arrays, and dropped, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.linked = Linked()
        self.kept: list[tuple[bytes, object]] = []
        self.now = 0.0

    @rule(size=st.integers(1, 16 * KIB), fill=st.integers(0, 255), as_array=st.booleans())
    def send(self, size: int, fill: int, as_array: bool) -> None:
        content = bytes([fill]) * size
        view = self.linked.send(content, self.now)
        if view is not None:
            self.kept.append((content, np.frombuffer(view, np.uint8)[:] if as_array else view[:]))

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        self.kept.pop(data.draw(st.integers(0, len(self.kept) - 1)))

    @rule(seconds=st.floats(0, 20))
    def trim(self, seconds: float) -> None:
        self.now += seconds
        self.linked.pool.trim(self.now)

    @invariant()
    def slots_add_up_and_nothing_is_overwritten(self) -> None:
        assert self.linked.used() == len(self.kept)
        assert all(bytes(kept) == content for content, kept in self.kept)
        assert self.linked.mapped.total_bytes == self.linked.pool.total_bytes <= CONFIG.total_bytes

    def teardown(self) -> None:
        self.kept.clear()
        assert self.linked.used() == 0
        self.linked.pool.trim(self.now + CONFIG.idle_s + 1.0)
        assert self.linked.pool.counts() == (0, 0, 0)
        self.linked.pool.close()
        self.linked.mapped.close()


TestSlotLives = SlotLives.TestCase
TestSlotLives.settings = settings(max_examples=40, stateful_step_count=40)


def test_full_is_not_an_error_and_room_comes_back():
    linked = Linked()
    kept = [linked.send(b"x" * 16 * KIB) for _ in range(20)]
    assert kept.count(None) > 0
    room = 20 - kept.count(None)
    kept.clear()
    again = [linked.send(b"x" * 16 * KIB) for _ in range(20)]
    assert 20 - again.count(None) == room


def test_what_is_larger_than_every_slot_does_not_fit():
    assert Linked().send(b"x" * (16 * KIB + 1)) is None


def test_one_message_at_a_time_uses_one_slot_over_and_over():
    linked = Linked()
    parts = set()
    for _ in range(10):
        part = linked.pool.store(b"x", 0.0)
        linked.mapped.view(part)  # and dies at once
        parts.add((part.segment, part.slot))
    assert len(parts) == 1


@pytest.mark.parametrize("failing", ["memfd_create", "posix_fallocate"])
def test_a_system_without_room_is_asked_again_later(monkeypatch, failing):
    linked, asked = Linked(), []

    def refuse(*arguments):
        asked.append(arguments)
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(os, failing, refuse)
        assert [linked.send(b"x", now=now) for now in (0.0, 0.5, 1.5)] == [None, None, None]
    assert len(asked) == 2
    assert linked.send(b"x", now=2.6) is not None


def test_a_segment_that_cannot_be_announced_is_not_used():
    linked = Linked()
    linked.may_announce = False
    assert linked.send(b"x") is None
    assert linked.used() == 0
    linked.may_announce = True
    assert linked.send(b"x") is not None


def test_a_slot_whose_frame_was_not_sent_is_taken_back():
    linked = Linked()
    part = linked.pool.store(b"x", 0.0)
    linked.pool.take_back(part)
    assert linked.used() == 0


def test_an_array_of_an_array_keeps_the_slot():
    linked = Linked()
    view = linked.send(np.arange(1000, dtype=np.float32).tobytes())
    part_of_it = np.frombuffer(view, np.float32).reshape(10, 100)[3, ::2]
    del view
    gc.collect()
    assert linked.used() == 1
    assert part_of_it[1] == 302.0
    del part_of_it
    assert linked.used() == 0


def test_a_view_in_a_cycle_is_freed_by_the_collector():
    linked = Linked()
    cycle: list[object] = [linked.send(b"x")]
    cycle.append(cycle)
    del cycle
    assert linked.used() == 1
    gc.collect()
    assert linked.used() == 0


def test_views_may_die_in_other_threads():
    linked = Linked()
    views = [linked.send(b"x" * 4 * KIB) for _ in range(12)]
    piles = [[views.pop() for _ in range(4)] for _ in range(3)]
    threads = [threading.Thread(target=pile.clear) for pile in piles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert linked.used() == 0


def test_views_outlive_the_connection():
    linked = Linked()
    view = linked.send(b"still here")
    linked.pool.close()
    linked.mapped.close()
    gc.collect()
    assert bytes(view) == b"still here"
    del view


def test_shared_views_are_writable():
    view = Linked().send(b"abc")
    view[0] = ord("x")
    assert bytes(view) == b"xbc"


@pytest.mark.parametrize("part", [SharedPart(9, 0, 1), SharedPart(0, 4, 1), SharedPart(0, 0, 4 * KIB + 1)])
def test_places_outside_a_segment_are_refused(part):
    linked = Linked()
    linked.send(b"x")
    with pytest.raises(MalformedFrame):
        linked.mapped.view(part)


def test_a_slot_sent_twice_while_it_is_read_is_refused():
    linked = Linked()
    kept = linked.send(b"x")
    with pytest.raises(MalformedFrame, match="still read"):
        linked.mapped.view(SharedPart(0, 0, 1))
    del kept


def test_announcements_are_checked_and_descriptors_closed():
    size = SEGMENT_HEADER_BYTES + 4096
    plain = os.memfd_create("unsealed", os.MFD_ALLOW_SEALING)
    os.ftruncate(plain, size)
    sealed = [create_memory("sealed", size) for _ in range(5)]
    mapped = MappedSegments(max_bytes=size)
    attempts = [
        (plain, 1, 4096, "sealed against shrinking"),
        (sealed[0][0], 2, 4096, "over"),
        (sealed[1][0], 0, 4096, "0 slots"),
        (sealed[2][0], 1, 100, "of 100 bytes"),
        (sealed[3][0], 1, 0, "of 0 bytes"),
    ]
    for descriptor, slots, slot_bytes, says in attempts:
        with pytest.raises(MalformedFrame, match=says):
            mapped.add(0, descriptor, slots=slots, slot_bytes=slot_bytes)
    mapped.add(0, sealed[4][0], slots=1, slot_bytes=4096)
    for index, says in ((0, "twice"), (1, "over")):
        descriptor, _ = create_memory("another", size)
        with pytest.raises(MalformedFrame, match=says):
            mapped.add(index, descriptor, slots=1, slot_bytes=4096)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
    with pytest.raises(MalformedFrame, match="retire"):
        mapped.remove(7)
    mapped.close()


def test_a_pipe_is_no_segment():
    reading, writing = os.pipe()
    os.close(writing)
    with pytest.raises(MalformedFrame):
        map_memory(reading, 4096)
    os.close(reading)


@pytest.fixture
def no_descriptors():
    """This process can open no more files while the block runs; those that it has stay open."""

    @contextlib.contextmanager
    def none_left():
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    return none_left


def test_a_segment_that_cannot_be_mapped_is_read_through_its_descriptor(no_descriptors, caplog):
    linked = Linked()
    announce = linked.mapped.add

    def without_descriptors(*args, **named):
        with no_descriptors():
            announce(*args, **named)

    linked.mapped.add = without_descriptors
    with no_descriptors(), pytest.raises(OSError, match="Too many"):
        os.dup(0)
    for number in range(20):  # more than there are slots: each is given back
        content = bytes([number]) * 4000
        part = linked.pool.store(content, 0.0)
        with no_descriptors():
            view = linked.mapped.view(part)
        assert (bytes(view), view.readonly) == (content, False)
        assert linked.used() == 0
    assert linked.pool.counts()[0] == 1
    assert caplog.text.count("cannot be mapped") == 1
    for part in (SharedPart(0, 4, 1), SharedPart(0, 0, 4097)):
        with pytest.raises(MalformedFrame, match="outside"):
            linked.mapped.view(part)
    [segment] = linked.mapped._segments.values()
    linked.mapped.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(segment._descriptor)


def test_a_segment_that_is_not_what_it_says_is_refused_though_it_cannot_be_mapped(no_descriptors):
    descriptor, memory = create_memory("sealed", 4096)
    with no_descriptors(), pytest.raises(MalformedFrame, match="expected a shared segment of"):
        MappedSegments(1 << 20).add(0, descriptor, slots=1, slot_bytes=4096)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    memory.close()


def test_a_sealed_segment_cannot_be_shrunk():
    descriptor, _ = create_memory("sealed", 4096)
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 0)
    os.close(descriptor)
