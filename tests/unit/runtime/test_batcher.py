"""The dynamic batcher: rules one at a time, then all of them against random histories."""

import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from trilith.errors import Draining, InvalidConfig, InvalidInput, QueueFull
from trilith.runtime import BatchingConfig, DynamicBatcher, Waiting


def batcher_of(**numbers):
    return DynamicBatcher(BatchingConfig(**{"max_batch_size": 4, **numbers}), name="model 'm'")


def fill(batcher, *items, now=0.0):
    for item in items:
        batcher.add(item, now)
    return items


def test_whatever_waits_leaves_at_once_without_a_window():
    batcher = batcher_of()
    a, b = fill(batcher, Waiting(), Waiting(rows=2))
    assert batcher.next_batch(0.0) == [a, b]
    assert batcher.next_batch(0.0) == []


def test_a_batch_is_cut_at_the_maximum():
    batcher = batcher_of()
    items = fill(batcher, *(Waiting(rows=2) for _ in range(3)))
    assert batcher.next_batch(0.0) == list(items[:2])
    assert batcher.next_batch(0.0) == [items[2]]


def test_a_waiting_batch_is_topped_up_until_it_starts():
    batcher = batcher_of(max_wait_s=1.0)
    (a,) = fill(batcher, Waiting())
    assert batcher.next_batch(0.5) == []
    (b,) = fill(batcher, Waiting(), now=0.9)
    assert batcher.next_batch(1.0) == [a, b]


def test_a_window_never_holds_a_full_batch():
    batcher = batcher_of(max_wait_s=1.0)
    items = fill(batcher, *(Waiting() for _ in range(5)))
    assert batcher.is_ready(0.0)
    assert batcher.next_batch(0.0) == list(items[:4])
    assert batcher.next_batch(0.0) == []
    assert batcher.next_window_end() == 1.0
    assert batcher.next_batch(1.0) == [items[4]]


def test_a_request_that_does_not_fit_the_rest_closes_the_batch():
    batcher = batcher_of(max_wait_s=1.0)
    a, b = fill(batcher, Waiting(rows=3), Waiting(rows=3))
    assert batcher.next_batch(0.0) == [a]
    assert batcher.next_batch(0.0) == []
    assert batcher.next_batch(1.0) == [b]


def test_shapes_do_not_block_each_other():
    batcher = batcher_of()
    a, b, c = fill(batcher, Waiting(shape=1), Waiting(shape=2), Waiting(shape=1))
    assert batcher.next_batch(0.0) == [a, c]
    assert batcher.next_batch(0.0) == [b]


def test_a_full_shape_passes_one_whose_window_is_open():
    batcher = batcher_of(max_wait_s=1.0)
    (a,) = fill(batcher, Waiting(shape=1))
    full = fill(batcher, *(Waiting(shape=2) for _ in range(4)))
    assert batcher.next_batch(0.0) == list(full)
    assert batcher.next_batch(0.0) == []
    assert batcher.next_batch(1.0) == [a]


def test_smaller_priorities_go_first_and_are_topped_up_with_others():
    batcher = batcher_of()
    low, high, other = fill(batcher, Waiting(priority=5), Waiting(priority=1), Waiting(priority=5))
    assert batcher.next_batch(0.0) == [high, low, other]


def test_priority_chooses_among_shapes():
    batcher = batcher_of()
    low, high = fill(batcher, Waiting(priority=5, shape=1), Waiting(priority=1, shape=2))
    assert batcher.next_batch(0.0) == [high]
    assert batcher.next_batch(0.0) == [low]


def test_a_preferred_size_leaves_at_once_and_cuts_the_batch():
    batcher = batcher_of(max_batch_size=8, preferred_rows=(2, 4), max_wait_s=1.0)
    items = fill(batcher, *(Waiting() for _ in range(7)))
    assert batcher.next_batch(0.0) == list(items[:4])
    assert batcher.next_batch(0.0) == list(items[4:6])
    assert batcher.next_batch(0.0) == []
    assert batcher.next_batch(1.0) == [items[6]]


