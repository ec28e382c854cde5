"""One central queue for each batched method, over all replicas of its service.

Rule 1: `CallQueue` decides; this file only moves its batches to replicas and back.
Rule 2: a replica runs one batch of a method at a time, so what arrives meanwhile joins the next one.
Rule 3: each item of a batch is settled by itself: expired, cancelled and failing items harm no other.
Rule 4: a batch is what one frame carries. Nothing is noted of one before it is handed over: a refusal leaves no trace.
Rule 5: a window that closes is a timer of its own, at the instant that the queue names; so is the end of a pause before
    the only free replica takes what waits. Where two are free, nothing pauses.
Rule 6: a call that comes while no replica is free, or while the pause goes on anyway, is only queued.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from typing import Protocol

from trilith.core.clock import timer_delay_s
from trilith.errors import Bug, QueueFull, TrilithError, error_from_code
from trilith.net.transport import Buffer, Reply
from trilith.orchestration.deployments import MethodRoute
from trilith.orchestration.engine.calls import LinkedDeployment, PendingCall
from trilith.orchestration.engine.links import ReplicaLink
from trilith.runtime import CallBatch, CallQueue, QueuedCall
from trilith.wire.batches import FLAG_BATCH, FULL, BatchItem, bulk_of, decode_batch_result, encode_batch


class BatchOwner(Protocol):
    """What the queue needs of the router."""

    def now(self) -> float:
        """The instant, in seconds."""
        ...

    def observe_batch(self, route: MethodRoute, calls: int, /) -> None:
        """A batch of so many calls was handed to a replica."""
        ...

    def succeed(self, call: PendingCall, meta: bytes, buffers: Sequence[Buffer]) -> None:
        """Settles a call with its result."""
        ...

    def fail(self, call: PendingCall, error: TrilithError) -> None:
        """Settles a call with an error, unless it is settled."""
        ...


class BatchTicket(QueuedCall):
    """The place of a call in its queue, or in the batch that a replica has. Its deadline is the router's matter.

    Attributes:
        call: the call.
        queue: where it waits, or waited.
    """

    __slots__ = ("call", "queue")

    def __init__(self, call: PendingCall, queue: BatchQueue) -> None:
        super().__init__(bulk_of(len(call.meta), call.buffers))
        self.call = call
        self.queue = queue

    def withdraw(self) -> None:
        """Takes the call back; in a batch that runs, its result is dropped."""
        self.queue.withdraw(self)


class BatchQueue:
    """The queue of one batched method.

    Attributes:
        route: the method.
    """

    def __init__(self, route: MethodRoute, deployment: LinkedDeployment, owner: BatchOwner) -> None:
        self.route = route
        self._deployment = deployment
        self._owner = owner
        self._queue: CallQueue[BatchTicket] = CallQueue(
            f"{route.service}.{route.method}",
            max_size=route.batch_rows,
            max_wait_s=route.batch_wait_s,
            max_waiting=route.max_waiting,
            max_bulk=FULL,
        )
        self._timer: asyncio.TimerHandle | None = None  # for the end of the window or pause that ends next
        self._due: float | None = None  # when that is
        self._look_again: float = 0  # calls that wait below which there is nothing to decide until then

    @property
    def waiting(self) -> int:
        """Calls that no replica has yet."""
        return len(self._queue)

    def add(self, call: PendingCall, now: float, *, bounded: bool) -> None:
        """Queues a call, and sends a batch when a replica is free for one.

        Raises:
            QueueFull: as many calls wait as may, and the call is `bounded`.
        """
        ticket = BatchTicket(call, self)
        try:
            self._queue.add(ticket, now, free=self._count_free, bounded=bounded)
        except QueueFull as error:
            raise QueueFull(f"{error.message} ({len(self._deployment.replicas)} replicas are running)") from None
        call.ticket = ticket
        if len(self._queue) >= self._look_again or (self._due is not None and now >= self._due):
            self.pump(now)

    def clear(self) -> list[PendingCall]:
        """Takes out every call that waits, oldest first."""
        self._stop_timer()
        calls = [ticket.call for ticket in self._queue.clear()]
        for call in calls:
            call.ticket = None
        return calls

    def withdraw(self, ticket: BatchTicket) -> None:
        """Takes a call back; the replica is told to stop when nobody of its batch waits any more.

        The next batch starts when this one has really ended: a thread cannot be stopped, and runs to its end.
        """
        abandoned = self._queue.withdraw(ticket)
        ticket.call.ticket = None
        link = ticket.call.link
        if abandoned is not None and link is not None and link.calls.pop(abandoned.run, None) is not None:
            link.peer.stop(abandoned.run)
            latest = max(ticket.call.deadline for ticket in abandoned.calls)
            link.overdue[self.route.method] = max(latest, self._owner.now())

    def pump(self, now: float) -> None:
        """Sends batches while some may leave and a replica is free."""
        due: float | None = None
        self._look_again = 0
        while due is None and self._queue.is_ready(now):
            free = list(self._free())
            if not free:
                self._stop_timer()
                self._look_again = math.inf
                return  # the next one that is free comes back here
            if len(free) == 1 and (held_until := self._queue.held_until(now)) > now:
                due = held_until
                self._look_again = self._queue.look_again
            elif (batch := self._queue.leave(now)) is not None:
                self._send(min(free, key=lambda link: link.in_flight), batch)
        self._wake_at(self._queue.next_window_end() if due is None else due, now)

    def _wake_at(self, due: float | None, now: float) -> None:
        if due == self._due:
            return  # nearly each call: a timer for each would cost more than the rest of its way
        self._stop_timer()
        if due is not None:
            self._due = due
            self._timer = asyncio.get_running_loop().call_later(timer_delay_s(due, now), self._woken)

    def _woken(self) -> None:
        self._timer = self._due = None
        self.pump(self._owner.now())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._due = None

    def _free(self) -> Iterator[ReplicaLink]:
        method = self.route.method
        return (link for link in self._deployment.replicas if link.room > 0 and method not in link.batching)

    def _count_free(self) -> int:
        return sum(1 for _ in self._free())

    def _send(self, link: ReplicaLink, batch: CallBatch[BatchTicket]) -> None:
        now = self._owner.now()
        calls = [ticket.call for ticket in batch.calls]
        items = [BatchItem(meta=call.meta, deadline=call.deadline, buffer_count=len(call.buffers)) for call in calls]
        call_id = 0

        def on_reply(reply: Reply) -> None:
            link.calls.pop(call_id, None)
            link.note(reply, len(calls))
            answered_at = self._owner.now() if reply.ok else None
            self._replied(calls, reply)
            self._finished(link, batch, answered_at)

        try:
            call_id = link.peer.call(
                encode_batch(items),
                [buffer for call in calls for buffer in call.buffers],
                on_reply,
                deadline=max(call.deadline for call in calls),
                flags=FLAG_BATCH,
            )
        except TrilithError as error:
            self._queue.over(batch)
            for call in calls:
                call.ticket = None
                self._owner.fail(call, error)
            return
        for call in calls:
            call.attempt += 1
            call.link = link
            call.sent_at = now
        batch.run = call_id
        link.batching.add(self.route.method)
        link.calls[call_id] = calls
        self._owner.observe_batch(self.route, len(calls))

    def _finished(self, link: ReplicaLink, batch: CallBatch[BatchTicket], answered_at: float | None) -> None:
        self._queue.over(batch, answered_at)
        link.batching.discard(self.route.method)
        link.overdue.pop(self.route.method, None)
        self.pump(self._owner.now())

    def _replied(self, calls: list[PendingCall], reply: Reply) -> None:
        for call in calls:
            call.link = call.ticket = None
            if not call.settled:
                call.took(reply)
        if not reply.ok:
            for call in calls:
                self._owner.fail(call, reply.error())
            return
        try:
            results = decode_batch_result(reply.meta, len(reply.buffers))
        except TrilithError as error:
            results, problem = [], error.message
        else:
            problem = f"{len(calls)} calls were sent and {len(results)} answers came"
        if len(results) != len(calls):
            for call in calls:
                self._owner.fail(call, Bug(f"a replica's answer to a batch is wrong ({problem}); please report this"))
            return
        position = 0
        for call, result in zip(calls, results, strict=True):
            buffers = reply.buffers[position : position + result.buffer_count]
            position += result.buffer_count
            if call.settled:
                continue
            if result.ok:
                self._owner.succeed(call, result.meta, buffers)
            else:
                self._owner.fail(call, error_from_code(result.code, result.message, retry_after_s=result.retry_after_s))
