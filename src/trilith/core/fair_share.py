"""Who gives way when all places are taken and others wait: shares of places that are held for long. Pure.

Rule 1: nobody gives way while nobody else waits, and never to a place of the same holder.
Rule 2: a holder's share is an equal part of the places that are held, one at least, who waits counted among the
        holders. Who holds more gives way to who holds less; nobody falls below a share by it.
Rule 3: a place gives way while it waits for its own client, and only when it has been held for some seconds. Of these
        the one with the least progress for the time that it was held comes first.

A holder is an API key, or whoever a caller is known as; else the address of the client.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from trilith.core.identity import Identity

SPARED_S: Final = 5.0
"""So long a place that was just taken is kept, in seconds."""

P = TypeVar("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPlace(Generic[P]):
    """A place that somebody holds.

    Attributes:
        place: what it is.
        holder: who holds it.
        since: the instant since which it is held, in seconds.
        progress: how much has passed in that time, in any unit that all places share.
        waits_for_holder: nothing goes on there until its client does something.
    """

    place: P
    holder: str
    since: float
    progress: int
    waits_for_holder: bool

    def rate(self, now: float) -> float:
        """Its progress a second."""
        return self.progress / max(now - self.since, 1e-3)


def holder_of(client: str, identity: Identity | None) -> str:
    """Who holds what a call takes. `client`: its address, `host:port`."""
    if identity is not None:
        return f"{identity.kind} {identity.name}"
    return client.rpartition(":")[0] or client


def giving_way(places: Sequence[HeldPlace[P]], waiting: Iterable[str], now: float) -> list[P]:
    """The places to end, at most one for each that waits.

    Args:
        places: all that are held.
        waiting: the holders of what waits, in the order in which places are wanted.
        now: the instant, in seconds.
    """
    held = Counter(place.holder for place in places)
    getting: Counter[str] = Counter()
    loose = sorted(
        (place for place in places if place.waits_for_holder and now - place.since >= SPARED_S),
        key=lambda place: place.rate(now),
    )
    ended: list[P] = []
    for holder in waiting:
        share = max(1, len(places) // len({*held, holder}))
        if held[holder] + getting[holder] >= share:
            continue
        found = next((place for place in loose if held[place.holder] > share), None)
        if found is None:
            continue
        loose.remove(found)
        held[found.holder] -= 1
        getting[holder] += 1
        ended.append(found.place)
    return ended