def test_a_request_larger_than_a_preferred_size_still_goes():
    batcher = batcher_of(max_batch_size=8, preferred_rows=(2,), max_wait_s=1.0)
    (big,) = fill(batcher, Waiting(rows=5))
    assert batcher.next_batch(0.0) == [big]


def test_deadlines_end_the_waiting_at_once():
    batcher = batcher_of(max_wait_s=10.0)
    soon, late = fill(batcher, Waiting(deadline=1.0), Waiting(deadline=5.0))
    assert batcher.expire(0.9) == []
    assert batcher.expire(1.0) == [soon]
    assert batcher.expire(1.0) == []
    assert batcher.next_batch(5.0) == []
    assert batcher.has_expired
    assert batcher.expire(5.0) == [late]
    assert len(batcher) == batcher.waiting_rows == 0


def test_the_late_go_behind_the_others_of_their_priority():
    batcher = batcher_of(max_batch_size=1)
    late, low, high, other = fill(
        batcher, Waiting(priority=2, delay_at=1.0), Waiting(priority=3), Waiting(priority=1), Waiting(priority=2)
    )
    assert batcher.is_ready(1.0)
    assert [batcher.next_batch(1.0) for _ in range(4)] == [[high], [other], [late], [low]]
    assert batcher.statistics().delayed == 1
    batcher.check_integrity()


def test_a_late_one_of_another_shape_does_not_hold_up_a_timely_one():
    batcher = batcher_of()
    late, timely = fill(batcher, Waiting(shape=1, delay_at=1.0), Waiting(shape=2))
    assert [batcher.next_batch(2.0), batcher.next_batch(2.0)] == [[timely], [late]]


def test_priorities_may_be_bounded_one_by_one():
    batcher = batcher_of(level_queue_size=2, level_queue_sizes={1: 1, 3: 0})
    fill(batcher, Waiting(priority=1), Waiting(priority=2), Waiting(priority=2), *(Waiting(priority=3),) * 1)
    for full in (1, 2):
        with pytest.raises(QueueFull, match=f"requests of priority {full} waiting"):
            batcher.add(Waiting(priority=full), 0.0)
    fill(batcher, Waiting(priority=3), Waiting(priority=3))
    batcher.next_batch(0.0)
    fill(batcher, Waiting(priority=1))


def test_the_next_deadline_is_that_of_what_waits():
    batcher = batcher_of()
    assert batcher.next_deadline() is None
    soon, _ = fill(batcher, Waiting(deadline=1.0), Waiting(deadline=2.0))
    assert batcher.next_deadline() == 1.0
    batcher.cancel(soon)
    assert batcher.next_deadline() == 2.0


def test_the_expired_make_room():
    batcher = batcher_of(max_batch_size=1, max_queue_rows=1)
    (dead,) = fill(batcher, Waiting(deadline=1.0))
    fill(batcher, Waiting(), now=1.0)
    assert batcher.expire(1.0) == [dead]


@pytest.mark.parametrize("numbers", [{"max_queue_rows": 4}, {"max_queue_size": 2}])
def test_the_queue_is_bounded(numbers):
    batcher = batcher_of(**numbers)
    fill(batcher, Waiting(rows=2), Waiting(rows=2))
    with pytest.raises(QueueFull, match="Exceeds maximum queue size: model 'm'"):
        batcher.add(Waiting(), 0.0)
    assert batcher.statistics().refused == 1


@pytest.mark.parametrize("rows", [0, 5])
def test_rows_that_fit_no_batch_are_refused(rows):
    with pytest.raises(InvalidInput, match=r"1 to 4 rows"):
        batcher_of().add(Waiting(rows=rows), 0.0)


def test_cancelled_items_leave_no_trace():
    batcher = batcher_of()
    a, b = fill(batcher, Waiting(), Waiting())
    assert batcher.cancel(a)
    assert not batcher.cancel(a)
    assert batcher.next_batch(0.0) == [b]
    assert not batcher.cancel(b)
    batcher.check_integrity()


