"""The dynamic batcher: one bounded queue, from which the best batch leaves when something can run it.

Rule 1: pure. `now` is an argument (seconds); the caller does the waiting, and calls from one thread at a time.
Rule 2: work-conserving. `next_batch` is asked only when an instance is free, so a waiting batch grows until it starts.
    Without a window it never answers "nothing" while something waits.
Rule 3: a window (`max_wait_s`) holds an under-full batch only. A deadline is something else: it ends the waiting at
    once (`expire`), not when a batch happens to form.
Rule 4: items whose shapes differ wait in different lanes and never block each other. The lane whose head has the
    smallest priority, then the earliest arrival, goes first; within a lane and a priority, first in is first out. An
    item whose `delay_at` passed goes behind those of its priority whose did not, and still before the next priority.
Rule 5: each operation is amortised O(log n). The heap of lanes that may leave holds stale entries, recognised when
    they surface and swept when they outnumber the living.

The preferred sizes and the queue delay mean what they mean in Triton's dynamic batcher; lanes and deadlines do not.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Final, Generic, cast

from trilith.errors import Draining, InvalidInput, QueueFull
from trilith.runtime.schedule.config import BatchingConfig
from trilith.runtime.schedule.deadlines import DeadlineHeap
from trilith.runtime.schedule.sizing import BatchSizer
from trilith.runtime.schedule.statistics import QueueStatistics
from trilith.runtime.schedule.waiting import ItemT, Lane

_SWEEP_SLACK: Final = 64  # stale heap entries that are never worth a sweep


class DynamicBatcher(Generic[ItemT]):
    """Groups waiting items into batches.

    Args:
        config: the limits.
        name: who queues, for messages: `model 'ocr'`.
        sizer: chooses how much of a lane goes together; None: as much as waits.
    """

    __slots__ = (
        "_added",
        "_batches",
        "_cancelled",
        "_cleared",
        "_deadlines",
        "_delayed",
        "_delays",
        "_dispatched",
        "_draining",
        "_enough",
        "_expired",
        "_expired_count",
        "_items",
        "_lanes",
        "_levels",
        "_ready",
        "_refused",
        "_rows",
        "_sequence",
        "_sizer",
        "_young",
        "config",
        "name",
    )

    def __init__(self, config: BatchingConfig, *, name: str = "queue", sizer: BatchSizer | None = None) -> None:
        self.config = config
        self._sizer = sizer
        self.name = name
        self._enough = min(config.preferred_rows, default=config.max_batch_size)
        self._lanes: dict[Hashable, Lane[ItemT]] = {}
        self._ready: list[tuple[int, int, Lane[ItemT]]] = []
        # How many wait of each priority, where that is bounded.
        self._levels: dict[int, int] | None = {} if config.level_queue_size or config.level_queue_sizes else None
        self._deadlines: DeadlineHeap[ItemT] = DeadlineHeap()
        self._delays: DeadlineHeap[ItemT] = DeadlineHeap()
        self._young: OrderedDict[ItemT, None] = OrderedDict()  # in order of arrival; their window is still open
        self._expired: list[ItemT] = []
        self._items = self._rows = self._sequence = 0
        self._draining = False
        self._added = self._refused = self._dispatched = self._batches = 0
        self._cancelled = self._expired_count = self._cleared = self._delayed = 0

    def __repr__(self) -> str:
        return f"<DynamicBatcher {self.name}: {self._items} waiting, {self._rows} rows, {len(self._lanes)} lanes>"

    def __len__(self) -> int:
        return self._items

    @property
    def waiting_rows(self) -> int:
        """Rows that wait now."""
        return self._rows

    @property
    def draining(self) -> bool:
        """Whether `drain` was called."""
        return self._draining

    @property
    def has_expired(self) -> bool:
        """Whether `expire` has something to give already."""
        return bool(self._expired)

    def add(self, item: ItemT, now: float) -> None:
        """Lets `item` wait, and sets its `enqueued_at`. It must not wait already.

        Raises:
            InvalidInput: it has more rows than any batch may have, or fewer than 1.
            QueueFull: a bound on waiting work is met.
            Draining: `drain` was called.
        """
        rows, config = item.rows, self.config
        if not 1 <= rows <= config.max_batch_size:
            raise InvalidInput(f"{self.name}: a request must have 1 to {config.max_batch_size} rows, got {rows}")
        if self._draining:
            self._refused += 1
            raise Draining(
                f"{self.name}: Server is stopping, scheduler for model has stopped accepting new inference requests"
            )
        if self._is_full(item):
            self._advance(now)  # the dead make room for the living
            if self._is_full(item):
                self._refused += 1
                raise QueueFull(self._full_message(item))
        self._sequence += 1
        item._sequence = self._sequence
        item._ripe = False
        item._rank = 2 * item.priority
        item.enqueued_at = now
        lane = self._lanes.get(item.shape)
        if lane is None:
            lane = self._lanes[item.shape] = Lane(item.shape)
        item._lane = cast(Any, lane)
        was_ready = lane.rows > 0 and self._may_leave(lane)
        lane.add(item)
        self._items += 1
        self._rows += rows
        self._added += 1
        if item.deadline is not None:
            self._deadlines.push(item.deadline, item._sequence, item)
        if item.delay_at is not None:
            self._delays.push(item.delay_at, item._sequence, item)
        if self._levels is not None:
            self._levels[item.priority] = self._levels.get(item.priority, 0) + 1
        if config.max_wait_s > 0.0:
            self._young[item] = None
        if self._may_leave(lane) and (not was_ready or lane.head() is item):
            self._announce(lane)

    def cancel(self, item: ItemT) -> bool:
        """Takes `item` back. True when it waited; False when it already left (or never came)."""
        if item._lane is None:
            return False
        self._remove(item)
        self._cancelled += 1
        return True

    def expire(self, now: float) -> list[ItemT]:
        """The items whose deadline passed while they waited, each given once."""
        self._advance(now)
        if not self._expired:
            return []
        expired, self._expired = self._expired, []
        return expired

    def is_ready(self, now: float) -> bool:
        """Whether `next_batch` would give a batch now."""
        self._advance(now)
        return self._best_lane() is not None

    def next_batch(self, now: float) -> list[ItemT]:
        """The best batch at this instant, in the order in which its items go; empty when none may leave.

        Call it only when something is free to run the batch.
        """
        self._advance(now)
        lane = self._best_lane()
        if lane is None:
            return []
        batch = self._take(lane)
        self._batches += 1
        self._dispatched += len(batch)
        return batch

    def next_window_end(self) -> float | None:
        """The instant at which the oldest open window closes, or None. Past ones are not reported again."""
        if not self._young:
            return None
        return next(iter(self._young)).enqueued_at + self.config.max_wait_s

    def next_deadline(self) -> float | None:
        """The earliest deadline of what waits, or None. Then `expire` should be called."""
        return self._deadlines.next_deadline()

    def drain(self) -> None:
        """From now on nothing is accepted and no window holds; what waits still leaves in batches."""
        self._draining = True
        self._young.clear()
        for lane in self._lanes.values():
            self._announce(lane)

    def clear(self) -> list[ItemT]:
        """Throws out everything that waits, oldest first."""
        items = sorted(
            (item for lane in self._lanes.values() for queue in lane.queues.values() for item in queue),
            key=lambda item: item._sequence,
        )
        for item in items:
            self._remove(item)
        self._cleared += len(items)
        return items

    def statistics(self) -> QueueStatistics:
        """Counts since the beginning, and what waits now."""
        return QueueStatistics(
            waiting_items=self._items,
            waiting_rows=self._rows,
            lanes=len(self._lanes),
            added=self._added,
            refused=self._refused,
            dispatched=self._dispatched,
            batches=self._batches,
            cancelled=self._cancelled,
            expired=self._expired_count,
            cleared=self._cleared,
            delayed=self._delayed,
        )

    def check_integrity(self) -> None:
        """Verifies every count against the items themselves. For tests.

        Raises:
            RuntimeError: a count is wrong, or something that may leave is not announced.
        """
        announced = {(rank, sequence) for rank, sequence, _ in self._ready}
        items = rows = 0
        for shape, lane in self._lanes.items():
            members = [item for rank in lane.ranks for item in lane.queues[rank]]
            items += len(members)
            rows += lane.rows
            head = lane.head()
            if (
                head is None
                or lane.shape != shape
                or lane.rows != sum(item.rows for item in members)
                or lane.ripe != sum(item._ripe for item in members)
                or sorted(lane.ranks) != lane.ranks
                or any(item._rank >> 1 != item.priority for item in members)
            ):
                raise RuntimeError(f"lane {shape!r} of {self!r} does not add up")
            if self._may_leave(lane) and (head._rank, head._sequence) not in announced:
                raise RuntimeError(f"lane {shape!r} of {self!r} could leave and is not announced")
        if (items, rows) != (self._items, self._rows):
            raise RuntimeError(f"{self!r} does not add up to its lanes: {items} items, {rows} rows")
        if self._levels is not None and sum(self._levels.values()) != self._items:
            raise RuntimeError(f"{self!r} does not add up to its priorities: {self._levels}")
        gone = self._dispatched + self._cancelled + self._expired_count + self._cleared
        if self._added != gone + self._items:
            raise RuntimeError(f"{self!r} lost or doubled an item: {self.statistics()}")

    # -- within ------------------------------------------------------------------------------------------------------

    def _is_full(self, item: ItemT) -> bool:
        config = self.config
        return (
            self._rows + item.rows > config.max_queue_rows
            or 0 < config.max_queue_size <= self._items
            or (self._levels is not None and self._is_level_full(self._levels, item.priority))
        )

    def _is_level_full(self, levels: dict[int, int], priority: int) -> bool:
        size = self.config.level_queue_sizes.get(priority, self.config.level_queue_size)
        return 0 < size <= levels.get(priority, 0)

    def _full_message(self, item: ItemT) -> str:
        config, rows = self.config, item.rows
        if 0 < config.max_queue_size <= self._items:
            return f"Exceeds maximum queue size: {self.name} has {self._items} requests waiting, the most it may"
        if self._levels is not None and self._is_level_full(self._levels, item.priority):
            return (
                f"Exceeds maximum queue size: {self.name} has {self._levels[item.priority]} requests of priority "
                f"{item.priority} waiting, the most it may"
            )
        return (
            f"Exceeds maximum queue size: {self.name} has {self._rows} rows waiting of at most "
            f"{config.max_queue_rows}; there is no room for {rows} more"
        )

    def _may_leave(self, lane: Lane[ItemT]) -> bool:
        config = self.config
        return lane.rows >= self._enough or lane.ripe > 0 or self._draining or config.max_wait_s == 0.0

    def _announce(self, lane: Lane[ItemT]) -> None:
        head = lane.head()
        if head is None:
            return
        heapq.heappush(self._ready, (head._rank, head._sequence, lane))
        if len(self._ready) > 2 * len(self._lanes) + _SWEEP_SLACK:
            self._ready = [
                (head._rank, head._sequence, lane)
                for lane in self._lanes.values()
                if self._may_leave(lane) and (head := lane.head()) is not None
            ]
            heapq.heapify(self._ready)

    def _best_lane(self) -> Lane[ItemT] | None:
        ready = self._ready
        while ready:
            rank, sequence, lane = ready[0]
            head = lane.head()
            if head is not None and head._sequence == sequence and head._rank == rank and self._may_leave(lane):
                return lane
            heapq.heappop(ready)
        return None

    def _take(self, lane: Lane[ItemT]) -> list[ItemT]:
        if self.config.alone:
            return self._take_one(lane)
        limit = self._target(lane)
        batch: list[ItemT] = []
        rows = 0
        while (item := lane.head()) is not None:
            # The first always goes: when it is larger than a preferred size, waiting would not make it smaller.
            if batch and rows + item.rows > limit:
                break
            rows += item.rows
            batch.append(item)
            self._remove(item, announce=False)
        if lane.rows and self._may_leave(lane):
            self._announce(lane)
        return batch

    def _take_one(self, lane: Lane[ItemT]) -> list[ItemT]:
        item = lane.head()
        if item is None:
            return []
        self._remove(item, announce=False)
        if lane.rows and self._may_leave(lane):
            self._announce(lane)
        return [item]

    def _target(self, lane: Lane[ItemT]) -> int:
        """The size that was learned to be best, or the largest preferred one that waits, else what may go together."""
        if self._sizer is not None:
            return self._sizer.choose(lane.shape, lane.rows)
        waiting = min(lane.rows, self.config.max_batch_size)
        return max((size for size in self.config.preferred_rows if size <= waiting), default=self.config.max_batch_size)

    def _remove(self, item: ItemT, *, announce: bool = True) -> None:
        lane = cast("Lane[ItemT]", item._lane)
        was_head = announce and lane.head() is item
        lane.remove(item)
        item._lane = None
        self._items -= 1
        self._rows -= item.rows
        if self._young:
            self._young.pop(item, None)
        if not lane.rows:
            del self._lanes[lane.shape]
        elif was_head and self._may_leave(lane):
            self._announce(lane)
        if item.deadline is not None:
            self._deadlines.forget(item._sequence)
        if item.delay_at is not None:
            self._delays.forget(item._sequence)
        if self._levels is not None:
            self._levels[item.priority] -= 1

    def _delay(self, item: ItemT) -> None:
        """Puts an item behind the others of its priority."""
        lane = cast("Lane[ItemT]", item._lane)
        was_head = lane.head() is item
        lane.remove(item)
        item._rank |= 1
        lane.add(item)
        self._delayed += 1
        if was_head and self._may_leave(lane):
            self._announce(lane)

    def _advance(self, now: float) -> None:
        """Lets time pass: deadlines expire, the late are delayed, windows close."""
        while (due := self._deadlines.pop_due(now)) is not None:
            self._remove(due)
            self._expired_count += 1
            self._expired.append(due)
        while (late := self._delays.pop_due(now)) is not None:
            self._delay(late)
        while self._young:
            item = next(iter(self._young))
            if item.enqueued_at + self.config.max_wait_s > now:
                break
            del self._young[item]
            lane = cast("Lane[ItemT]", item._lane)
            item._ripe = True
            lane.ripe += 1
            if lane.ripe == 1 and lane.rows < self._enough:
                self._announce(lane)
