"""Desired replicas in, actions out.

Rule 1: pure. What is observed, what is wanted and the instant are arguments; the engine carries the actions out.
Rule 2: surge first. A revision is complete when every service has all its replicas running; until then nothing of the
    old one is drained, so that the switch from one to the other is a single step.
Rule 3: a service that cannot start is tried again ever more slowly, and then no more (`StartBackoff`): no storms.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trilith.orchestration.state import ReplicaState

_LIVE = (ReplicaState.STARTING, ReplicaState.RUNNING)


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
class Kill:
    """End the replica now: it overran a limit."""

    replica_id: int
    reason: str


Action = Start | Drain | Kill


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a replica may take, in seconds."""

    start_s: float = 120.0
    drain_s: float = 30.0
    stop_s: float = 5.0


class StartBackoff:
    """When a service whose replicas die may be started again. Pure.

    The wait doubles with each failure in a row, from `first_s` to `most_s`; a replica that has run for `healthy_s`
    clears the count. After `attempts` failures in a row without one success the service is given up.
    """

    def __init__(
        self, *, first_s: float = 0.1, most_s: float = 10.0, attempts: int = 6, healthy_s: float = 10.0
    ) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._attempts = attempts
        self._healthy_s = healthy_s
        self._failures: dict[str, int] = {}
        self._not_before: dict[str, float] = {}

    def exited(self, service: str, *, ready_for_s: float | None, now: float) -> None:
        """Notes that a replica died by itself. `ready_for_s`: how long it had been running, None when it never was."""
        if ready_for_s is not None and ready_for_s >= self._healthy_s:
            self._failures[service] = 0
        failures = self._failures.get(service, 0) + 1
        self._failures[service] = failures
        # The first death of a replica that did work is replaced at once; storms are slowed.
        wait_s = 0.0 if failures == 1 and ready_for_s is not None else self._first_s * 2 ** (failures - 1)
        self._not_before[service] = now + min(wait_s, self._most_s)

    def not_before(self, service: str) -> float:
        """The earliest instant, in seconds, at which a replica may be started; 0.0 for at once."""
        return self._not_before.get(service, 0.0)

    def given_up(self, service: str) -> bool:
        """Whether the service failed too often in a row."""
        return self._failures.get(service, 0) >= self._attempts

    def failures(self, service: str) -> int:
        """Failures in a row."""
        return self._failures.get(service, 0)

    def forget(self, service: str) -> None:
        """Starts afresh, as for a new revision."""
        self._failures.pop(service, None)
        self._not_before.pop(service, None)


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
        observed: all replicas that are not STOPPED.
        switched: whether calls go to the desired revision already; before that nothing of the old one is drained.
        loading: models are being loaded, which replicas may wait for: the time of those that start does not count.
        backoff: when a failing service may be started again.
        limits: how long a replica may start, drain and stop.
        now: the instant in seconds.
    """
    actions: list[Action] = []
    wakes: list[float] = []
    wanted = {entry.service: entry for entry in desired}
    replicas = list(observed)

    complete = True
    for entry in wanted.values():
        current = [
            r for r in replicas if r.service == entry.service and r.revision == entry.revision and r.state in _LIVE
        ]
        complete = complete and sum(r.state is ReplicaState.RUNNING for r in current) >= entry.replicas
        missing = entry.replicas - len(current)
        if missing > 0 and not backoff.given_up(entry.service):
            not_before = backoff.not_before(entry.service)
            if now >= not_before:
                actions += [Start(entry.service, entry.revision)] * missing
            else:
                wakes.append(not_before)
        elif missing < 0:
            # Those that do not serve yet go first, then the youngest.
            surplus = sorted(current, key=lambda r: (r.state is ReplicaState.RUNNING, -r.replica_id))
            actions += [Drain(replica.replica_id) for replica in surplus[:-missing]]
    if complete and switched:
        actions += [
            Drain(r.replica_id)
            for r in replicas
            if r.state in _LIVE
            and r.service != SEED
            and (r.service not in wanted or r.revision != wanted[r.service].revision)
        ]

    allowed_s = {
        ReplicaState.STARTING: limits.start_s,
        ReplicaState.DRAINING: limits.drain_s,
        ReplicaState.STOPPING: limits.stop_s,
    }
    for replica in replicas:
        limit_s = allowed_s.get(replica.state)
        if limit_s is None or (loading and replica.state is ReplicaState.STARTING and replica.service != SEED):
            continue
        if now - replica.since >= limit_s:
            actions.append(Kill(replica.replica_id, f"{replica.state} for more than {limit_s:g} s"))
        else:
            wakes.append(replica.since + limit_s)
    return Plan(tuple(actions), complete, min(wakes, default=None))
