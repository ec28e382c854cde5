"""Which connection gives way to a new client when all places are taken. Pure: it looks, and says which.

In this order:

    one that never brought a request   the oldest
    one that is idle                   for longest, once it is for 5 s: who asks again and again keeps its own
    one whose body does not come       the slowest, when less than 1 KiB/s came of it for 2 s or longer
    one that is a silent websocket     silent for longest, once it is for 5 s, of those of a client that holds more than
                                       its share of all connections, for a client that holds less

Clients of the last rule are addresses. A proxy is one client, and gives way to nobody who comes by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol, TypeVar

from trilith.core.fair_share import SPARED_S, HeldPlace, giving_way, holder_of

_BODY_S: Final = 2.0
_LEAST_RATE: Final = 1024.0


class Late(Protocol):
    """A body that does not come at once."""

    @property
    def since(self) -> float:
        """The instant since which it is looked at, in seconds."""
        ...

    def rate(self, now: float) -> float:
        """Bytes a second that came since."""
        ...


class Standing(Protocol):
    """A connection, as `trilith.net.http1.port.ServedConnection` has it."""

    @property
    def served(self) -> bool:
        """Whether it brought a request."""
        ...

    @property
    def peer(self) -> str:
        """The client's address."""
        ...

    @property
    def idle_since(self) -> float | None:
        """Since when it waits for a request."""
        ...

    @property
    def late_body(self) -> Late | None:
        """The body that it waits for."""
        ...

    @property
    def silent_since(self) -> float | None:
        """Since when it is a silent websocket."""
        ...


S = TypeVar("S", bound=Standing)


def connection_that_gives_way(connections: Iterable[S], peer: str, now: float) -> S | None:
    """The connection to close, or None: each has its work.

    Args:
        connections: all of them, the oldest first.
        peer: the address of the client that comes.
        now: the instant, in seconds.
    """
    idle: S | None = None
    slow: S | None = None
    idle_since, slowest = now - SPARED_S, _LEAST_RATE
    silent = False
    for connection in connections:
        since = connection.idle_since
        if since is not None:
            if not connection.served:
                return connection
            if since <= idle_since:
                idle, idle_since = connection, since
            continue
        late = connection.late_body
        if late is not None and now - late.since >= _BODY_S and (rate := late.rate(now)) < slowest:
            slow, slowest = connection, rate
        silent = silent or connection.silent_since is not None
    if idle is not None or slow is not None or not silent:
        return idle if idle is not None else slow
    return _silent(connections, holder_of(peer, None), now)


def _silent(connections: Iterable[S], holder: str, now: float) -> S | None:
    places = [
        HeldPlace(
            place=connection,
            holder=holder_of(connection.peer, None),
            since=now if connection.silent_since is None else connection.silent_since,
            progress=1,  # the rate of one message in so long
            waits_for_holder=connection.silent_since is not None,
        )
        for connection in connections
    ]
    return next(iter(giving_way(places, [holder], now)), None)
