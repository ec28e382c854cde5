"""One request on its way through the gateway, and where its answer goes.

Rule 1: a call is answered exactly once, through its sink; `PendingCall.settled` guards that.
Rule 2: nothing here chooses or waits; the router does.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from trilith.core.timeline import ADMITTED, ANSWERED, INFER, QUEUED, RECEIVED, SENT, STARTED, Timeline
from trilith.net.transport import Buffer, Reply
from trilith.orchestration.deployments import Deployment, MethodRoute
from trilith.orchestration.engine.links import ReplicaLink
from trilith.wire.calls import unpack_result

if TYPE_CHECKING:
    from trilith.errors import TrilithError
    from trilith.telemetry import Span


class Ticket(Protocol):
    """The place of a call in the queue of a batched method, or in a batch."""

    def withdraw(self) -> None:
        """Takes the call back."""
        ...


class Sink(Protocol):
    """Where the answer of a call goes: an HTTP request, or a replica that called another service."""

    def answer(self, call: PendingCall, meta: bytes, buffers: Sequence[Buffer]) -> None:
        """Delivers a result: a `ResultMeta` as msgpack, and its buffers."""
        ...

    def fail(self, call: PendingCall, error: TrilithError) -> None:
        """Delivers an error."""
        ...


class PendingCall:
    """A request to one method of one service.

    Attributes:
        route: the method.
        meta: `CallMeta` as msgpack, passed on untouched.
        buffers: the body or the packed arguments.
        received_at, submitted_at, sent_at, started_at, finished_at: instants of its way.
        deadline: instant in seconds on the machine's monotonic clock.
        sink: where the answer goes.
        trace: whether the answer is to bring its timeline.
        span: where the call is traced.
        attempt: how often it was sent to a replica.
        revision: of the replica that makes the call, whose like it wants to meet; 0 for calls from outside.
    """

    __slots__ = (
        "attempt",
        "buffers",
        "call_id",
        "deadline",
        "finished_at",
        "link",
        "meta",
        "received_at",
        "revision",
        "route",
        "sent_at",
        "settled",
        "sink",
        "span",
        "started_at",
        "submitted_at",
        "ticket",
        "trace",
    )

    def __init__(
        self,
        route: MethodRoute,
        meta: bytes,
        buffers: Sequence[Buffer],
        *,
        received_at: float,
        submitted_at: float,
        deadline: float,
        sink: Sink,
        trace: bool,
        revision: int = 0,
    ) -> None:
        self.route = route
        self.revision = revision
        self.meta = meta
        self.buffers = buffers
        self.deadline = deadline
        self.sink = sink
        self.trace = trace
        self.span: Span | None = None
        self.attempt = 0
        self.settled = False
        self.link: ReplicaLink | None = None
        self.call_id = 0
        self.ticket: Ticket | None = None  # while it waits for a batch, or is in one
        self.received_at = received_at
        self.submitted_at = submitted_at
        self.sent_at = 0.0
        self.started_at = 0.0
        self.finished_at = 0.0

    @property
    def repeatable(self) -> bool:
        """Whether it could be sent again as it was. Calls with items (`stream_calls`) cannot, after the first one."""
        return True

    def timeline(self, nested: Timeline | None) -> Timeline:
        """The gateway's view of the call, with the replica's own timeline under it."""
        timeline = Timeline(f"gateway {self.route.service}.{self.route.method}", 3)
        timeline.mark(RECEIVED, self.received_at)
        timeline.mark(ADMITTED, self.submitted_at)
        timeline.mark(QUEUED, self.submitted_at)
        timeline.mark(SENT, self.sent_at)
        timeline.mark(STARTED, self.started_at)
        timeline.mark(INFER, self.finished_at)
        timeline.mark(ANSWERED, time.monotonic())
        if nested is not None:
            timeline.adopt(nested)
        return timeline

    def took(self, reply: Reply) -> None:
        """Keeps the replica's stamps of a reply."""
        self.started_at = reply.started_at
        self.finished_at = reply.finished_at


def nested_timeline(meta: bytes) -> Timeline | None:
    """The replica's timeline in the envelope of an answer; None: there is none."""
    timeline = unpack_result(meta).timeline
    return Timeline.from_builtins(timeline) if timeline is not None else None


LinkedDeployment = Deployment[ReplicaLink, PendingCall]
"""A service with its connected replicas and the calls that wait for them."""
