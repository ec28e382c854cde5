"""What a router knows of each service: its methods, its replicas, its waiting calls. Pure.

Rule: plain state and lookups. `Traffic` moves calls and replicas between the groups that stand here.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodRoute:
    """One method of a service, as far as a router must know it.

    Attributes:
        service: the service's name.
        method: the method's name; of what is mounted its path.
        timeout_s: the default time limit of a call, in seconds.
        idempotent: whether a call may run twice.
        batch_rows: the largest batch, 0 when the method takes one item at a time.
        batch_wait_s: how long an under-full batch is held; None for as long as that is seen to pay.
        max_waiting: calls that may wait; one more is refused.
        offers: content types of its answer, the default first; of a stream, of its items together.
        streams_out: whether it answers with a stream of items.
        takes: content types in which it takes a stream of items; empty when it takes none.
        arguments: whether it takes anything beside such a stream.
    """

    service: str
    method: str
    timeout_s: float
    idempotent: bool
    batch_rows: int
    batch_wait_s: float | None
    max_waiting: int
    offers: tuple[str, ...] = ()
    streams_out: bool = False
    takes: tuple[str, ...] = ()
    arguments: bool = False

    @property
    def is_mount(self) -> bool:
        """Whether it is no method, but an application or a command at a path."""
        return self.method.startswith("/")

    @property
    def streaming(self) -> bool:
        """Whether its calls have items, either way."""
        return self.streams_out or bool(self.takes)


class Link(Protocol):
    """A connected replica."""

    replica_id: int
    service: str
    revision: int
    removed: bool

    @property
    def in_flight(self) -> int:
        """Calls handed to it and not yet answered."""
        ...

    @property
    def room(self) -> int:
        """How many more calls it can take now."""
        ...


class Call(Protocol):
    """A request to one method of one service.

    `revision`: that of the replica which makes it, 0 from outside; `repeatable`: nothing of it is used up yet.
    """

    route: MethodRoute
    revision: int
    attempt: int
    settled: bool

    @property
    def repeatable(self) -> bool:
        """Whether it could be sent again as it was."""
        ...


L = TypeVar("L", bound=Link)
C = TypeVar("C", bound=Call)


@dataclass(slots=True, kw_only=True)
class Deployment(Generic[L, C]):
    """A service and its replicas.

    Attributes:
        service: its name.
        declared: whether the published revision has it.
        replicas: those that get calls.
        standby: those of another revision than the published one: not yet, or no longer, for calls.
        leaving: removed, with calls left to finish.
        waiting: calls that no replica has yet; those of batched methods wait in a queue of their method.
        beside: calls that replicas of another revision make and no replica of that revision has room for, by revision.
    """

    service: str
    declared: bool = True
    replicas: list[L] = field(default_factory=list)
    standby: list[L] = field(default_factory=list)
    leaving: list[L] = field(default_factory=list)
    waiting: deque[C] = field(default_factory=deque)
    beside: dict[int, deque[C]] = field(default_factory=dict)

    @property
    def everyone(self) -> list[L]:
        """Every connected replica."""
        return [*self.replicas, *self.standby, *self.leaving]

    def alike(self, revision: int) -> list[L]:
        """The connected replicas of one revision, those that leave included."""
        return [link for link in self.everyone if link.revision == revision]

    def group_of(self, link: L) -> list[L] | None:
        """The group that the replica is in, or None: it is not connected any more."""
        return next((group for group in (self.replicas, self.standby, self.leaving) if link in group), None)

    def take_waiting(self) -> list[C]:
        """Empties its queues."""
        taken = [*self.waiting, *(call for queue in self.beside.values() for call in queue)]
        self.waiting.clear()
        self.beside.clear()
        return taken

    def withdraw(self, call: C) -> bool:
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
