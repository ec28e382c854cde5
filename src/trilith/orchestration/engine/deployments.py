"""What the gateway knows of each service: its methods, its replicas, its waiting calls.

Rule: plain state and lookups. The router moves calls; `routing.power_of_two` chooses.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trilith.net.transport import Peer

if TYPE_CHECKING:
    from trilith.orchestration.engine.calls import PendingCall


class ReplicaLink:
    """A connected replica, as the router sees it."""

    __slots__ = ("batching", "calls", "peer", "pid", "removed", "replica_id", "reported", "revision", "service")

    def __init__(self, *, replica_id: int, service: str, revision: int, pid: int, peer: Peer) -> None:
        self.replica_id = replica_id
        self.service = service
        self.revision = revision
        self.pid = pid
        self.peer = peer
        self.removed = False
        self.reported = False  # the agent was told that it is unwell
        self.calls: dict[int, PendingCall | list[PendingCall]] = {}
        self.batching: set[str] = set()  # batched methods of which it runs a batch now

    @property
    def in_flight(self) -> int:
        """Calls handed to it and not yet answered."""
        return self.peer.in_flight

    @property
    def room(self) -> int:
        """How many more calls it takes now."""
        return 0 if self.removed else self.peer.credits

    def __repr__(self) -> str:
        return (
            f"<Replica {self.service}#{self.replica_id} pid {self.pid}: {self.in_flight} in flight, room {self.room}>"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodRoute:
    """One method of a service, as far as the gateway must know it.

    Attributes:
        service: the service's name.
        method: the method's name.
        timeout_s: the default time limit of a call, in seconds.
        idempotent: whether a call may run twice.
        batch_rows: the largest batch, 0 when the method takes one item at a time.
        batch_wait_s: how long an under-full batch is held.
        queue_limit: calls that may wait; one more is refused.
    """

    service: str
    method: str
    timeout_s: float
    idempotent: bool
    batch_rows: int
    batch_wait_s: float
    queue_limit: int


@dataclass(slots=True, kw_only=True)
class Deployment:
    """A service and its replicas.

    Attributes:
        service: its name.
        declared: whether the published revision has it.
        replicas: those that get calls.
        standby: those of another revision than the published one: not yet, or no longer, for calls.
        leaving: removed, with calls left to finish.
        waiting: calls that no replica has yet; those of batched methods wait in their `BatchQueue`.
        beside: calls that replicas of another revision make and no replica of that revision has room for, by revision.
    """

    service: str
    declared: bool = True
    replicas: list[ReplicaLink] = field(default_factory=list)
    standby: list[ReplicaLink] = field(default_factory=list)
    leaving: list[ReplicaLink] = field(default_factory=list)
    waiting: deque[PendingCall] = field(default_factory=deque)
    beside: dict[int, deque[PendingCall]] = field(default_factory=dict)

    @property
    def everyone(self) -> list[ReplicaLink]:
        """Every connected replica."""
        return [*self.replicas, *self.standby, *self.leaving]

    def alike(self, revision: int) -> list[ReplicaLink]:
        """The connected replicas of one revision, those that leave included."""
        return [link for link in self.everyone if link.revision == revision]

    def take_waiting(self) -> list[PendingCall]:
        """Empties its queues."""
        taken = [*self.waiting, *(call for queue in self.beside.values() for call in queue)]
        self.waiting.clear()
        self.beside.clear()
        return taken

    def withdraw(self, call: PendingCall) -> bool:
        """Takes a call out of the queue that it waits in. Returns False when it waits in none of these."""
        for queue in (self.waiting, *self.beside.values()):
            if call in queue:
                queue.remove(call)
                return True
        return False

    @property
    def waits(self) -> int:
        """Calls in its queues."""
        return len(self.waiting) + sum(len(queue) for queue in self.beside.values())

    @property
    def in_flight(self) -> int:
        """Calls at all its replicas."""
        return sum(link.in_flight for link in self.everyone)
