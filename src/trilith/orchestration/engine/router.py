"""The gateway's only router: from a pending call to a replica, and its answer back. Doer.

Rule 1: everything happens on the loop's thread; no locks, no tasks a call.
Rule 2: which replica takes a call, what waits and what is sent again is `Traffic`'s to say; when something is due,
    `Rounds`'. This file sends, answers, and sets the timer.
Rule 3: a cancelled or expired call that a replica holds keeps its slot until the replica has really let go of it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from trilith.core.attention import Attention
from trilith.core.clock import Clock, MonotonicClock
from trilith.errors import Cancelled, TrilithError
from trilith.net.transport import LostCall, PeerConfig, Reply
from trilith.orchestration.deadlines import DeadlineWheel
from trilith.orchestration.deployments import MethodRoute
from trilith.orchestration.engine.batching import BatchQueue
from trilith.orchestration.engine.calls import LinkedDeployment, PendingCall
from trilith.orchestration.engine.crowds import Crowds
from trilith.orchestration.engine.links import ReplicaLink, held_methods
from trilith.orchestration.engine.stream_calls import ItemCounts, StreamCall
from trilith.orchestration.health import HealthWatch, is_stuck
from trilith.orchestration.refusals import not_served, overdue, replica_lost
from trilith.orchestration.retry import RetryPolicy
from trilith.orchestration.rounds import Rounds
from trilith.orchestration.traffic import BATCHED, Traffic

_log: Final = logging.getLogger("trilith.gateway")
_TICK_S = 0.02
_LOOK_S = 0.5
# A heartbeat follows when a round of the timer finds that nothing was sent since the last one.
_HEARD_EVERY_S: Final = 2 * PeerConfig().heartbeat_interval_s


class Router:
    """Routes calls to replicas. Created and used on one event loop."""

    def __init__(
        self,
        *,
        observe: Callable[[PendingCall, TrilithError | None], None],
        observe_batch: Callable[[MethodRoute, int], None],
        on_idle: Callable[[int], None],
        on_unwell: Callable[[int, str], None],
        unresponsive_s: float = 30.0,
        retry: RetryPolicy | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Assigns; `start` begins.

        Args:
            observe: told of each settled call, for metrics.
            observe_batch: told of each batch that a replica is given, and how many calls it has.
            on_idle: told the id of a removed replica that has nothing in flight any more.
            on_unwell: told the id of a replica that should be replaced, and why; once each.
            unresponsive_s: seconds that a replica may be silent, or hold only calls that were given up.
            retry: how often a lost call may be sent.
            clock: where instants come from; the machine's by default.
        """
        self._observe = observe
        self.observe_batch = observe_batch
        self._on_idle = on_idle
        self._on_unwell = on_unwell
        self.now = (clock or MonotonicClock()).now
        self._health: HealthWatch[int] = HealthWatch(unresponsive_s, heard_every_s=_HEARD_EVERY_S)
        self._attention = Attention(_LOOK_S)
        self._traffic: Traffic[ReplicaLink, PendingCall] = Traffic(random=random.Random().random, retry=retry)
        self._place = self._traffic.place
        self._batches: dict[tuple[str, str], BatchQueue] = {}
        self._deadlines: DeadlineWheel[PendingCall] = DeadlineWheel(_TICK_S)
        self._rounds = Rounds(granularity_s=_TICK_S, look_s=_LOOK_S, now=self.now())
        self._crowds = Crowds()
        self._timer: asyncio.TimerHandle | None = None
        self.retried = 0
        self.items: dict[tuple[str, str], ItemCounts] = {}

    # Life

    def start(self) -> None:
        """Begins to enforce deadlines."""
        self._timer = asyncio.get_running_loop().call_later(_TICK_S, self._round)

    def stop(self) -> None:
        """Ends the timer. Calls that are left get an error when their replica goes."""
        if self._timer is not None:
            self._timer.cancel()

    def publish(self, revision: int, services: Iterable[str], routes: Iterable[MethodRoute]) -> None:
        """From now on calls go to the replicas of `revision`, by its methods.

        Calls that wait stay, in order; one whose method is gone gets an error. Replicas of other revisions finish what
        they have and get nothing new; the agent drains them. The revision that serves may be published once more.
        """
        methods = {(route.service, route.method): route for route in routes}
        # A queue goes on with the replicas that run its batches: their ends are what moves it.
        kept = {
            key: queue
            for key, queue in self._batches.items()
            if revision == self._traffic.revision and methods.get(key) == queue.route
        }
        batched = [call for key, queue in self._batches.items() if key not in kept for call in queue.clear()]
        waiting = self._traffic.publish(revision, services, methods, batched)
        self._batches = {
            key: kept.get(key) or BatchQueue(route, self._traffic.deployment(route.service), self)
            for key, route in methods.items()
            if route.batch_rows
        }
        for call in waiting.over:
            self._fail(call, not_served(call.route))
        for call in waiting.again:
            self._place_again(call, first=False)
        for queue in kept.values():
            queue.pump(self.now())
        self._traffic.drop_deserted()

    @property
    def deployments(self) -> list[LinkedDeployment]:
        """All known services."""
        return self._traffic.deployments

    def waiting(self, service: str) -> int:
        """Calls of a service that no replica has yet."""
        queues = (queue for (name, _), queue in self._batches.items() if name == service)
        return self._traffic.deployment(service).waits + sum(queue.waiting for queue in queues)

    def batched(self, service: str) -> list[MethodRoute]:
        """The methods of a service whose calls are joined to batches."""
        return [queue.route for (name, _), queue in self._batches.items() if name == service]

    def not_ready(self) -> list[str]:
        """Services without a replica that serves."""
        unready = (each.service for each in self.deployments if each.replicas and all(r.unready for r in each.replicas))
        return sorted({*self._traffic.not_ready(), *unready})

    def ready(self) -> bool:
        """Whether each service has a replica that serves."""
        return not self.not_ready()

    # Replicas

    def add(self, link: ReplicaLink) -> None:
        """A replica is ready: it gets calls once its revision is the published one."""
        deployment = self._traffic.add(link)
        link.peer.on_credits = partial(self._room, deployment, link)
        self._room(deployment, link)

    def remove(self, replica_id: int) -> None:
        """Gives the replica nothing new; `on_idle` tells when it has finished what it has."""
        link = self._traffic.remove(replica_id)
        if link is None:
            self._on_idle(replica_id)
            return
        self._tell_if_idle(link)
        self._rounds.replica_leaves(self.now())
        self._arm()

    def gone(self, replica_id: int) -> None:
        """The replica's process has exited: its connection is ended if it has not ended by itself."""
        link = self._traffic.find(replica_id)
        if link is not None:
            link.peer.abort()  # which reports the calls that it held, to `lost`

    def lost(self, link: ReplicaLink, calls: list[LostCall]) -> None:
        """The replica's connection died."""
        unwell = self._health.found(link.replica_id)
        self._health.forget(link.replica_id)
        begun = {call.call_id: call.accepted for call in calls}
        held: list[tuple[PendingCall, bool]] = []
        for call_id, entry in link.calls.items():
            for call in entry if isinstance(entry, list) else [entry]:
                call.link = call.ticket = None
                held.append((call, begun.get(call_id, True)))
        link.calls = {}
        displaced = self._traffic.lost(link, held)
        for call in displaced.over:
            items = call.items_out if isinstance(call, StreamCall) else 0
            self._fail(call, replica_lost(call.route, call.attempt, unwell=unwell, items=items))
        self.retried += len(displaced.again)
        for call in reversed(displaced.again):
            self._place_again(call, first=True)
        self._place_stranded(link)
        self._traffic.drop_deserted()

    # Calls

    def submit(self, call: PendingCall) -> None:
        """Sends the call to a replica, or queues it; its sink gets the answer or the error.

        Raises:
            QueueFull: as many calls wait as may.
            NotFound: the service or its method is not served any more.
        """
        link = self._place(call, first=False, bounded=True)
        if link is BATCHED:
            self._queue_batched(call, bounded=True)
        elif link is not None:
            self.send(link, call, self.now())
        if not call.settled:
            deadline = call.deadline
            self._deadlines.add(call, deadline)
            if deadline < self._rounds.covered_from:
                self._rounds.cover(deadline)
                self._arm()

    def cancel(self, call: PendingCall, error: TrilithError | None = None) -> None:
        """The caller is gone: nothing is answered any more, the replica is told to stop working on it.

        `error` is what it counts as, when that is another one than `Cancelled`.
        """
        if not call.settled:
            self._withdraw(call)
            # Another replica that called is owed an answer still.
            self._fail(call, Cancelled("the caller went away") if error is None else error)

    def send(self, link: ReplicaLink, call: PendingCall, now: float) -> None:
        """Hands one call to one replica that has room. One that cannot be sent fails: it has left its queue."""
        try:
            if isinstance(call, StreamCall):
                key = (call.route.service, call.route.method)
                counts = self.items.setdefault(key, ItemCounts())
                call_id = call.open(link.peer, lambda reply: self._replied(link, call, reply), counts)
            else:
                call_id = link.peer.call(
                    call.meta, call.buffers, lambda reply: self._replied(link, call, reply), deadline=call.deadline
                )
        except TrilithError as error:
            self._fail(call, error)
            return
        call.call_id = call_id
        call.attempt += 1
        call.link = link
        call.sent_at = now
        link.calls[call_id] = call

    def _place_again(self, call: PendingCall, *, first: bool) -> None:
        """Places a call that was accepted before: no bound refuses it now."""
        try:
            link = self._place(call, first=first, bounded=False)
            if link is BATCHED:
                self._queue_batched(call, bounded=False)
            elif link is not None:
                self.send(link, call, self.now())
        except TrilithError as error:
            self._fail(call, error)

    def _queue_batched(self, call: PendingCall, *, bounded: bool) -> None:
        queue = self._batches.get((call.route.service, call.route.method))
        if queue is None:
            raise not_served(call.route)
        queue.add(call, self.now(), bounded=bounded)

    def _place_stranded(self, link: ReplicaLink) -> None:
        for call in self._traffic.stranded(link):
            self._place_again(call, first=False)

    def _room(self, deployment: LinkedDeployment, link: ReplicaLink) -> None:
        waiting = self._traffic.queue_for(deployment, link)
        while waiting and link.room > 0:
            now = self.now()
            call = self._crowds.next_call(deployment, waiting, now)
            if not call.settled:
                self.send(link, call, now)
        if self._batches and link.revision == self._traffic.revision:
            for (service, _), queue in self._batches.items():
                if service == deployment.service:
                    queue.pump(self.now())

    def _replied(self, link: ReplicaLink, call: PendingCall, reply: Reply) -> None:
        link.calls.pop(call.call_id, None)
        link.note(reply, 1)
        call.link = None
        if not call.settled:
            call.took(reply)
            if reply.ok:
                self.succeed(call, reply.meta, reply.buffers)
            else:
                self._fail(call, reply.error())
        if link.removed:
            self._tell_if_idle(link)

    def succeed(self, call: PendingCall, meta: bytes, buffers: Any) -> None:
        """Settles a call with its result."""
        try:
            call.sink.answer(call, meta, buffers)
        except TrilithError as error:  # the replica's answer cannot be sent as it is: a bad header, say
            self._fail(call, error)
        else:
            self._settle(call, None)

    def fail(self, call: PendingCall, error: TrilithError) -> None:
        """Settles a call with an error, unless it is settled."""
        if not call.settled:
            self._fail(call, error)

    def _fail(self, call: PendingCall, error: TrilithError) -> None:
        call.sink.fail(call, error)
        self._settle(call, error)

    def _settle(self, call: PendingCall, error: TrilithError | None) -> None:
        self._deadlines.discard(call, call.deadline)
        call.settled = True
        self._observe(call, error)

    def _withdraw(self, call: PendingCall) -> None:
        """Takes the call back from wherever it is."""
        link = call.link
        if link is not None and link.calls.get(call.call_id) is call:
            link.peer.cancel(call.call_id)
            # The peer counts the slot as taken until the replica lets go; the reply itself is not delivered any more.
            del link.calls[call.call_id]
        elif not self._traffic.withdraw(call) and call.ticket is not None:
            call.ticket.withdraw()

    def _tell_if_idle(self, link: ReplicaLink) -> None:
        if self._traffic.let_go(link):
            self._place_stranded(link)
            self._on_idle(link.replica_id)
            self._traffic.drop_deserted()

    # Rounds

    def _round(self) -> None:
        now = self.now()
        looks = self._rounds.begin(now)
        self._arm()
        for call in self._deadlines.expired(now):
            if call.settled:
                _log.error("a settled call of %s was still watched for its deadline", call.route.service)
                continue
            if isinstance(call, StreamCall) and (later := call.due_at(now)) > now:
                call.deadline = later
                self._deadlines.add(call, later)
                continue
            sent = call.link is not None
            limit_s = call.limit_s if isinstance(call, StreamCall) else call.deadline - call.received_at
            self._withdraw(call)
            self._fail(call, overdue(call.route, limit_s, sent=sent))
        for link in self._traffic.leaving():
            self._tell_if_idle(link)
        if looks:
            self._look_after_replicas(now)
        self._rounds.end(now, first_deadline=self._deadlines.next_at(), leaving=bool(self._traffic.leaving()))
        self._arm()

    def _arm(self) -> None:
        """Sets the timer to the next round."""
        if self._timer is None:  # not started
            return
        self._timer.cancel()
        delay_s = max(0.0, self._rounds.next_at - self.now())
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._round)

    def _look_after_replicas(self, now: float) -> None:
        listening_since = self._attention.look(now)
        for deployment in self._traffic.deployments:
            if deployment.waiting:
                self._crowds.look(deployment, now)
            for link in (*deployment.replicas, *deployment.standby):
                # `calls` holds those that somebody waits for; the peer counts those that were taken back as well.
                stuck = is_stuck(room=link.room, in_flight=link.in_flight, wanted=len(link.calls))
                why = self._health.find(
                    link.replica_id,
                    heard_at=max(link.peer.last_heard_at, listening_since),
                    stuck=stuck,
                    overdue_at=min(link.overdue.values(), default=None),
                    now=now,
                )
                if why is not None:
                    self._on_unwell(link.replica_id, why + held_methods(link))
