"""Desired replicas in, actions out.

Rule 1: pure. What is observed, what is wanted and the instant are arguments; the engine carries the actions out.
Rule 2: surge first. A revision is complete when every service has all its replicas running; until then nothing of the
    old one is drained, and what dies of it is replaced, so that the switch from one to the other is a single step.
Rule 3: a service that cannot start is tried again ever more slowly, and then no more (`StartBackoff`): no storms.
Rule 4: one that drains for too long is told to end in order; one that does not even do that is killed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trilith.core.backoff import StartBackoff
from trilith.orchestration.state import ReplicaState

_LIVE = (ReplicaState.STARTING, ReplicaState.RUNNING)
_GRACE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredService:
    """How many replicas of which revision of a service should run."""

    service: str
    replicas: int
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedReplica:
    """One replica as the engine sees it. `since` is the instant at which it entered its state, in seconds."""

    replica_id: int
    service: str
    revision: int
    state: ReplicaState
    since: float


SEED = ""
"""The service of a replica that has not said yet what it is: the first worker of a revision, loading its target."""


@dataclass(frozen=True, slots=True)
class Start:
    """Start one more replica."""

    service: str
    revision: int


@dataclass(frozen=True, slots=True)
class Drain:
    """Give the replica nothing new; stop it when it is idle."""

    replica_id: int


@dataclass(frozen=True, slots=True)
class Stop:
    """End the draining replica in order, with what it still holds: it overran its limit."""

    replica_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class Kill:
    """End the replica now: it overran a limit."""

    replica_id: int
    reason: str


Action = Start | Drain | Stop | Kill


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a replica may take, in seconds."""

    start_s: float = 120.0
    drain_s: float = 30.0
    stop_s: float = 5.0

    @property
    def end_s(self) -> float:
        """How long one that was told to stop may live: it is not killed while it reports that it was too slow."""
        return self.stop_s + _GRACE_S


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now.

    Attributes:
        actions: in the order in which to carry them out.
        complete: whether every desired service has all its replicas of the desired revision running.
        wake_at: when to look again, in seconds; None: on the next event.
    """

    actions: tuple[Action, ...]
    complete: bool
    wake_at: float | None


def reconcile(
    desired: Iterable[DesiredService],
    kept: Iterable[DesiredService],
    observed: Iterable[ObservedReplica],
    *,
    switched: bool,
    loading: bool,
    backoff: StartBackoff,
    limits: Limits,
    now: float,
) -> Plan:
    """The actions that bring what is observed towards what is desired.

    Args:
        desired: one entry a service; a service that is not in it is to be stopped once the others run.
        kept: what serves while a change is under way: kept alive, and no part of `complete`.
        observed: all replicas that are not STOPPED.
        switched: whether calls go to the desired revision already; before that nothing of the old one is drained.
        loading: models are being loaded, which replicas may wait for: the time of those that start does not count.
        backoff: when a failing service may be started again.
        limits: how long a replica may start, drain and stop.
        now: the instant in seconds.
    """
    actions: list[Action] = []
    wakes: list[float] = []
    wanted = list(desired)
    replicas = list(observed)

    complete = True
    for entry in (*wanted, *kept):
        current = [
            r for r in replicas if (r.service, r.revision) == (entry.service, entry.revision) and r.state in _LIVE
        ]
        if entry in wanted:
            complete = complete and sum(r.state is ReplicaState.RUNNING for r in current) >= entry.replicas
        missing = entry.replicas - len(current)
        key = entry.service, entry.revision
        if missing > 0 and not backoff.given_up(key):
            not_before = backoff.not_before(key)
            if now >= not_before:
                actions += [Start(entry.service, entry.revision)] * missing
            else:
                wakes.append(not_before)
        elif missing < 0:
            # Those that do not serve yet go first, then the youngest.
            surplus = sorted(current, key=lambda r: (r.state is ReplicaState.RUNNING, -r.replica_id))
            actions += [Drain(replica.replica_id) for replica in surplus[:-missing]]
    if complete and switched:
        names = {(entry.service, entry.revision) for entry in wanted}
        actions += [
            Drain(r.replica_id)
            for r in replicas
            if r.state in _LIVE and r.service != SEED and (r.service, r.revision) not in names
        ]

    allowed_s = {
        ReplicaState.STARTING: limits.start_s,
        ReplicaState.DRAINING: limits.drain_s,
        ReplicaState.STOPPING: limits.end_s,
    }
    for replica in replicas:
        limit_s = allowed_s.get(replica.state)
        if limit_s is None or (loading and replica.state is ReplicaState.STARTING and replica.service != SEED):
            continue
        if now >= replica.since + limit_s:  # by the very sum that it is woken at: a difference may round to less
            end = Stop if replica.state is ReplicaState.DRAINING else Kill
            actions.append(end(replica.replica_id, f"{replica.state} for more than {limit_s:g} s"))
        else:
            wakes.append(replica.since + limit_s)
    return Plan(tuple(actions), complete, min(wakes, default=None))
