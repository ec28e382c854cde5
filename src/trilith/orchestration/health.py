"""When a replica that is alive is no good any more. Pure.

Rule 1: a replica is judged by what it does: it must be heard (its event loop turns), and it must let go of calls that
    were taken back (its threads return).
Rule 2: a verdict needs `limit_s` of the same trouble without a break; one sign of life clears it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


def is_stuck(*, room: int, in_flight: int, wanted: int) -> bool:
    """Whether a replica without `room` holds calls (`in_flight`) of which none is `wanted` by its caller any more."""
    return room <= 0 and in_flight > 0 and not wanted


def silent(heard_at: float, now: float, limit_s: float) -> bool:
    """Whether a process was not heard for `limit_s` seconds, in which one that is well is heard several times."""
    return now - heard_at >= limit_s


class HealthWatch(Generic[K]):
    """Watches replicas by key."""

    def __init__(self, limit_s: float, *, heard_every_s: float = 0.0) -> None:
        """Args:
        limit_s: seconds of trouble after which a replica is given up.
        heard_every_s: seconds that may lie between two signs of life of one that is well. What keeps it silent may
            have begun so long after the last one.
        """
        self._limit_s = limit_s
        self._silence_s = limit_s + heard_every_s
        self._stuck_since: dict[K, float] = {}
        self._found: set[K] = set()

    def find(self, key: K, *, heard_at: float, stuck: bool, now: float, overdue_at: float | None = None) -> str | None:
        """Why the replica should be replaced: as `look`, but once for each replica."""
        why = (
            None
            if key in self._found
            else self.look(key, heard_at=heard_at, stuck=stuck, overdue_at=overdue_at, now=now)
        )
        if why is not None:
            self._found.add(key)
        return why

    def look(self, key: K, *, heard_at: float, stuck: bool, now: float, overdue_at: float | None = None) -> str | None:
        """Why the replica should be replaced, or None while it is well enough.

        Args:
            key: the replica.
            heard_at: when it was last heard, a heartbeat included (seconds).
            stuck: it takes no more calls, and every call that it holds was taken back by its caller.
            now: the instant in seconds.
            overdue_at: when the time limit passed of a batch that was given up and still runs, or None.
        """
        if silent(heard_at, now, self._silence_s):
            return (
                f"it was not heard for {now - heard_at:.1f} s: something keeps its event loop from turning, a long"
                " computation in an `async def` (declare it with `def`), or code in any method that keeps Python's"
                " lock (docs/service.md, Code that keeps Python's lock)"
            )
        if overdue_at is not None and now - overdue_at >= self._limit_s:
            return (
                f"a batch that was given up still runs {now - overdue_at:.1f} s after its time limit, and none of that"
                " method starts beside it"
            )
        if not stuck:
            self._stuck_since.pop(key, None)
            return None
        since = self._stuck_since.setdefault(key, now)
        if now - since < self._limit_s:
            return None
        return f"all its threads are taken by calls that were given up more than {now - since:.1f} s ago"

    def found(self, key: K) -> bool:
        """Whether `find` has said that the replica should be replaced."""
        return key in self._found

    def forget(self, key: K) -> None:
        """The replica is gone."""
        self._found.discard(key)
        self._stuck_since.pop(key, None)
