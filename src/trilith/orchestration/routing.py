"""Which replica gets the next request.

Rule 1: a policy reads in-flight counts and room, and returns a choice; it never awaits and never mutates.
Rule 2: this file does not know sockets, HTTP or time.

Power of two choices: of two replicas drawn at random take the one with less in flight. It stays within a constant of
the least loaded one without looking at all of them, and many routers that use it at once do not herd onto one replica
(M. Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", 2001).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar


class Candidate(Protocol):
    """What a policy may know of a replica."""

    @property
    def in_flight(self) -> int:
        """Requests handed to it and not yet answered."""
        ...

    @property
    def room(self) -> int:
        """How many more requests it takes now."""
        ...


C = TypeVar("C", bound=Candidate)


def power_of_two(candidates: Sequence[C], random: Callable[[], float]) -> C | None:
    """The less loaded of two random candidates with room, or None when no candidate has room.

    Args:
        candidates: the replicas that serve; the order does not matter.
        random: returns a float in [0, 1).

    When neither of the two has room, all are looked at: a free replica is never left idle while a request waits.
    """
    count = len(candidates)
    if count == 1:
        only = candidates[0]
        return only if only.room > 0 else None
    if count == 0:
        return None
    first = int(random() * count)
    second = int(random() * (count - 1))
    if second >= first:
        second += 1
    a, b = candidates[first], candidates[second]
    if a.room > 0 and (b.room <= 0 or a.in_flight <= b.in_flight):
        return a
    if b.room > 0:
        return b
    return min((c for c in candidates if c.room > 0), key=lambda c: c.in_flight, default=None)
