"""Calls of one batched method that have one place, all of them on one loop: begins their batches when it is time.

Rule 1: `CallQueue` decides; this file asks it when it said to, after a call came and when the place falls free.
Rule 2: a batch leaves at the end of the turn in which its first call came: calls that are made together go together.
Rule 3: the place is taken from `run` until `over`, which whoever runs the batches says, whatever became of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from trilith.core.clock import timer_delay_s
from trilith.runtime.schedule import CallBatch, CallQueue, QueuedCall

_now: Final = time.monotonic
CallT = TypeVar("CallT", bound=QueuedCall)


class CallPump(Generic[CallT]):
    """The pump of one queue.

    Args:
        queue: its calls. They are added here, and withdrawn there.
        run: begins a batch, and does not wait for it; `over` is told when it has ended.
    """

    __slots__ = ("_next", "_queue", "_run", "_taken")

    def __init__(self, queue: CallQueue[CallT], run: Callable[[CallBatch[CallT]], object]) -> None:
        self._queue = queue
        self._run = run
        self._taken = False
        self._next: asyncio.Handle | None = None  # of `look`

    def add(self, call: CallT) -> None:
        """Lets a call wait for its batch.

        Raises:
            QueueFull: as many calls wait as may.
        """
        self._queue.add(call, _now(), free=self._free, bounded=True)
        self.look_soon()

    def over(self, batch: CallBatch[CallT], *, answered: bool) -> None:
        """Says that a batch has ended, so the place is free; `look` or `look_soon` begins the next one.

        Args:
            batch: which.
            answered: whether it was run to its end.
        """
        self._taken = False
        self._queue.over(batch, _now() if answered else None)

    def look_soon(self) -> None:
        """Looks at the end of this turn of the loop."""
        if not self._taken:
            self._look_at(asyncio.get_running_loop().call_soon(self.look))

    def look(self) -> None:
        """Begins a batch if the place is free and one may leave; else looks again when one may."""
        self._look_at(None)
        if self._taken:
            return
        now, loop = _now(), asyncio.get_running_loop()
        due: float | None = self._queue.held_until(now) if len(self._queue) else now
        if due is not None and due <= now:
            batch = self._queue.leave(now)
            if batch is not None:
                self._taken = True
                self._run(batch)
                return
            due = self._queue.next_window_end()
        if due is not None:
            self._look_at(loop.call_later(timer_delay_s(due, now), self.look))

    def _free(self) -> int:
        return 0 if self._taken else 1

    def _look_at(self, handle: asyncio.Handle | None) -> None:
        if self._next is not None:
            self._next.cancel()
        self._next = handle
