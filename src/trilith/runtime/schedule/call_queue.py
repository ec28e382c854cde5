"""The queue of one batched method: which of its calls leave together, when, and which batch nobody waits for any more.

    queue.add(call, now, free=count_free, bounded=True)
    queue.is_ready(now)          whether `leave` would give a batch
    queue.leave(now)             only while a place is free: the batch that it runs now, or None
    queue.next_window_end()      when to ask again, besides after `add` and when a place falls free
    queue.withdraw(call)         its caller went away; returns the batch that can be stopped for it
    queue.over(batch)            it was run, or is lost

Rule 1: pure. A place is whatever runs one batch of the method at a time: a replica, or an instance in this process.
    The caller knows the places, runs the batches and does the waiting; `now` is an argument (seconds).
Rule 2: what a free place could take at once does not count as waiting, so nobody is refused beside an idle one.
Rule 3: a call that waits can be taken back. One that left stays in its batch, and the batch is stopped when the last of
    its callers has gone.
Rule 4: a call and its batch know each other only until `over`: no circle is left for the collector.
Rule 5: first in, first out, so that being added and leaving are a few steps. What models need of their queues (shapes,
    priorities, deadlines, learned sizes) is the batcher's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from trilith.errors import InvalidConfig, QueueFull
from trilith.runtime.schedule.linger import Linger


class QueuedCall:
    """A call of a batched method. Subclass it to carry what the method needs and who is answered.

    Args:
        bulk: how much it takes of what a batch can carry, in the unit of `CallQueue`'s `max_bulk`.

    Attributes:
        batch: the batch that it left in; None before that, and once it is withdrawn from it.
        enqueued_at: the instant from which on it waits, in seconds.
    """

    __slots__ = ("batch", "bulk", "enqueued_at")

    def __init__(self, bulk: int = 0) -> None:
        self.bulk = bulk
        self.enqueued_at = 0.0
        self.batch: CallBatch[Any] | None = None


CallT = TypeVar("CallT", bound=QueuedCall)


class CallBatch(Generic[CallT]):
    """Calls that left together.

    Attributes:
        calls: all of them, in order; none once it is over.
        wanted: how many of them somebody still waits for.
        run: whatever the caller keeps of its run, such as an id.
    """

    __slots__ = ("calls", "left_at", "run", "size", "wanted")

    def __init__(self, calls: list[CallT], left_at: float) -> None:
        self.calls = calls
        self.size = len(calls)
        self.left_at = left_at
        self.wanted = len(calls)
        self.run: Any = None
        for call in calls:
            call.batch = self

    @property
    def live(self) -> list[CallT]:
        """The calls that somebody still waits for."""
        return [call for call in self.calls if call.batch is self]


class CallQueue(Generic[CallT]):
    """The calls of one method that no place has yet.

    Args:
        name: the method, for messages: `Reader.read`.
        max_size: most calls in a batch.
        max_wait_s: how long an under-full batch may wait for more calls, in seconds; None for a short pause where that
            is seen to pay (`Linger`).
        max_waiting: how many calls may wait.
        max_bulk: how much a batch can carry, in a unit of the caller's; a call with more goes alone. 0 for no bound.

    Raises:
        InvalidConfig: a number is out of its range.
    """

    __slots__ = (
        "_bulk",
        "_linger",
        "_max_bulk",
        "_max_size",
        "_max_wait_s",
        "_max_waiting",
        "_now",
        "_waiting",
        "name",
    )

    def __init__(
        self, name: str, *, max_size: int, max_wait_s: float | None, max_waiting: int, max_bulk: int = 0
    ) -> None:
        if max_size < 1 or max_bulk < 0 or not 0.0 <= (max_wait_s or 0.0) < math.inf:
            raise InvalidConfig(
                f"{name}: a batch has at least 1 call, a bound on what it carries is at least 0, and a window is a"
                f" number of seconds from 0 on; got {max_size}, {max_bulk} and {max_wait_s}"
            )
        self._linger = Linger(max_size) if max_wait_s is None and max_size > 1 else None
        self.name = name
        self._max_size = max_size
        self._max_bulk = max_bulk or math.inf
        self._max_wait_s = max_wait_s or 0.0
        self._max_waiting = max_waiting
        self._waiting: dict[CallT, None] = {}  # in order of arrival
        self._bulk = 0
        self._now = -math.inf  # the latest instant that was told

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, call: CallT, now: float, *, free: Callable[[], int], bounded: bool) -> None:
        """Lets a call wait.

        Args:
            call: which; it must not wait already.
            now: the instant, in seconds.
            free: counts the free places; it is asked only when the queue seems full.
            bounded: whether the call may be refused; one that was accepted once is not.

        Raises:
            QueueFull: as many calls wait as may, and the call is `bounded`.
        """
        beyond = len(self._waiting) - self._max_waiting
        if bounded and beyond >= 0 and beyond >= free() * self._max_size:
            raise QueueFull(
                f"{self._max_waiting} calls of {self.name} wait already, which is its limit; try again later"
            )
        call.enqueued_at = now
        self._waiting[call] = None
        self._bulk += call.bulk
        if self._linger is not None:
            self._linger.arrived(now)

    def is_ready(self, now: float) -> bool:
        """Whether `leave` would give a batch now."""
        self._now = now
        if not self._waiting:
            return False
        if self._max_wait_s == 0.0 or len(self._waiting) >= self._max_size or self._bulk >= self._max_bulk:
            return True
        return next(iter(self._waiting)).enqueued_at + self._max_wait_s <= now

    def held_until(self, now: float) -> float:
        """The instant until which the only free place should not take what is ready; not after `now` when it should."""
        return now if self._linger is None else self._linger.until(len(self._waiting), now)

    @property
    def look_again(self) -> int:
        """After `held_until` held something: the calls waiting from which on it is worth asking again."""
        return 0 if self._linger is None else self._linger.look_again

    def next_window_end(self) -> float | None:
        """The instant at which the oldest open window closes, or None. Past ones are not reported again."""
        if self._max_wait_s == 0.0:
            return None
        ends = (call.enqueued_at + self._max_wait_s for call in self._waiting)
        return next((end for end in ends if end > self._now), None)

    def clear(self) -> list[CallT]:
        """Takes out everything that waits, oldest first."""
        calls = list(self._waiting)
        self._waiting.clear()
        self._bulk = 0
        return calls

    def leave(self, now: float) -> CallBatch[CallT] | None:
        """The batch that a free place runs now; None when nothing waits, or what waits may wait for more."""
        if not self.is_ready(now):
            return None
        calls: list[CallT] = []
        bulk = 0
        for call in self._waiting:
            if calls and (len(calls) == self._max_size or bulk + call.bulk > self._max_bulk):
                break
            calls.append(call)
            bulk += call.bulk
        for call in calls:
            del self._waiting[call]
        self._bulk -= bulk
        return CallBatch(calls, now)

    def withdraw(self, call: CallT) -> CallBatch[CallT] | None:
        """Takes a call back whose caller went away; returns its batch when nobody waits for that any more."""
        if call in self._waiting:
            del self._waiting[call]
            self._bulk -= call.bulk
            return None
        batch, call.batch = call.batch, None
        if batch is None or not batch.calls:
            return None  # it was withdrawn before, or answered
        batch.wanted -= 1
        return None if batch.wanted else batch

    def over(self, batch: CallBatch[CallT], answered_at: float | None = None) -> None:
        """Says that a batch has ended: its calls cannot be withdrawn any more.

        Args:
            batch: which.
            answered_at: the instant in seconds; None when it was not run to its end.
        """
        batch.calls = []
        if self._linger is not None and answered_at is not None:
            self._linger.ended(batch.size, answered_at - batch.left_at, answered_at)

    def check_integrity(self) -> None:
        """Verifies every count. For tests.

        Raises:
            RuntimeError: a count is wrong.
        """
        if self._bulk != sum(call.bulk for call in self._waiting):
            raise RuntimeError(f"{self.name}: what waits does not add up to {self._bulk}")
