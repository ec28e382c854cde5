"""The queue of one batched method: which of its calls leave together, when, and which batch nobody waits for any more.

    queue.admit(free)            before `add`, for a call that may be refused
    queue.add(call, now)
    queue.leave(now)             only while a place is free: the batch that it runs now, or None
    queue.next_due()             when to ask again, besides after `add` and when a place falls free
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
from trilith.runtime.schedule.waiting import Waiting

_UNBOUNDED_ROWS: Final = 1 << 40  # the bound is `admit`: a call that was accepted once may be queued again


class QueuedCall(Waiting):
    """A call of a batched method. Subclass it to carry what the method needs and who is answered.

    Attributes:
        batch: the batch that it runs in, while its caller waits for that; None before and after.
    """

    __slots__ = ("batch",)

    def __init__(self) -> None:
        super().__init__()
        self.batch: CallBatch[Any] | None = None


CallT = TypeVar("CallT", bound=QueuedCall)


class CallBatch(Generic[CallT]):
    """Calls that left together.

    Attributes:
        calls: all of them, in order.
        wanted: how many of them somebody still waits for.
    """

    __slots__ = ("calls", "wanted")

    def __init__(self, calls: list[CallT]) -> None:
        self.calls = calls
        self.wanted = len(calls)
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
        max_wait_s: how long an under-full batch may wait for more calls, in seconds.
        max_waiting: how many calls may wait.

    Raises:
        InvalidConfig: a number is out of its range.
    """

    __slots__ = ("_batcher", "_max_size", "_max_waiting", "_name")

    def __init__(self, name: str, *, max_size: int, max_wait_s: float, max_waiting: int) -> None:
        config = BatchingConfig(max_batch_size=max_size, max_wait_s=max_wait_s, max_queue_rows=_UNBOUNDED_ROWS)
        self._batcher: DynamicBatcher[CallT] = DynamicBatcher(config, name=name)
        self._name = name
        self._max_size = max_size
        self._max_waiting = max_waiting

    def __len__(self) -> int:
        return len(self._batcher)

    def admit(self, free: Callable[[], int]) -> None:
        """Lets one more call in. `free` counts the free places; it is asked only when the queue seems full.

        Raises:
            QueueFull: as many calls wait as may.
        """
        beyond = len(self._batcher) - self._max_waiting
        if beyond >= 0 and beyond >= free() * self._max_size:
            raise QueueFull(
                f"{self._max_waiting} calls of {self._name} wait already, which is its limit; try again later"
            )

    def add(self, call: CallT, now: float) -> None:
        """Lets a call wait: admitted just now, or once before."""
        self._batcher.add(call, now)

    def leave(self, now: float) -> CallBatch[CallT] | None:
        """The batch that a free place runs now; None when nothing waits, or what waits may wait for more."""
        calls = self._batcher.next_batch(now)
        return CallBatch(calls) if calls else None

    def is_due(self, now: float) -> bool:
        """Whether `leave` would give a batch."""
        return self._batcher.is_ready(now)

    def next_due(self) -> float | None:
        """The instant at which an under-full batch has waited long enough, or None."""
        return self._batcher.next_window_end()

    def withdraw(self, call: CallT) -> CallBatch[CallT] | None:
        """Takes a call back whose caller went away; returns its batch when nobody waits for that any more."""
        if self._batcher.cancel(call):
            return None
        batch, call.batch = call.batch, None
        if batch is None:
            return None  # it was answered
        batch.wanted -= 1
        return None if batch.wanted else batch

    def over(self, batch: CallBatch[CallT]) -> None:
        """Says that a batch has ended: its calls cannot be withdrawn any more."""
        for call in batch.calls:
            call.batch = None

    def clear(self) -> list[CallT]:
        """Takes out every call that waits, oldest first."""
        return self._batcher.clear()

    def check_integrity(self) -> None:
        """Verifies its counts. For tests.

        Raises:
            RuntimeError: a count is wrong.
        """
        self._batcher.check_integrity()
