"""Calls of a batched method behind middleware: joined in the replica, since each has passed the middleware by itself.

Rule 1: `CallQueue` decides, as it does at the gateway and in a process without one; this file moves its batches to the
    host. A replica runs one batch of the method at a time.
Rule 2: a call that its caller takes back before its batch begins is left out of it. After that it is the host's.
Rule 3: a batch is over when the host has ended its work on each of its calls. One that it refused, or that nobody
    waited for any more, was not run to its end: what it took says nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from trilith.errors import InvalidConfig, TrilithError
from trilith.runtime import CallBatch, CallPump, CallQueue, QueuedCall
from trilith.service.call import ServiceCall
from trilith.service.spec import MethodSpec

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
        self._pump = CallPump(self._queue, self._run)
        self._left = 0  # calls of the batch that runs

    def handle(self, call: ServiceCall) -> None:
        """Runs a call, with others that wait when it is its turn."""
        joined = _Joined(call)
        try:
            self._pump.add(joined)
        except TrilithError as error:
            call.finish(error)
            return
        call.abort = lambda _: self._queue.withdraw(joined)

    def _run(self, batch: CallBatch[_Joined]) -> None:
        joined_calls = [joined for joined in batch.live if not joined.call.done]
        calls = [joined.call for joined in joined_calls]
        self._left = len(calls)
        for call in calls:
            call.on_end = functools.partial(self._one_ended, batch, call.on_end)
        if calls:
            self._handle_batch(calls)
        if not any(call.working for call in calls):  # it was refused: the replica stops
            self._over(batch, answered=False)
            return
        for joined in joined_calls:
            joined.call.abort = functools.partial(self._take_back, joined, joined.call.abort)

    def _take_back(self, joined: _Joined, told: Callable[[ServiceCall], object] | None, call: ServiceCall) -> None:
        self._queue.withdraw(joined)
        if told is not None:
            told(call)

    def _one_ended(self, batch: CallBatch[_Joined], told: Callable[[], None] | None) -> None:
        if told is not None:
            told()
        self._left -= 1
        if self._left == 0:
            self._over(batch, answered=batch.wanted > 0)

    def _over(self, batch: CallBatch[_Joined], *, answered: bool) -> None:
        self._left = 0
        for joined in batch.calls:
            joined.call.abort = None  # it knows the call: no circle is left for the collector
        self._pump.over(batch, answered=answered)
        self._pump.look_soon()
