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
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from trilith.errors import QueueFull
from trilith.runtime.schedule.batcher import DynamicBatcher
from trilith.runtime.schedule.config import BatchingConfig
from trilith.runtime.schedule.linger import Linger
from trilith.runtime.schedule.waiting import Waiting

_UNBOUNDED_ROWS: Final = 1 << 40  # the bound is this class's own: a call that was accepted once may be queued again


class QueuedCall(Waiting):
    """A call of a batched method. Subclass it to carry what the method needs and who is answered.

    Args:
        bulk: how much it takes of what a batch can carry, in the unit of `CallQueue`'s `max_bulk`.

    Attributes:
        batch: the batch that it left in; None before that, and once it is withdrawn from it.
    """

    __slots__ = ("batch",)

    def __init__(self, bulk: int = 0) -> None:
        super().__init__(bulk=bulk)
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

    __slots__ = ("_batcher", "_linger", "_max_size", "_max_waiting", "name")

    def __init__(
        self, name: str, *, max_size: int, max_wait_s: float | None, max_waiting: int, max_bulk: int = 0
    ) -> None:
        config = BatchingConfig(
            max_batch_size=max_size,
            max_batch_bulk=max_bulk,
            max_wait_s=max_wait_s or 0.0,
            max_queue_rows=_UNBOUNDED_ROWS,
        )
        self._linger = Linger(max_size) if max_wait_s is None and max_size > 1 else None
        self.name = name
        self._batcher: DynamicBatcher[CallT] = DynamicBatcher(config, name=name)
        self._max_size = max_size
        self._max_waiting = max_waiting

    def __len__(self) -> int:
        return len(self._batcher)

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
        beyond = len(self) - self._max_waiting
        if bounded and beyond >= 0 and beyond >= free() * self._max_size:
            raise QueueFull(
                f"{self._max_waiting} calls of {self.name} wait already, which is its limit; try again later"
            )
        self._batcher.add(call, now)
        if self._linger is not None:
            self._linger.arrived(now)

    def is_ready(self, now: float) -> bool:
        """Whether `leave` would give a batch now."""
        return self._batcher.is_ready(now)

    def held_until(self, now: float) -> float:
        """The instant until which the only free place should not take what is ready; not after `now` when it should."""
        return now if self._linger is None else self._linger.until(len(self._batcher), now)

    @property
    def look_again(self) -> int:
        """After `held_until` held something: the calls waiting from which on it is worth asking again."""
        return 0 if self._linger is None else self._linger.look_again

    def next_window_end(self) -> float | None:
        """The instant at which the oldest open window closes, or None. Past ones are not reported again."""
        return self._batcher.next_window_end()

    def clear(self) -> list[CallT]:
        """Takes out everything that waits, oldest first."""
        return self._batcher.clear()

    def leave(self, now: float) -> CallBatch[CallT] | None:
        """The batch that a free place runs now; None when nothing waits, or what waits may wait for more."""
        calls = self._batcher.next_batch(now)
        return CallBatch(calls, now) if calls else None

    def withdraw(self, call: CallT) -> CallBatch[CallT] | None:
        """Takes a call back whose caller went away; returns its batch when nobody waits for that any more."""
        if self._batcher.cancel(call):
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
        self._batcher.check_integrity()