def test_draining_opens_every_window_and_refuses_the_new():
    batcher = batcher_of(max_wait_s=9.0)
    a, b = fill(batcher, Waiting(shape=1), Waiting(shape=2))
    batcher.drain()
    with pytest.raises(Draining):
        batcher.add(Waiting(), 0.0)
    assert batcher.next_window_end() is None
    assert [batcher.next_batch(0.0), batcher.next_batch(0.0)] == [[a], [b]]


def test_clear_gives_everything_oldest_first():
    batcher = batcher_of()
    items = fill(batcher, Waiting(shape=1, priority=9), Waiting(shape=2), Waiting(shape=1, priority=1))
    assert batcher.clear() == list(items)
    batcher.check_integrity()


def test_an_item_may_wait_again_after_it_left():
    batcher = batcher_of()
    (item,) = fill(batcher, Waiting(deadline=5.0))
    batcher.cancel(item)
    batcher.add(item, 1.0)
    assert batcher.next_batch(1.0) == [item]
    assert batcher.expire(9.0) == []


def test_waiting_again_opens_a_new_window():
    batcher = batcher_of(max_wait_s=1.0)
    (item,) = fill(batcher, Waiting())
    assert batcher.next_batch(1.0) == [item]
    batcher.add(item, 2.0)
    assert batcher.next_batch(2.5) == []
    batcher.check_integrity()
    assert batcher.next_batch(3.0) == [item]


def test_it_shows_itself():
    batcher = batcher_of()
    fill(batcher, Waiting(rows=2), Waiting(shape=1))
    assert repr(batcher) == "<DynamicBatcher model 'm': 2 waiting, 3 rows, 2 lanes>"
    assert (batcher.waiting_rows, batcher.draining) == (3, False)


def test_stale_heap_entries_are_swept():
    batcher = batcher_of(max_batch_size=1, max_queue_rows=10)
    fill(batcher, Waiting(priority=1))
    for _ in range(5000):
        (item,) = fill(batcher, Waiting(shape="other", priority=2, deadline=1e9))
        batcher.cancel(item)
    assert len(batcher._ready) < 200
    assert len(batcher._deadlines) < 200
    batcher.check_integrity()


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ({"max_batch_size": 0}, "max_batch_size"),
        ({"max_wait_s": -1.0}, "max_wait_s"),
        ({"max_wait_s": math.inf}, "max_wait_s"),
        ({"max_queue_rows": 3}, "max_queue_rows"),
        ({"max_queue_size": -1}, "max_queue_size"),
        ({"level_queue_sizes": {1: -1}}, "max_queue_size"),
        ({"preferred_rows": (5,)}, "preferred_rows"),
    ],
)
def test_wrong_numbers_are_refused(numbers, says):
    with pytest.raises(InvalidConfig, match=says):
        batcher_of(**numbers)


