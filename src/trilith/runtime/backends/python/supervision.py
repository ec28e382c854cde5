"""What to do about the process of one instance. Pure: what is observed and the instant are arguments.

    STARTING -> RUNNING -> WAITING -> STARTING ...        it died, and is started again after a wait

Rule 1: the exit of a process is news at once, whoever caused it. `exited` alone leaves RUNNING.
Rule 2: a process is killed when it gives no sign of life, executes what nobody waits for any more, or is not ready in
    time after it was started again.
Rule 3: restarts are slowed (`StartBackoff`): no storms. They never end, as what keeps a process from starting may (a
    disk, a licence, a service that is away); but after some failures in a row nobody should wait for it: it is failing.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from trilith.core.backoff import StartBackoff


class InstanceState(enum.StrEnum):
    """Where an instance's process is in its life."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"
    STOPPED = "stopped"


class EndKind(enum.StrEnum):
    """Why a process ended that was started again: the label `reason` of `trilith_model_restarts_total`."""

    DIED = "died"
    SILENT = "silent"
    ABANDONED = "abandoned"
    OVERDUE = "overdue"


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeLimits:
    """How long a process may take.

    Attributes:
        silent_s: without a sign of life; it sends one a second, from a thread of its own.
        abandoned_s: executing a batch of which every request was answered for it: expired, or taken back.
        start_s: from being started again to being ready; None for ever. The first start is whoever loads' to bound.
    """

    silent_s: float = 30.0
    abandoned_s: float = 30.0
    start_s: float | None = 600.0


@dataclass(frozen=True, slots=True)
class StartProcess:
    """Start it again."""


@dataclass(frozen=True, slots=True)
class KillProcess:
    """End it; its exit follows. `kind` is a word for metrics, `reason` a sentence."""

    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class LookAgain:
    """Nothing now. `at` is when to ask again, in seconds; None: on the next event."""

    at: float | None


Decision = StartProcess | KillProcess | LookAgain
_KEY: Final = "instance"
_MOST_FAILING_S: Final = 60.0  # between two starts of what cannot be started


class Supervisor:
    """Decides for one instance.

    Attributes:
        state: where the process is in its life.
        restarts: how often it was started again, by the kind of its end.
    """

    def __init__(self, limits: LifeLimits, backoff: StartBackoff | None = None) -> None:
        self._limits = limits
        self._backoff = backoff or StartBackoff(most_failing_s=_MOST_FAILING_S)
        self._running_since: float | None = None
        self._starting_since: float | None = None
        self._killed_for = ""
        self.state = InstanceState.STARTING
        self.restarts: dict[str, int] = {}

    def started(self, now: float) -> None:
        """The process is ready for requests."""
        if self.state is InstanceState.STARTING:
            self.state = InstanceState.RUNNING
            self._running_since = now

    def exited(self, now: float) -> None:
        """The process has ended, or could not be started."""
        if self.state is InstanceState.STOPPED:
            return
        ready_for_s = None if self._running_since is None else now - self._running_since
        self._running_since = None
        self._backoff.exited(_KEY, ready_for_s=ready_for_s, now=now)
        kind, self._killed_for = self._killed_for or EndKind.DIED, ""
        self.restarts[kind] = self.restarts.get(kind, 0) + 1
        self.state = InstanceState.WAITING

    def stop(self) -> None:
        """Nobody needs the instance any more: its exit is no news."""
        self.state = InstanceState.STOPPED

    def decide(self, now: float, *, heard_at: float, abandoned_since: float | None) -> Decision:
        """What to do now.

        Args:
            now: the instant in seconds.
            heard_at: when the process last gave a sign of life.
            abandoned_since: since when nobody waits for what it executes; None when somebody does, or it idles.
        """
        if self.state is InstanceState.WAITING:
            not_before = self._backoff.not_before(_KEY)
            if now < not_before:
                return LookAgain(not_before)
            self.state = InstanceState.STARTING
            self._starting_since = now
            return StartProcess()
        if self.state is InstanceState.STARTING:
            return self._decide_start(now)
        if self.state is not InstanceState.RUNNING or self._killed_for:
            return LookAgain(None)
        limits = self._limits
        if now - heard_at >= limits.silent_s:
            return self._kill(EndKind.SILENT, f"it gave no sign of life for {limits.silent_s:g} s")
        due = heard_at + limits.silent_s
        if abandoned_since is not None:
            if now - abandoned_since >= limits.abandoned_s:
                return self._kill(
                    EndKind.ABANDONED,
                    f"it still executed {limits.abandoned_s:g} s after the last caller had its answer",
                )
            due = min(due, abandoned_since + limits.abandoned_s)
        return LookAgain(due)

    def _decide_start(self, now: float) -> Decision:
        limit_s, since = self._limits.start_s, self._starting_since
        if limit_s is None or since is None or self._killed_for:
            return LookAgain(None)
        if now - since >= limit_s:
            return self._kill(EndKind.OVERDUE, f"it was not ready {limit_s:g} s after it was started again")
        return LookAgain(since + limit_s)

    @property
    def failing(self) -> bool:
        """Whether it could not be started too often in a row to wait for it; it is tried on."""
        return self._running_since is None and self._backoff.given_up(_KEY)

    @property
    def not_before(self) -> float:
        """The earliest instant of the next start, in seconds."""
        return self._backoff.not_before(_KEY)

    @property
    def failures(self) -> int:
        """Starts in a row of which none succeeded."""
        return self._backoff.failed_starts(_KEY)

    def _kill(self, kind: str, reason: str) -> KillProcess:
        self._killed_for = kind
        return KillProcess(kind, reason)
