"""The gateway's only router: from a pending call to a replica, and its answer back. Doer; the choosing is pure.

Rule 1: everything happens on the loop's thread; no locks, no tasks a call.
Rule 2: a call waits in one place, a queue of its deployment, where it can be bounded, expired and counted.
Rule 3: a lost replica's calls run again only as `RetryPolicy` allows; otherwise each gets one clear error.
Rule 4: a cancelled or expired call that a replica holds keeps its slot until the replica has really let go of it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from trilith.errors import (
    Cancelled,
    DeadlineExceeded,
    NotFound,
    QueueFull,
    ReplicaLost,
    TrilithError,
)
from trilith.net.transport import LostCall, Reply
from trilith.orchestration.deadlines import DeadlineWheel
from trilith.orchestration.engine.batching import BatchQueue
from trilith.orchestration.engine.calls import PendingCall
from trilith.orchestration.engine.deployments import Deployment, MethodRoute, ReplicaLink
from trilith.orchestration.health import HealthWatch
from trilith.orchestration.retry import RetryPolicy
from trilith.orchestration.routing import power_of_two

_log: Final = logging.getLogger("trilith.gateway")
_TICK_S = 0.02
_LOOK_S = 0.5


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
    ) -> None:
        """Assigns; `start` begins.

        Args:
            observe: told of each settled call, for metrics.
            observe_batch: told of each batch that a replica is given, and how many calls it has.
            on_idle: told the id of a removed replica that has nothing in flight any more.
            on_unwell: told the id of a replica that should be replaced, and why; once each.
            unresponsive_s: seconds that a replica may be silent, or hold only calls that were given up.
            retry: how often a lost call may be sent.
        """
        self._observe = observe
        self.observe_batch = observe_batch
        self._on_idle = on_idle
        self._on_unwell = on_unwell
        self._health: HealthWatch[int] = HealthWatch(unresponsive_s)
        self._next_look = 0.0
        self._revision = 0  # that calls go to
        self._retry = retry if retry is not None else RetryPolicy()
        self._deployments: dict[str, Deployment] = {}
        self._batches: dict[tuple[str, str], BatchQueue] = {}
        self._deadlines: DeadlineWheel[PendingCall] = DeadlineWheel(_TICK_S)
        self._random = random.Random()
        self._timer: asyncio.TimerHandle | None = None
        self._tick_at = 0.0  # when the timer fires
        self.retried = 0

    # Life

    def start(self) -> None:
        """Begins to enforce deadlines."""
        self._timer = asyncio.get_running_loop().call_later(_TICK_S, self._tick)

    def stop(self) -> None:
        """Ends the timer. Calls that are left get an error when their replica goes."""
        if self._timer is not None:
            self._timer.cancel()

    def publish(self, revision: int, services: Iterable[str], routes: Iterable[MethodRoute]) -> None:
        """From now on calls go to the replicas of `revision`, by its methods.

        Calls that wait stay, in order; one whose method is gone gets an error. Replicas of other revisions finish what
        they have and get nothing new; the agent drains them.
        """
        self._revision = revision
        waiting = self._take_waiting()
        methods = {(route.service, route.method): route for route in routes}
        for service in services:
            self._deployments.setdefault(service, Deployment(service=service))
        declared = {service for service, _ in methods}
        for deployment in self._deployments.values():
            everyone = [*deployment.replicas, *deployment.standby]
            deployment.declared = deployment.service in declared
            deployment.replicas = [link for link in everyone if link.revision == revision]
            deployment.standby = [link for link in everyone if link.revision != revision]
        self._batches = {
            key: BatchQueue(route, self._deployments[route.service], self)
            for key, route in methods.items()
            if route.batch_rows
        }
        for call in waiting:
            route = methods.get((call.route.service, call.route.method))
            if call.revision and call.revision != revision:
                self._place_again(call, first=False)  # its caller is of another revision: so will be who answers it
            elif route is None:
                self._fail(call, NotFound(f"{call.route.service}.{call.route.method} is no longer served"))
            else:
                call.route = route
                self._place_again(call, first=False)
        self._drop_deserted()

    def _take_waiting(self) -> list[PendingCall]:
        """Empties every queue."""
        taken: list[PendingCall] = []
        for deployment in self._deployments.values():
            taken += deployment.take_waiting()
        for queue in self._batches.values():
            taken += queue.clear()
        return [call for call in taken if not call.settled]

    def _drop_deserted(self) -> None:
        """Forgets services that are not served any more, once their last replica is gone."""
        for service, deployment in list(self._deployments.items()):
            if not deployment.declared and not deployment.everyone and not deployment.waits:
                del self._deployments[service]

    @property
    def deployments(self) -> list[Deployment]:
        """All known services."""
        return list(self._deployments.values())

    def waiting(self, service: str) -> int:
        """Calls of a service that no replica has yet."""
        queues = (queue for (name, _), queue in self._batches.items() if name == service)
        return self._deployments[service].waits + sum(queue.waiting for queue in queues)

    def not_ready(self) -> list[str]:
        """Services without a replica that serves."""
        return sorted(entry.service for entry in self._deployments.values() if entry.declared and not entry.replicas)

    def ready(self) -> bool:
        """Whether each service has a replica that serves."""
        return not self.not_ready()

    # Replicas

    def add(self, link: ReplicaLink) -> None:
        """A replica is ready: it gets calls once its revision is the published one."""
        deployment = self._deployments.setdefault(link.service, Deployment(service=link.service, declared=False))
        link.peer.on_credits = lambda: self._room(deployment, link)
        if link.revision == self._revision:
            deployment.replicas.append(link)
            self._room(deployment, link)
        else:
            deployment.standby.append(link)
            self._room(deployment, link)

    def remove(self, replica_id: int) -> None:
        """Gives the replica nothing new; `on_idle` tells when it has finished what it has."""
        for deployment in self._deployments.values():
            for group in (deployment.replicas, deployment.standby):
                for link in group:
                    if link.replica_id == replica_id:
                        link.removed = True
                        group.remove(link)
                        deployment.leaving.append(link)
                        self._tell_if_idle(deployment, link)
                        self._tick_by(time.monotonic() + _TICK_S)
                        return
        self._on_idle(replica_id)

    def gone(self, replica_id: int) -> None:
        """The replica's process has exited: its connection is ended if it has not ended by itself."""
        for deployment in self._deployments.values():
            for link in deployment.everyone:
                if link.replica_id == replica_id:
                    link.peer.abort()  # which reports the calls that it held, to `lost`
                    return

    def lost(self, link: ReplicaLink, calls: list[LostCall]) -> None:
        """The replica's connection died."""
        deployment = self._deployments.get(link.service)
        link.removed = True
        self._health.forget(link.replica_id)
        if deployment is not None:
            for group in (deployment.replicas, deployment.standby, deployment.leaving):
                if link in group:
                    group.remove(link)
        begun = {call.call_id: call.accepted for call in calls}
        held, link.calls = link.calls, {}
        again: list[PendingCall] = []
        for call_id, entry in held.items():
            for call in entry if isinstance(entry, list) else [entry]:
                call.link = call.ticket = None
                if call.settled:
                    continue
                if self._retry.may_retry(
                    begun=begun.get(call_id, True), idempotent=call.route.idempotent, attempt=call.attempt
                ):
                    self.retried += 1
                    again.append(call)
                else:
                    self._fail(call, _lost(call))
        for call in reversed(again):
            self._place_again(call, first=True)
        if deployment is not None:
            self._place_stranded(deployment, link.revision)
        self._drop_deserted()

    # Calls

    def submit(self, call: PendingCall) -> None:
        """Sends the call to a replica, or queues it; its sink gets the answer or the error.

        Raises:
            QueueFull: as many calls wait as may.
            NotFound: the service or its method is not served any more.
        """
        self._place(call, first=False, bounded=True)
        if not call.settled:
            self._deadlines.add(call, call.deadline)
            if call.deadline < self._tick_at - _TICK_S:
                self._tick_by(call.deadline + _TICK_S)

    def cancel(self, call: PendingCall) -> None:
        """The caller is gone: nothing is answered any more, the replica is told to stop working on it."""
        if not call.settled:
            self._withdraw(call)
            self._fail(call, Cancelled("the caller went away"))  # another replica that called is owed an answer still

    def send(self, link: ReplicaLink, call: PendingCall, now: float) -> None:
        """Hands one call to one replica that has room."""
        call.attempt += 1
        call.link = link
        call.sent_at = now
        call.call_id = call_id = link.peer.call(
            call.meta, call.buffers, lambda reply: self._replied(link, call, reply), deadline=call.deadline
        )
        link.calls[call_id] = call

    def _place_again(self, call: PendingCall, *, first: bool) -> None:
        """Places a call that was accepted before: no bound refuses it now."""
        try:
            self._place(call, first=first, bounded=False)
        except TrilithError as error:
            self._fail(call, error)

    def _place_beside(self, call: PendingCall, *, first: bool, bounded: bool) -> None:
        """Places a call that a replica of another revision makes: its own kind answers it, while there is one or, for
        a revision that is coming up, as soon as there is.

        Calls of a batched method go one by one here: those replicas are on their way out, or not yet in.
        """
        route = call.route
        deployment = self._deployments.get(route.service)
        if deployment is None and self._comes(call.revision):
            deployment = self._deployments[route.service] = Deployment(service=route.service, declared=False)
        alike = deployment.alike(call.revision) if deployment is not None else []
        if deployment is None or not (alike or self._comes(call.revision)):
            call.revision = 0
            self._place(call, first=first, bounded=bounded)
            return
        queue = deployment.beside.setdefault(call.revision, deque())
        free = [link for link in alike if link.peer.credits > 0]
        if free and (first or not queue):
            self.send(min(free, key=lambda link: link.in_flight), call, time.monotonic())
        elif first:
            queue.appendleft(call)
        elif bounded and len(queue) >= route.queue_limit:
            raise _full(route.service, len(queue), len(alike))
        else:
            queue.append(call)

    def _place_stranded(self, deployment: Deployment, revision: int) -> None:
        """Places anew what waited for replicas of a revision, when the last of them has gone."""
        if revision in deployment.beside and not (deployment.alike(revision) or self._comes(revision)):
            for call in deployment.beside.pop(revision):
                if not call.settled:
                    self._place_again(call, first=False)

    def _comes(self, revision: int) -> bool:
        """Whether calls are to go to the revision later. One that is dropped ends its own replicas, and their calls."""
        return revision > self._revision

    def _place(self, call: PendingCall, *, first: bool, bounded: bool) -> None:
        if call.revision and call.revision != self._revision:
            self._place_beside(call, first=first, bounded=bounded)
            return
        route = call.route
        deployment = self._deployments.get(route.service)
        if deployment is None or not deployment.declared:
            raise NotFound(f"{route.service}.{route.method} is no longer served")
        if route.batch_rows:
            queue = self._batches.get((route.service, route.method))
            if queue is None:
                raise NotFound(f"{route.service}.{route.method} is no longer served")
            queue.add(call, time.monotonic(), bounded=bounded)
            return
        if first or not deployment.waiting:
            link = power_of_two(deployment.replicas, self._random.random)
            if link is not None:
                self.send(link, call, time.monotonic())
                return
        if first:
            deployment.waiting.appendleft(call)
        elif bounded and len(deployment.waiting) >= route.queue_limit:
            raise _full(route.service, len(deployment.waiting), len(deployment.replicas))
        else:
            deployment.waiting.append(call)

    def _room(self, deployment: Deployment, link: ReplicaLink) -> None:
        if link.revision != self._revision:
            self._room_beside(deployment, link)
            return
        waiting = deployment.waiting
        while waiting and link.room > 0:
            call = waiting.popleft()
            if not call.settled:
                self.send(link, call, time.monotonic())
        for (service, _), queue in self._batches.items():
            if service == deployment.service:
                queue.pump(time.monotonic())

    def _room_beside(self, deployment: Deployment, link: ReplicaLink) -> None:
        """A replica of another revision has room. One that leaves still takes what its like call."""
        waiting = deployment.beside.get(link.revision)
        while waiting and link.peer.credits > 0:
            call = waiting.popleft()
            if not call.settled:
                self.send(link, call, time.monotonic())

    def _replied(self, link: ReplicaLink, call: PendingCall, reply: Reply) -> None:
        link.calls.pop(call.call_id, None)
        call.link = None
        if not call.settled:
            call.took(reply)
            if reply.ok:
                self.succeed(call, reply.meta, reply.buffers)
            else:
                self._fail(call, reply.error())
        if link.removed:
            self._tell_if_idle(self._deployments.get(link.service), link)

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
        route, link = call.route, call.link
        if link is not None and link.calls.get(call.call_id) is call:
            link.peer.cancel(call.call_id)
            # The peer counts the slot as taken until the replica lets go; the reply itself is not delivered any more.
            del link.calls[call.call_id]
            return
        deployment = self._deployments.get(route.service)
        if deployment is not None and deployment.withdraw(call):
            return
        if call.ticket is not None:
            call.ticket.withdraw()

    def _tell_if_idle(self, deployment: Deployment | None, link: ReplicaLink) -> None:
        if deployment is not None and link in deployment.leaving and not self._needed(link):
            deployment.leaving.remove(link)
            self._place_stranded(deployment, link.revision)
            self._on_idle(link.replica_id)
            self._drop_deserted()

    def _needed(self, link: ReplicaLink) -> bool:
        """Whether it has work, or may get some: replicas of its own revision that still work may call it."""
        if link.in_flight or any(entry.beside.get(link.revision) for entry in self._deployments.values()):
            return True
        return link.revision != self._revision and any(
            other.in_flight
            for deployment in self._deployments.values()
            for other in deployment.everyone
            if other.revision == link.revision
        )

    def _tick(self) -> None:
        now = time.monotonic()
        # The next tick first: whatever goes wrong in this one, deadlines are enforced.
        self._tick_by(now + _LOOK_S)
        for call in self._deadlines.expired(now):
            if call.settled:
                _log.error("a settled call of %s was still watched for its deadline", call.route.service)
                continue
            where = "while it waited for a replica" if call.link is None else "before the replica answered"
            self._withdraw(call)
            self._fail(
                call,
                DeadlineExceeded(
                    f"{call.route.service}.{call.route.method} did not answer within"
                    f" {call.deadline - call.received_at:.3g} s: the time ran out {where}. The limit is timeout_s of"
                    " @trilith.api or @trilith.service, or less if the caller says so (trilith-timeout-ms)"
                ),
            )
        for deployment in list(self._deployments.values()):
            for link in list(deployment.leaving):
                self._tell_if_idle(deployment, link)
        if now >= self._next_look:
            self._next_look = now + _LOOK_S
            self._look_after_replicas(now)
        self._tick_by(self._next_tick_at(now))

    def _next_tick_at(self, now: float) -> float:
        """As late as may be: a wake-up of an idle process costs those that compute beside it their caches."""
        if any(deployment.leaving for deployment in self._deployments.values()):
            return now + _TICK_S
        first = self._deadlines.next_at()
        return self._next_look if first is None else min(self._next_look, max(first, now + _TICK_S))

    def _tick_by(self, at: float) -> None:
        if self._timer is None:  # not started
            return
        self._timer.cancel()
        self._tick_at = at
        self._timer = asyncio.get_running_loop().call_later(max(0.0, at - time.monotonic()), self._tick)

    def _look_after_replicas(self, now: float) -> None:
        for deployment in self._deployments.values():
            for link in (*deployment.replicas, *deployment.standby):
                # `calls` holds those that somebody waits for; the peer counts those that were taken back as well.
                stuck = link.room <= 0 and link.in_flight > 0 and not link.calls
                why = self._health.look(link.replica_id, heard_at=link.peer.last_heard_at, stuck=stuck, now=now)
                if why is not None and not link.reported:
                    link.reported = True
                    self._on_unwell(link.replica_id, why)


def _full(service: str, waiting: int, replicas: int) -> QueueFull:
    return QueueFull(
        f"{waiting} calls of {service} wait already, which is its limit; try again later"
        f" ({replicas} replicas are running)"
    )


def _lost(call: PendingCall) -> ReplicaLost:
    ended = f"the process that ran {call.route.service}.{call.route.method} ended before it answered"
    if call.route.idempotent:
        return ReplicaLost(f"{ended}; so did {call.attempt} processes in a row, and the call is not sent again")
    return ReplicaLost(
        f"{ended}; the call may have run, so it was not sent again. Declare the method idempotent=True to have such"
        " calls retried"
    )
