"""A connected replica, as the router sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilith.net.transport import Peer, Reply

if TYPE_CHECKING:
    from trilith.orchestration.engine.calls import PendingCall


class ReplicaLink:
    """One replica's connection, and the calls that it holds."""

    __slots__ = (
        "answered",
        "batching",
        "busy_s",
        "calls",
        "overdue",
        "peer",
        "pid",
        "removed",
        "replica_id",
        "revision",
        "runs",
        "service",
        "unready",
    )

    def __init__(self, *, replica_id: int, service: str, revision: int, pid: int, peer: Peer) -> None:
        self.replica_id = replica_id
        self.service = service
        self.revision = revision
        self.pid = pid
        self.peer = peer
        self.removed = False
        self.unready = ""  # why its instance takes no calls now
        self.calls: dict[int, PendingCall | list[PendingCall]] = {}
        self.batching: set[str] = set()  # batched methods of which it runs a batch now
        self.runs = 0
        self.answered = 0
        self.busy_s = 0.0  # of the calls that it answered, from their start to their end, added up
        self.overdue: dict[str, float] = {}  # those of them that nobody waits for any more: when their time was over

    @property
    def in_flight(self) -> int:
        """Calls handed to it and not yet answered."""
        return self.peer.in_flight

    @property
    def room(self) -> int:
        """How many more calls it can take now."""
        return self.peer.credits

    def note(self, reply: Reply, calls: int) -> None:
        """Counts what it has answered."""
        self.runs += 1
        self.answered += calls
        if reply.ok:
            self.busy_s += reply.finished_at - reply.started_at

    def __repr__(self) -> str:
        return (
            f"<Replica {self.service}#{self.replica_id} pid {self.pid}: {self.in_flight} in flight, room {self.room}>"
        )


def held_methods(link: ReplicaLink) -> str:
    """Which methods' calls a replica holds, as the end of a sentence; "" when it holds none that somebody waits for."""
    entries = [entry[0] if isinstance(entry, list) else entry for entry in link.calls.values() if entry]
    names = sorted({f"{call.route.service}.{call.route.method}" for call in entries})
    return f"; it held calls of {', '.join(names)}" if names else ""
