"""When a router has to look at its calls and replicas. Pure: the instants are arguments, the caller sets the timer.

Rule 1: as late as may be: a wake-up of an idle process costs those that compute beside it their caches.
Rule 2: a call that is over its deadline is ended within two granularities; replicas that leave are looked at every
    granularity; those that serve every `look_s`.
"""

from __future__ import annotations


class Rounds:
    """The instant of the next round, which only moves forward in time by `begin` and `end`.

    Attributes:
        next_at: when the next round is due, in seconds.
        covered_from: a call whose deadline is before this instant needs a round that is earlier than the next.
    """

    __slots__ = ("_granularity_s", "_look_at", "_look_s", "covered_from", "next_at")

    def __init__(self, *, granularity_s: float, look_s: float, now: float) -> None:
        self._granularity_s = granularity_s
        self._look_s = look_s
        self._look_at = now
        self._set(now + granularity_s)

    def _set(self, at: float) -> None:
        self.next_at = at
        self.covered_from = at - self._granularity_s

    def cover(self, deadline: float) -> None:
        """A call with this deadline, which is before `covered_from`, was taken: the next round is early enough for it.

        It is one granularity after the deadline, since that is how exact a `DeadlineWheel` is.
        """
        self._set(deadline + self._granularity_s)

    def replica_leaves(self, now: float) -> None:
        """A replica was removed: the next round is soon."""
        self._set(min(self.next_at, now + self._granularity_s))

    def begin(self, now: float) -> bool:
        """A round begins. Returns whether the replicas that serve are to be looked at in it.

        The round after it is set at once: whatever goes wrong in this one, deadlines are enforced.
        """
        self._set(now + self._look_s)
        if now < self._look_at:
            return False
        self._look_at = now + self._look_s
        return True

    def end(self, now: float, *, first_deadline: float | None, leaving: bool) -> None:
        """The round that began at `now` is done.

        Args:
            now: the instant that `begin` was told.
            first_deadline: when the first call that is left is overdue, or None.
            leaving: some replica leaves.
        """
        soon = now + self._granularity_s
        if leaving:
            self._set(soon)
        elif first_deadline is None:
            self._set(self._look_at)
        else:
            self._set(min(self._look_at, max(first_deadline, soon)))
