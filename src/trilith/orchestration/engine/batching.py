"""One central queue for each batched method, over all replicas of its service.

Rule 1: the scheduler is the runtime's own `DynamicBatcher`; this file only moves its batches to replicas and back.
Rule 2: a replica runs one batch of a method at a time, so what arrives meanwhile joins the next one.
Rule 3: each item of a batch is settled by itself: expired, cancelled and failing items harm no other.
Rule 4: a window that closes is a timer of its own, at the instant that the scheduler names.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from trilith.errors import Bug, QueueFull, TrilithError, error_from_code
from trilith.net.transport import Reply
from trilith.orchestration.engine.calls import PendingCall
from trilith.orchestration.engine.deployments import Deployment, MethodRoute, ReplicaLink
from trilith.runtime import BatchingConfig, DynamicBatcher, Waiting
from trilith.wire.batches import FLAG_BATCH, BatchItem, decode_batch_result, encode_batch

if TYPE_CHECKING:
    from trilith.orchestration.engine.router import Router

_UNBOUNDED_ROWS = 1 << 40


class WaitingCall(Waiting):
    """A pending call in the batcher."""

    __slots__ = ("call",)

    def __init__(self, call: PendingCall) -> None:
        super().__init__()  # its deadline is enforced by the router, with that of every other call
        self.call = call


class BatchQueue:
    """The queue of one batched method."""

    def __init__(self, route: MethodRoute, deployment: Deployment, router: Router) -> None:
        # The bound is checked in `add`: a call that was accepted once is not refused when it must be queued again.
        config = BatchingConfig(
            max_batch_size=route.batch_rows, max_wait_s=route.batch_wait_s, max_queue_rows=_UNBOUNDED_ROWS
        )
        self._route = route
        self._deployment = deployment
        self._router = router
        self._batcher: DynamicBatcher[WaitingCall] = DynamicBatcher(config, name=f"{route.service}.{route.method}")
        self._timer: asyncio.TimerHandle | None = None  # for the end of the window that closes next

    @property
    def waiting(self) -> int:
        """Calls that no replica has yet."""
        return len(self._batcher)

    def add(self, call: PendingCall, now: float, *, bounded: bool) -> None:
        """Queues a call, and sends a batch when a replica is free for one.

        Raises:
            QueueFull: as many calls wait as may, and the call is `bounded`.
        """
        if bounded and len(self._batcher) >= self._route.queue_limit:
            raise QueueFull(
                f"{len(self._batcher)} calls of {self._route.service}.{self._route.method} wait already, which is its"
                f" limit; try again later ({len(self._deployment.replicas)} replicas are running)"
            )
        waiting = WaitingCall(call)
        self._batcher.add(waiting, now)
        call.ticket = waiting
        self.pump(now)

    def clear(self) -> list[PendingCall]:
        """Takes out every call that waits, oldest first."""
        self._stop_timer()
        return [waiting.call for waiting in self._batcher.clear()]

    def withdraw(self, call: PendingCall) -> None:
        """Takes a call back from the queue; one that runs already stays in its batch, and its result is dropped."""
        if isinstance(call.ticket, WaitingCall) and self._batcher.cancel(call.ticket):
            call.ticket = None
            return
        link = call.link
        if link is None:
            return
        for call_id, entry in link.calls.items():
            if isinstance(entry, list) and call in entry:
                # The replica is told to stop only when nobody of the batch waits any more.
                if all(other.settled or other is call for other in entry):
                    link.peer.cancel(call_id)
                    link.calls.pop(call_id)
                    self._finished(link)
                return

    def pump(self, now: float) -> None:
        """Sends batches while some may leave and a replica is free."""
        self._stop_timer()
        while self._batcher.is_ready(now):
            link = self._free()
            if link is None:
                return  # the next one that is free comes back here
            self._send(link, [waiting.call for waiting in self._batcher.next_batch(now)])
        window_end = self._batcher.next_window_end()
        if window_end is not None:
            delay_s = max(0.0, window_end - now)
            self._timer = asyncio.get_running_loop().call_later(delay_s, lambda: self.pump(time.monotonic()))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _free(self) -> ReplicaLink | None:
        method = self._route.method
        free = (link for link in self._deployment.replicas if link.room > 0 and method not in link.batching)
        return min(free, key=lambda link: link.in_flight, default=None)

    def _send(self, link: ReplicaLink, calls: list[PendingCall]) -> None:
        now = time.monotonic()
        for call in calls:
            call.attempt += 1
            call.link = link
            call.ticket = None
            call.sent_at = now
        items = [BatchItem(meta=call.meta, deadline=call.deadline, buffer_count=len(call.buffers)) for call in calls]
        link.batching.add(self._route.method)
        call_id = 0

        def on_reply(reply: Reply) -> None:
            link.calls.pop(call_id, None)
            self._replied(calls, reply)
            self._finished(link)

        call_id = link.peer.call(
            encode_batch(items),
            [buffer for call in calls for buffer in call.buffers],
            on_reply,
            deadline=max(call.deadline for call in calls),
            flags=FLAG_BATCH,
        )
        link.calls[call_id] = calls

    def _finished(self, link: ReplicaLink) -> None:
        link.batching.discard(self._route.method)
        self.pump(time.monotonic())

    def _replied(self, calls: list[PendingCall], reply: Reply) -> None:
        for call in calls:
            call.link = None
            if not call.settled:
                call.took(reply)
        if not reply.ok:
            for call in calls:
                self._router.fail(call, reply.error())
            return
        try:
            results = decode_batch_result(reply.meta, len(reply.buffers))
        except TrilithError as error:
            results, problem = [], error.message
        else:
            problem = f"{len(calls)} calls were sent and {len(results)} answers came"
        if len(results) != len(calls):
            for call in calls:
                self._router.fail(call, Bug(f"a replica's answer to a batch is wrong ({problem}); please report this"))
            return
        position = 0
        for call, result in zip(calls, results, strict=True):
            buffers = reply.buffers[position : position + result.buffer_count]
            position += result.buffer_count
            if call.settled:
                continue
            if result.ok:
                self._router.succeed(call, result.meta, buffers)
            else:
                self._router.fail(
                    call, error_from_code(result.code, result.message, retry_after_s=result.retry_after_s)
                )
