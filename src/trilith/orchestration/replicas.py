"""The book of replicas: one entry a process, moved by events through `state.TRANSITIONS`. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from trilith.orchestration.reconcile import ObservedReplica
from trilith.orchestration.state import ReplicaEvent, ReplicaState, next_state


@dataclass(slots=True, kw_only=True)
class Replica:
    """One worker process.

    Attributes:
        replica_id: unique in the life of the agent.
        service: the service that it runs; "" for the seed of a revision until it has described its application.
        revision: of which revision of the code.
        pid: of its process.
        since: instant at which it entered its state, in seconds.
        ready_at: instant at which it became ready, or None.
        failure: what it said when it could not start.
        deploys: what it does before the deployment of its revision begins; "" when nothing.
        killed: whether the agent has killed it, and said so.
    """

    replica_id: int
    service: str
    revision: int
    pid: int
    since: float
    state: ReplicaState = ReplicaState.STARTING
    ready_at: float | None = None
    failure: str = ""
    deploys: str = ""
    killed: bool = False

    def __repr__(self) -> str:
        return f"<Replica {self.service or '(seed)'}#{self.replica_id} {self.state} pid {self.pid}>"


class ReplicaBook:
    """All replicas that are not STOPPED, by id."""

    def __init__(self) -> None:
        self._replicas: dict[int, Replica] = {}
        self._next_id = 1
        self._restarts: dict[str, int] = {}

    def new_id(self) -> int:
        """An id that was never used."""
        self._next_id += 1
        return self._next_id - 1

    def add(self, replica: Replica) -> None:
        """Enters a started replica."""
        self._replicas[replica.replica_id] = replica

    def get(self, replica_id: int) -> Replica | None:
        """The replica, or None when it has stopped."""
        return self._replicas.get(replica_id)

    def event(self, replica: Replica, event: ReplicaEvent, now: float) -> None:
        """Moves a replica; one that is STOPPED leaves the book.

        Raises:
            Bug: the event cannot happen in its state.
        """
        replica.state = next_state(replica.state, event)
        replica.since = now
        if event is ReplicaEvent.READY:
            replica.ready_at = now
        if replica.state is ReplicaState.STOPPED:
            del self._replicas[replica.replica_id]

    def restart_starts(self, now: float) -> None:
        """The time of those that start counts from now: what they waited for was not theirs."""
        for replica in self._replicas.values():
            if replica.state is ReplicaState.STARTING:
                replica.since = max(replica.since, now)

    def count_restart(self, service: str) -> None:
        """Notes that a replica of the service died by itself."""
        self._restarts[service] = self._restarts.get(service, 0) + 1

    def all(self) -> list[Replica]:
        """Every replica in the book, oldest first."""
        return list(self._replicas.values())

    def observed(self) -> list[ObservedReplica]:
        """What `reconcile` looks at."""
        return [
            ObservedReplica(
                replica_id=replica.replica_id,
                service=replica.service,
                revision=replica.revision,
                state=replica.state,
                since=replica.since,
            )
            for replica in self._replicas.values()
        ]

    def running(self, service: str, revision: int) -> int:
        """Replicas of that revision that serve."""
        return sum(
            replica.state is ReplicaState.RUNNING and (replica.service, replica.revision) == (service, revision)
            for replica in self._replicas.values()
        )

    def restarts(self, service: str) -> int:
        """How many replicas of the service died by themselves."""
        return self._restarts.get(service, 0)
