"""Calls of one batched method of one instance in this process, joined as the gateway joins them for a replica.

Rule 1: `CallQueue` decides, `CallPump` begins; this file only moves batches to the method and back. The one place is
    the instance.
Rule 2: a batch leaves at the end of the turn in which its first call came: calls that are made together go together.
Rule 3: every call is answered, once: also when its batch is cancelled, or the loop ends.
Rule 4: a caller who went away is left out of the batch; a batch whose callers are all gone is cancelled.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from trilith.core.context import current_context
from trilith.core.foreign import named_error
from trilith.errors import Cancelled, InvalidConfig, ServiceError
from trilith.runtime import CallBatch, CallPump, CallQueue, Halves, QueuedCall
from trilith.service.batching import Item, columns, split_results
from trilith.service.spec import MethodSpec
from trilith.service.tracing import Nested, nested
from trilith.service.user_errors import USER_ERRORS

Run = Callable[[tuple[Any, ...], dict[str, Any]], Awaitable[Any]]
"""The method over lists: positional and keyword arguments to its list of results."""


class _LocalCall(QueuedCall):
    """A call in the queue. `circumstances` are its caller's context variables."""

    __slots__ = ("answer", "circumstances", "item")

    def __init__(self, item: Item, answer: asyncio.Future[Any]) -> None:
        super().__init__()
        self.item = item
        self.answer = answer
        self.circumstances = contextvars.copy_context()

    def settle(self, result: object) -> None:
        """Answers, unless the caller went away."""
        if self.answer.done():
            return
        if isinstance(result, StopIteration):  # a future cannot hold it
            result = RuntimeError(f"the method raised {named_error(result)}")
        if isinstance(result, BaseException):
            self.answer.set_exception(result)
        else:
            self.answer.set_result(result)


class LocalBatches:
    """The queue of one method, on one loop: all its methods are called there."""

    def __init__(self, spec: MethodSpec, run: Run) -> None:
        batch = spec.options.batch
        if batch is None:
            raise InvalidConfig(f"{spec.where} is not batched")
        self._spec = spec
        self._run_method = run
        self._queue: CallQueue[_LocalCall] = CallQueue(
            spec.where,
            max_size=batch.max_size,
            max_wait_s=None if batch.max_wait_ms is None else batch.max_wait_ms / 1e3,
            max_waiting=spec.service.options.max_waiting,
        )
        self._pump = CallPump(self._queue, self._begin)
        self._running: asyncio.Task[None] | None = None

    async def call(self, item: Item) -> Any:
        """The result of one call.

        Raises:
            QueueFull: as many calls wait as the service lets wait.
            Exception: what the method raised, for this item or for its batch.
        """
        waiting = _LocalCall(item, asyncio.get_running_loop().create_future())
        self._pump.add(waiting)
        try:
            return await waiting.answer
        except asyncio.CancelledError:
            self._withdraw(waiting)
            raise

    def _withdraw(self, waiting: _LocalCall) -> None:
        abandoned = self._queue.withdraw(waiting)
        if abandoned is not None and self._spec.asynchronous and self._running is not None:
            self._running.cancel()

    def _begin(self, batch: CallBatch[_LocalCall]) -> None:
        loop = asyncio.get_running_loop()
        self._running = loop.create_task(self._run(batch), context=batch.calls[0].circumstances)
        # Not a `finally` in the task: one that is cancelled before its first step never gets there.
        self._running.add_done_callback(functools.partial(self._ended, batch))

    async def _run(self, batch: CallBatch[_LocalCall]) -> None:
        live = batch.live
        if live:
            results = await self._results(live)
            for waiting, result in zip(live, results, strict=True):
                waiting.settle(result)

    def _ended(self, batch: CallBatch[_LocalCall], task: asyncio.Task[None]) -> None:
        self._running = None
        calls, abandoned = batch.calls, batch.wanted == 0
        answered = not task.cancelled() and task.exception() is None
        self._pump.over(batch, answered=answered)
        if task.cancelled() and not abandoned:  # by whoever ends the loop: nothing runs here any more
            for waiting in (*calls, *self._queue.clear()):
                waiting.settle(Cancelled(f"{self._spec.where} was cancelled: its event loop is ending"))
            return
        if not task.cancelled() and (failure := task.exception()) is not None:
            for waiting in calls:
                waiting.settle(failure)
        self._pump.look()

    async def _results(self, calls: Sequence[_LocalCall]) -> list[Any]:
        """One result for each item, an exception where it failed. What may run twice is tried again in halves."""
        results: list[Any] = []
        halves = Halves(len(calls), repeatable=self._spec.options.idempotent)
        for first, past in halves:
            try:
                results += await self._once(calls[first:past])
            except asyncio.CancelledError:
                raise
            except USER_ERRORS as error:
                if not halves.split():
                    results += [error] * (past - first)
        return results

    async def _once(self, calls: Sequence[_LocalCall]) -> list[Any]:
        contexts = [nested(waiting.circumstances.get(current_context)) for waiting in calls]
        try:
            positional, named = columns(self._spec.signature, [waiting.item for waiting in calls])
            with Nested(contexts):
                answered = await self._run_method(tuple(positional), named)
            return split_results(self._spec.where, answered, len(calls))
        except asyncio.CancelledError as escaped:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise ServiceError(f"{self._spec.where} let a cancellation of its own escape") from escaped
