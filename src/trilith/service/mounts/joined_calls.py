"""Calls of a batched method behind middleware: joined in the replica, since each has passed the middleware by itself.

Rule 1: `CallQueue` decides, as it does at the gateway and in a process without one; this file moves its batches to the
    host. A replica runs one batch of the method at a time.
Rule 2: a call that its caller takes back before its batch begins is left out of it. After that it is the host's.
Rule 3: a batch is over when the host has ended its work on each of its calls.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Sequence
from typing import Final

from trilith.errors import InvalidConfig, TrilithError
from trilith.runtime import CallBatch, CallQueue, QueuedCall
from trilith.service.call import ServiceCall
from trilith.service.spec import MethodSpec

_now: Final = time.monotonic

HandleBatch = Callable[[Sequence[ServiceCall]], None]
"""Runs calls together: `ServiceHost.handle_batch`."""


class _Joined(QueuedCall):
    """A call in the queue."""

    __slots__ = ("call",)

    def __init__(self, call: ServiceCall) -> None:
        super().__init__()
        self.call = call


class JoinedCalls:
    """Those of one method.

    Args:
        method: which.
        handle_batch: runs a batch.
    """

    def __init__(self, method: MethodSpec, handle_batch: HandleBatch) -> None:
        batch = method.options.batch
        if batch is None:
            raise InvalidConfig(f"{method.where} is not batched")
        self._handle_batch = handle_batch
        self._queue: CallQueue[_Joined] = CallQueue(
            method.where,
            max_size=batch.max_size,
            max_wait_s=None if batch.max_wait_ms is None else batch.max_wait_ms / 1e3,
            max_waiting=method.service.options.max_waiting,
        )
        self._left = 0  # calls of the batch that runs
        self._next: asyncio.Handle | None = None

    def handle(self, call: ServiceCall) -> None:
        """Runs a call, with others that wait when it is its turn."""
        joined = _Joined(call)
        try:
            self._queue.add(joined, _now(), free=self._free, bounded=True)
        except TrilithError as error:
            call.finish(error)
            return
        call.abort = lambda _: self._queue.withdraw(joined)
        if not self._left:
            self._pump_at(asyncio.get_running_loop().call_soon(self._pump))

    def _free(self) -> int:
        return 0 if self._left else 1

    def _pump_at(self, handle: asyncio.Handle | None) -> None:
        if self._next is not None:
            self._next.cancel()
        self._next = handle

    def _pump(self) -> None:
        self._pump_at(None)
        now, loop = _now(), asyncio.get_running_loop()
        held_until = self._queue.held_until(now) if len(self._queue) else now
        if held_until > now:
            self._pump_at(loop.call_later(held_until - now, self._pump))
            return
        batch = self._queue.leave(now)
        if batch is not None:
            self._run(batch)
        elif (due := self._queue.next_window_end()) is not None:
            self._pump_at(loop.call_later(max(0.0, due - now), self._pump))

    def _run(self, batch: CallBatch[_Joined]) -> None:
        calls = [joined.call for joined in batch.live if not joined.call.done]
        self._left = len(calls)
        for call in calls:
            call.on_end = functools.partial(self._one_ended, batch, call.on_end)
        if calls:
            self._handle_batch(calls)
        if not any(call.working for call in calls):  # it was refused: the replica stops
            self._over(batch)

    def _one_ended(self, batch: CallBatch[_Joined], told: Callable[[], None] | None) -> None:
        if told is not None:
            told()
        self._left -= 1
        if self._left == 0:
            self._over(batch)

    def _over(self, batch: CallBatch[_Joined]) -> None:
        self._left = 0
        self._queue.over(batch, _now())
        self._pump_at(asyncio.get_running_loop().call_soon(self._pump))
