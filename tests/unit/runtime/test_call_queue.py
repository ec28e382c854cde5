"""The queue of batched methods and the halves of a failed batch, against random histories."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from trilith.errors import QueueFull
from trilith.runtime import CallQueue, Halves, QueuedCall
from trilith.runtime.schedule.linger import SHARE


def queue_of(**numbers):
    return CallQueue("Reader.read", **{"max_size": 3, "max_wait_s": 0.0, "max_waiting": 5, **numbers})


def none_free():
    return 0


def fill(queue, count, now=0.0):
    calls = [QueuedCall() for _ in range(count)]
    for call in calls:
        queue.add(call, now, free=none_free, bounded=False)
    return calls


def test_what_a_free_place_takes_at_once_does_not_count_as_waiting():
    queue = queue_of(max_waiting=1)
    fill(queue, 3)
    with pytest.raises(QueueFull, match=r"1 calls of Reader.read wait already, which is its limit; try again later"):
        queue.add(QueuedCall(), 0.0, free=none_free, bounded=True)
    queue.add(QueuedCall(), 0.0, free=lambda: 1, bounded=True)
    with pytest.raises(QueueFull):
        queue.add(QueuedCall(), 0.0, free=lambda: 1, bounded=True)
    queue.add(QueuedCall(), 0.0, free=lambda: 2, bounded=True)
    assert len(queue) == 5


def test_free_places_are_counted_only_when_the_queue_seems_full():
    queue = queue_of(max_waiting=1)
    queue.add(QueuedCall(), 0.0, free=lambda: pytest.fail("counted"), bounded=True)


def test_a_call_that_was_accepted_is_queued_again_beyond_the_bound():
    queue = queue_of(max_waiting=1)
    fill(queue, 4)
    assert len(queue) == 4


def test_the_last_caller_who_goes_stops_the_batch():
    queue = queue_of()
    first, second = fill(queue, 2)
    batch = queue.leave(0.0)
    assert queue.withdraw(first) is None
    assert batch.live == [second]
    assert queue.withdraw(first) is None, "once is enough"
    assert queue.withdraw(second) is batch
    assert queue.withdraw(second) is None


def test_nobody_withdraws_what_is_over():
    queue = queue_of()
    [call] = fill(queue, 1)
    batch = queue.leave(0.0)
    queue.over(batch)
    assert queue.withdraw(call) is None
    assert batch.wanted == 1


def test_a_batch_that_is_full_by_what_it_carries_leaves_before_its_window_closes():
    queue = queue_of(max_wait_s=9.0, max_bulk=4)
    calls = [QueuedCall(bulk) for bulk in (1, 2, 3, 9)]
    for call in calls[:2]:
        queue.add(call, 0.0, free=none_free, bounded=True)
    assert not queue.is_ready(0.0)
    for call in calls[2:]:
        queue.add(call, 0.0, free=none_free, bounded=True)
    assert [queue.leave(0.0).calls for _ in range(3)] == [calls[:2], calls[2:3], calls[3:]], (
        "the last is alone too much"
    )


class CallQueueMachine(RuleBasedStateMachine):
    """Places that run batches, callers who come and go, and time."""

    @initialize(
        max_size=st.integers(1, 4),
        max_wait_s=st.sampled_from([0.0, 1.0]),
        max_waiting=st.integers(1, 6),
        places=st.integers(0, 3),
        max_bulk=st.sampled_from([0, 4]),
    )
    def begin(self, max_size, max_wait_s, max_waiting, places, max_bulk):
        self.queue = queue_of(max_size=max_size, max_wait_s=max_wait_s, max_waiting=max_waiting, max_bulk=max_bulk)
        self.max_bulk = max_bulk
        self.max_size, self.max_wait_s, self.max_waiting, self.places = max_size, max_wait_s, max_waiting, places
        self.now = 0.0
        self.waiting = []  # (call, when it came), oldest first
        self.running = []
        self.stopped = []
        self.calls = []

    def free(self):
        return self.places - len(self.running)

    def pump(self):
        """What both doers do whenever something changed."""
        while self.queue.is_ready(self.now) and self.free() > 0:
            batch = self.queue.leave(self.now)
            assert batch is not None
            gone, self.waiting = self.waiting[: len(batch.calls)], self.waiting[len(batch.calls) :]
            assert batch.calls == [call for call, _ in gone], "first in, first out"
            assert len(batch.calls) <= self.max_size
            bulk = sum(call.bulk for call in batch.calls)
            assert not self.max_bulk or bulk <= self.max_bulk or len(batch.calls) == 1
            full = len(batch.calls) == self.max_size or 0 < self.max_bulk <= bulk
            full = full or bool(self.waiting and 0 < self.max_bulk < bulk + self.waiting[0][0].bulk)
            assert full or not self.waiting, "what could go together went together"
            assert full or gone[0][1] + self.max_wait_s <= self.now, "no batch leaves before its window closes"
            self.running.append(batch)

    @rule(again=st.booleans(), bulk=st.integers(0, 5))
    def call(self, again, bulk):
        call = QueuedCall(bulk)
        try:
            self.queue.add(call, self.now, free=self.free, bounded=not again)
        except QueueFull:
            assert not again
            assert len(self.waiting) >= self.max_waiting
            assert len(self.waiting) >= self.max_size * self.free(), "nobody is refused beside a place that could"
            return
        assert again or len(self.waiting) < self.max_waiting + self.max_size * max(0, self.free())
        self.waiting.append((call, self.now))
        self.calls.append(call)
        self.pump()

    @rule(passed_s=st.sampled_from([0.25, 0.5, 1.0]))
    def wait(self, passed_s):
        """A timer at `next_window_end` is all that a doer needs: nothing leaves earlier."""
        until = self.now + passed_s
        while (due := self.queue.next_window_end()) is not None and due <= until:
            assert due >= self.now
            self.now = due
            before = len(self.waiting)
            self.pump()
            if len(self.waiting) == before:
                break  # no place is free: the next that is comes back
        self.now = until
        self.pump()

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def answer(self, data):
        batch = data.draw(st.sampled_from(self.running))
        self.running.remove(batch)
        self.queue.over(batch)
        assert batch.live == []
        self.pump()

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def leave(self, data):
        call = data.draw(st.sampled_from(self.calls))
        batch = next((batch for batch in self.running if call in batch.live), None)
        last = batch is not None and batch.live == [call]
        waits = call in [one for one, _ in self.waiting]
        assert self.queue.withdraw(call) is (batch if last else None)
        self.waiting = [(one, came) for one, came in self.waiting if one is not call]
        if last:
            assert batch not in self.stopped, "a batch is stopped once"
            self.stopped.append(batch)
        assert not (waits and batch)

    @rule()
    def more_places(self):
        self.places += 1
        self.pump()

    @precondition(lambda self: self.waiting)
    @rule()
    def clear(self):
        assert self.queue.clear() == [call for call, _ in self.waiting]
        self.waiting = []

    @invariant()
    def nothing_waits_beside_a_free_place_for_longer_than_it_may(self):
        assert len(self.queue) == len(self.waiting)
        self.queue.check_integrity()
        if self.waiting and self.free() > 0:
            assert not self.queue.is_ready(self.now)
            assert len(self.waiting) < self.max_size
            assert self.queue.next_window_end() == self.waiting[0][1] + self.max_wait_s > self.now

    @invariant()
    def a_batch_counts_who_waits_for_it(self):
        for batch in self.running:
            assert batch.wanted == len(batch.live)


TestCallQueue = CallQueueMachine.TestCase
TestCallQueue.settings = settings(stateful_step_count=30, deadline=None)


@given(st.integers(0, 40), st.booleans(), st.sets(st.integers(0, 39)))
def test_halves(size, repeatable, poison):
    """Runs that fail when one of their items is bad: each item is answered once, alone guilty when it may run twice."""
    poison = {item for item in poison if item < size}
    outcomes, runs = [], 0
    halves = Halves(size, repeatable=repeatable)
    for first, past in halves:
        runs += 1
        assert 0 <= first < past <= size
        bad = poison.intersection(range(first, past))
        if bad and halves.split():
            continue
        assert first == len(outcomes), "in order, none left out, none twice"
        outcomes += [not bad] * (past - first)
    assert len(outcomes) == size
    if repeatable:
        assert outcomes == [item not in poison for item in range(size)]
        assert runs <= 1 + 2 * len(poison) * math.ceil(math.log2(size or 1))
    else:
        assert runs == min(size, 1)
        assert outcomes == [not poison] * size


def test_a_queue_without_a_window_holds_for_those_who_were_answered():
    held = queue_of(max_size=8, max_wait_s=None)
    fill(held, 1)
    batch = held.leave(0.0)
    fill(held, 1, 0.001)
    held.over(batch, 0.1)
    assert 0.1 < held.held_until(0.1) <= 0.1 * (1.0 + SHARE) + 1e-9
    fill(held, 1, 0.11)  # whose call was answered
    assert held.held_until(0.11) == 0.11
    assert len(held.leave(0.11).calls) == 2


@pytest.mark.parametrize("max_wait_s", [0.0, 0.5])
def test_a_queue_with_a_window_of_its_own_holds_for_nobody(max_wait_s):
    plain = queue_of(max_size=8, max_wait_s=max_wait_s)
    fill(plain, 1)
    plain.over(plain.leave(1.0), 1.1)
    fill(plain, 1, 1.1)
    assert plain.held_until(1.1) == 1.1