class History(RuleBasedStateMachine):
    """A batcher beside a plain list of what should wait."""

    @initialize(
        max_batch_size=st.integers(1, 6),
        window=st.sampled_from([0.0, 0.0, 2.0]),
        preferred=st.lists(st.integers(1, 6), max_size=2),
        items=st.sampled_from([0, 7]),
        level=st.sampled_from([0, 3]),
        levels=st.dictionaries(st.integers(1, 3), st.integers(0, 4), max_size=2),
    )
    def begin(self, max_batch_size, window, preferred, items, level, levels):
        self.now = 0.0
        self.waiting = []
        self.gone = set()
        self.config = BatchingConfig(
            max_batch_size=max_batch_size,
            max_wait_s=window,
            preferred_rows=tuple(size for size in preferred if size <= max_batch_size),
            max_queue_rows=12,
            max_queue_size=items,
            level_queue_size=level,
            level_queue_sizes=levels,
        )
        self.batcher = DynamicBatcher(self.config)

    def leave(self, item):
        assert item in self.waiting, "lost or doubled"
        assert item not in self.gone
        self.waiting.remove(item)
        self.gone.add(item)

    @rule(
        rows=st.integers(1, 6),
        shape=st.integers(0, 2),
        priority=st.integers(1, 3),
        wait=st.none() | st.floats(0.1, 5.0),
        patience=st.none() | st.floats(0.1, 3.0),
    )
    def add(self, rows, shape, priority, wait, patience):
        deadline = None if wait is None else self.now + wait
        delay_at = None if patience is None else self.now + patience
        item = Waiting(rows=rows, shape=shape, priority=priority, deadline=deadline, delay_at=delay_at)
        try:
            self.batcher.add(item, self.now)
        except InvalidInput:
            assert rows > self.config.max_batch_size
        except Draining:
            assert self.batcher.draining
        except QueueFull:
            alive = [other for other in self.waiting if other.deadline is None or other.deadline > self.now]
            full = sum(other.rows for other in alive) + rows > self.config.max_queue_rows
            level_size = self.config.level_queue_sizes.get(priority, self.config.level_queue_size)
            of_level = sum(other.priority == priority for other in alive)
            assert full or len(alive) >= self.config.max_queue_size > 0 or of_level >= level_size > 0
        else:
            assert item.enqueued_at == self.now
            self.waiting.append(item)

    @rule(seconds=st.floats(0.0, 1.5))
    def wait(self, seconds):
        self.now += seconds

    @rule()
    def expire(self):
        due = {item for item in self.waiting if item.deadline is not None and item.deadline <= self.now}
        expired = self.batcher.expire(self.now)
        assert set(expired) == due
        for item in expired:
            self.leave(item)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def cancel(self, data):
        item = data.draw(st.sampled_from(self.waiting))
        if self.batcher.cancel(item):
            self.leave(item)
        else:
            assert item.deadline is not None  # it expired, and waits to be fetched
            assert item.deadline <= self.now

    @rule()
    def take(self):
        self.expire()
        ready = self.batcher.is_ready(self.now)
        before = list(self.waiting)
        batch = self.batcher.next_batch(self.now)
        assert bool(batch) == ready
        may_leave = {item.shape for item in before if self.may_leave(item, before)}
        assert bool(batch) == bool(may_leave), "it waits for nothing, or leaves inside its window"
        if not batch:
            return
        assert len({item.shape for item in batch}) == 1
        assert sum(item.rows for item in batch) <= self.config.max_batch_size
        lanes = {
            shape: sorted((item for item in before if item.shape == shape), key=self.order(before))
            for shape in may_leave
        }
        best = min((lane[0] for lane in lanes.values()), key=lambda head: (self.rank(head), before.index(head)))
        assert batch[0] is best
        same = lanes[best.shape]
        assert batch == same[: len(batch)], "not first in, first out"
        if not self.config.preferred_rows and len(same) > len(batch):
            following = same[len(batch)]
            assert sum(item.rows for item in batch) + following.rows > self.config.max_batch_size, "not topped up"
        for item in batch:
            self.leave(item)

    def order(self, before):
        """Within a lane: by priority; then those that are not late, as they came; then the late, as they became so."""
        return lambda item: (*self.rank(item), item.delay_at if self.is_late(item) else 0.0, before.index(item))

    def rank(self, item):
        return item.priority, self.is_late(item)

    def is_late(self, item):
        return item.delay_at is not None and item.delay_at <= self.now

    def may_leave(self, item, before):
        same = [other for other in before if other.shape == item.shape]
        enough = min(self.config.preferred_rows, default=self.config.max_batch_size)
        return (
            self.config.max_wait_s == 0.0
            or self.batcher.draining
            or sum(other.rows for other in same) >= enough
            or any(other.enqueued_at + self.config.max_wait_s <= self.now for other in same)
        )

    @rule()
    def drain(self):
        if len(self.gone) > 8:
            self.batcher.drain()

    @rule()
    def clear(self):
        if len(self.gone) % 7 == 6:
            self.expire()
            for item in self.batcher.clear():
                self.leave(item)
            assert not self.waiting

    @invariant()
    def adds_up(self):
        self.batcher.check_integrity()


TestHistory = History.TestCase
TestHistory.settings = settings(stateful_step_count=40)
