"""Which replica takes a call, which calls wait, and which replicas may go. Pure.

Rule 1: this class moves calls between queues and names the replica for one; sending, answering and telling is the
    router's. It knows no time: what is overdue is `Rounds` and `DeadlineWheel`.
Rule 2: a call waits in one place. One that was accepted once is never refused by a bound again.
Rule 3: calls from outside go to the published revision. Those that a replica makes meet replicas of its own revision,
    or wait for them, while there are any or, for a revision that is coming up, until there are.
Rule 4: a replica that was removed is let go when it holds nothing, and nobody of its revision may call it any more.

Read `place` and `queue_for` first: they are on the way of every request.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic

from trilith.orchestration.deployments import C, Deployment, L, MethodRoute
from trilith.orchestration.refusals import not_served, queue_full
from trilith.orchestration.retry import RetryPolicy
from trilith.orchestration.routing import power_of_two


class Batched(enum.Enum):
    """Not a replica: the call belongs in the queue of its batched method."""

    BATCHED = enum.auto()


BATCHED: Final = Batched.BATCHED


@dataclass(frozen=True, slots=True)
class Displaced(Generic[C]):
    """Calls that were accepted and have to go somewhere.

    Attributes:
        again: are placed anew, in this order.
        over: cannot be answered by anybody any more.
    """

    again: list[C]
    over: list[C]


class Traffic(Generic[L, C]):
    """The replicas and the waiting calls of every service behind one router."""

    def __init__(self, *, random: Callable[[], float], retry: RetryPolicy | None = None) -> None:
        """`random` returns a float in [0, 1); `retry` says how often a lost call may be sent."""
        self._random = random
        self._retry = retry if retry is not None else RetryPolicy()
        self._deployments: dict[str, Deployment[L, C]] = {}
        self._revision = 0

    @property
    def revision(self) -> int:
        """The one that calls from outside go to."""
        return self._revision

    @property
    def deployments(self) -> list[Deployment[L, C]]:
        """All known services."""
        return list(self._deployments.values())

    def deployment(self, service: str) -> Deployment[L, C]:
        """A known service."""
        return self._deployments[service]

    def not_ready(self) -> list[str]:
        """Services without a replica that serves."""
        return sorted(entry.service for entry in self._deployments.values() if entry.declared and not entry.replicas)

    # Calls

    def place(self, call: C, *, first: bool, bounded: bool) -> L | Batched | None:
        """The replica that takes the call; `BATCHED`; or None when it waits here.

        Args:
            first: it goes before all that wait: it waited, and was sent, before them.
            bounded: it is new, and may be refused.

        Raises:
            QueueFull: as many calls wait as may.
            NotFound: the service is not served any more.
        """
        if call.revision and call.revision != self._revision:
            beside = self._deployment_beside(call)
            if beside is not None:
                return self._place_beside(beside, call, first=first, bounded=bounded)
            call.revision = 0  # none of its caller's kind is left
        route = call.route
        deployment = self._deployments.get(route.service)
        if deployment is None or not deployment.declared:
            raise not_served(route)
        if route.batch_rows:
            return BATCHED
        if first or not deployment.waiting:
            link = power_of_two(deployment.replicas, self._random)
            if link is not None:
                return link
        if first:
            deployment.waiting.appendleft(call)
        elif bounded and len(deployment.waiting) >= route.max_waiting:
            raise queue_full(route.service, len(deployment.waiting), len(deployment.replicas))
        else:
            deployment.waiting.append(call)
        return None

    def queue_for(self, deployment: Deployment[L, C], link: L) -> deque[C] | None:
        """The queue out of which a replica of the service that has room gets its next calls."""
        if link.revision == self._revision:
            return None if link.removed else deployment.waiting
        return deployment.beside.get(link.revision)  # one that leaves still takes what its like call

    def withdraw(self, call: C) -> bool:
        """Takes a call out of the queue that it waits in; False when it waits in none of these."""
        deployment = self._deployments.get(call.route.service)
        return deployment is not None and deployment.withdraw(call)

    def _deployment_beside(self, call: C) -> Deployment[L, C] | None:
        """Where a call meets the kind of its caller, of another revision; None: nowhere, now or later."""
        deployment = self._deployments.get(call.route.service)
        if self._comes(call.revision):
            return deployment if deployment is not None else self._undeclared(call.route.service)
        return deployment if deployment is not None and deployment.alike(call.revision) else None

    def _place_beside(self, deployment: Deployment[L, C], call: C, *, first: bool, bounded: bool) -> L | None:
        """Calls of a batched method go one by one here: those replicas are on their way out, or not yet in."""
        alike = deployment.alike(call.revision)
        queue = deployment.beside.setdefault(call.revision, deque())
        free = [link for link in alike if link.room > 0]
        if free and (first or not queue):
            return min(free, key=lambda link: link.in_flight)
        if first:
            queue.appendleft(call)
        elif bounded and len(queue) >= call.route.max_waiting:
            raise queue_full(call.route.service, len(queue), len(alike))
        else:
            queue.append(call)
        return None

    def _comes(self, revision: int) -> bool:
        """Whether calls are to go to the revision later. One that is dropped ends its own replicas, and their calls."""
        return revision > self._revision

    def stranded(self, link: L) -> list[C]:
        """Takes out what waited for the kind of a replica that has gone, when it was the last of them."""
        deployment, revision = self._deployments.get(link.service), link.revision
        if deployment is None or revision not in deployment.beside:
            return []
        if deployment.alike(revision) or self._comes(revision):
            return []
        return [call for call in deployment.beside.pop(revision) if not call.settled]

    # Revisions and replicas

    def publish(
        self,
        revision: int,
        services: Iterable[str],
        methods: Mapping[tuple[str, str], MethodRoute],
        waiting: Collection[C],
    ) -> Displaced[C]:
        """Calls go to the replicas of `revision` from now on, by its methods; those of others get nothing new.

        Args:
            revision: which.
            services: the names of its services.
            methods: its methods, by service and method.
            waiting: the calls of batched methods, which waited elsewhere.
        """
        taken = [call for entry in self._deployments.values() for call in entry.take_waiting()]
        self._revision = revision
        for service in services:
            self._deployments.setdefault(service, Deployment(service=service))
        declared = {service for service, _ in methods}
        for deployment in self._deployments.values():
            connected = [*deployment.replicas, *deployment.standby]
            deployment.declared = deployment.service in declared
            deployment.replicas = [link for link in connected if link.revision == revision]
            deployment.standby = [link for link in connected if link.revision != revision]
        outcome: Displaced[C] = Displaced([], [])
        for call in (*taken, *waiting):
            if call.settled:
                continue
            route = methods.get((call.route.service, call.route.method))
            if call.revision and call.revision != revision:
                outcome.again.append(call)  # its caller is of another revision: so will be who answers it
            elif route is None:
                outcome.over.append(call)
            else:
                call.route = route
                outcome.again.append(call)
        return outcome

    def add(self, link: L) -> Deployment[L, C]:
        """A replica is connected: it gets calls from outside once its revision is the published one."""
        deployment = self._deployments.get(link.service) or self._undeclared(link.service)
        (deployment.replicas if link.revision == self._revision else deployment.standby).append(link)
        return deployment

    def remove(self, replica_id: int) -> L | None:
        """Gives the replica nothing new; None when it is not connected. `let_go` tells when it has finished."""
        for deployment in self._deployments.values():
            for group in (deployment.replicas, deployment.standby):
                for link in group:
                    if link.replica_id == replica_id:
                        link.removed = True
                        group.remove(link)
                        deployment.leaving.append(link)
                        return link
        return None

    def find(self, replica_id: int) -> L | None:
        """The connected replica of that number."""
        connected = (link for deployment in self._deployments.values() for link in deployment.everyone)
        return next((link for link in connected if link.replica_id == replica_id), None)

    def lost(self, link: L, held: Iterable[tuple[C, bool]]) -> Displaced[C]:
        """The replica's connection died.

        Args:
            link: the replica.
            held: the calls that it held, and whether it had begun each of them (or it is not known).
        """
        link.removed = True
        deployment = self._deployments.get(link.service)
        group = deployment.group_of(link) if deployment is not None else None
        if group is not None:
            group.remove(link)
        outcome: Displaced[C] = Displaced([], [])
        for call, begun in held:
            if not call.settled:
                again = call.repeatable and self._retry.may_retry(
                    begun=begun, idempotent=call.route.idempotent, attempt=call.attempt
                )
                (outcome.again if again else outcome.over).append(call)
        return outcome

    def leaving(self) -> list[L]:
        """The replicas that were removed and not let go."""
        return [link for deployment in self._deployments.values() for link in deployment.leaving]

    def let_go(self, link: L) -> bool:
        """Whether a replica that leaves has finished. It is forgotten when this returns True."""
        deployment = self._deployments.get(link.service)
        if deployment is None or link not in deployment.leaving or self._needed(link):
            return False
        deployment.leaving.remove(link)
        return True

    def drop_deserted(self) -> None:
        """Forgets services that are not served any more, once their last replica is gone."""
        for service, deployment in list(self._deployments.items()):
            if not deployment.declared and not deployment.everyone and not deployment.waits:
                del self._deployments[service]

    def _undeclared(self, service: str) -> Deployment[L, C]:
        deployment = self._deployments[service] = Deployment(service=service, declared=False)
        return deployment

    def _needed(self, link: L) -> bool:
        """Whether it has work, or may get some: replicas of its own revision that still work may call it."""
        if link.in_flight or any(entry.beside.get(link.revision) for entry in self._deployments.values()):
            return True
        return link.revision != self._revision and any(
            other.in_flight
            for deployment in self._deployments.values()
            for other in deployment.everyone
            if other.revision == link.revision
        )
