"""What the loops and the connections know of each other: lanes, stations, and who hears of them.

Rule 1: a lane carries one request at a time. An HTTP/1.1 connection is one lane; an HTTP/2 connection has many.
Rule 2: a station is the way to one target: it opens a bounded number of lanes, and opens a lost one again.
Rule 3: a station never counts and a loop never connects.
"""

from __future__ import annotations

import ssl
from typing import Any, Final, Protocol

REFUSED: Final = "connection refused"
RESET: Final = "connection reset"
CLOSED: Final = "closed before the answer"
CUT_OFF: Final = "answer cut off"
MALFORMED: Final = "malformed answer"
TIMEOUT: Final = "timeout"
BACKLOG: Final = "not sent, too many waited"

LONGEST_PAUSE_S: Final = 1.0
FIRST_PAUSE_S: Final = 0.01


Request = Any
"""What a station's lanes send; only they look inside, save for its `size_bytes`."""


class Waiting:
    """A request that is due and has no lane yet."""

    __slots__ = ("due_at", "request", "taken_up_at")

    def __init__(self, request: Request, due_at: float, taken_up_at: float) -> None:
        self.request = request
        self.due_at = due_at
        self.taken_up_at = taken_up_at


class Lane(Protocol):
    """Carries one request at a time.

    Attributes:
        station: which of the loop's stations it belongs to.
        slot: which of the station's lanes this is.
        due_at: instant in seconds at which the request in flight was due; for the loop to set, like the next two.
        sent_at: instant at which it was sent.
        last_item_at: instant of the last item of an answer of several, 0.0 before the first.
        waiting: whether a request is in flight.
        sampled: whether the request in flight asked for its timeline.
        timeline: the timeline of the last sampled answer, or None.
        timeline_place: the path at which the server keeps it, when it was too long for a header, or None.
    """

    station: int
    slot: int
    due_at: float
    sent_at: float
    last_item_at: float
    waiting: bool
    sampled: bool
    timeline: bytes | None
    timeline_place: bytes | None

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent."""
        ...

    def send(self, request: Request, *, sampled: bool) -> None:
        """Writes a request, of the kind that its station prepares."""
        ...


class Load(Protocol):
    """A loop, as lanes and stations see it."""

    def opened(self, lane: Lane, asked_at: float) -> None:
        """A lane that was asked for at the instant `asked_at` is open."""
        ...

    def ended(self, lane: Lane, error: str) -> None:
        """The whole answer is there. `error` is "" when it is a good one, else its kind: `status 503`."""
        ...

    def items(self, lane: Lane, number: int) -> None:
        """So many more items of an answer of several are there."""
        ...

    def failed(self, lane: Lane, kind: str) -> None:
        """The lane is lost, and with it the request in flight, if any. Its station opens it again."""
        ...

    def unreachable(self, station: int, slot: int, kind: str) -> None:
        """A lane could not be opened. Its station tries again."""
        ...


class Station(Protocol):
    """The way to one target.

    Attributes:
        connections_opened: so far.
    """

    connections_opened: int

    @property
    def received_bytes(self) -> int:
        """Bytes read so far."""
        ...

    @property
    def open_lanes(self) -> int:
        """Lanes that are open now."""
        ...

    def open(self, load: Load, lanes: int) -> None:
        """Begins to open so many lanes, on the running event loop."""
        ...

    def waiting_lanes(self) -> list[Lane]:
        """Those with a request in flight."""
        ...

    def drop(self, lane: Lane) -> None:
        """Gives up the request in flight on a lane, reports nothing, and opens the lane again where that is needed."""
        ...

    async def close(self) -> None:
        """Drops everything."""
        ...


def connect_error(error: OSError | TimeoutError) -> str:
    """The word for a connection that could not be opened."""
    if isinstance(error, ConnectionRefusedError):
        return REFUSED
    if isinstance(error, ConnectionResetError):
        return RESET
    if isinstance(error, TimeoutError):
        return TIMEOUT
    if isinstance(error, ssl.SSLError):
        return "TLS handshake failed"
    return f"cannot connect ({error.strerror or error})"
