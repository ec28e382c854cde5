"""What all connections of one server share."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine, Sequence
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

from trilith.errors import TrilithError
from trilith.net.held_bytes import HeldBytes
from trilith.net.http1.giving_way import connection_that_gives_way
from trilith.net.http1.hangup import HangupWatch
from trilith.net.http1.statistics import HttpCounters
from trilith.wire.http1 import HttpLimits, ResponseHeads, refusal
from trilith.wire.http2_heads import Http2Heads
from trilith.wire.http_status import error_body

if TYPE_CHECKING:
    from trilith.net.http1.port import ServedConnection
    from trilith.net.http1.request import HttpRequest

HttpApp = Callable[["HttpRequest"], Coroutine[Any, Any, None] | None]
"""Answers requests. Called on the loop's thread when a request is complete; for a body that is chunked, awaited by
`Expect: 100-continue` or longer than `early_start_bytes`, before (see `HttpRequest.complete`).

It returns None when it has answered, or will do so later by `respond`; else a coroutine, which the server runs as a
task and cancels when the client goes away. What either raises becomes the answer: a `TrilithError` with its own code
and status, anything else as 500 with the code `bug`, its traceback in the log and nothing of it in the answer."""


ErrorForm = Callable[["HttpRequest", TrilithError, int], tuple[int, bytes]]
"""How an error is told, whoever found it: from the request, the error and the status that it would have, the status
and the body (JSON) that are sent. A request that was refused before its head could be read has no path."""


AnswerHeaders = Callable[["HttpRequest", Sequence[tuple[bytes, bytes]]], Sequence[tuple[bytes, bytes]]]
"""The headers of an answer, whoever gives it: from the request and those that it would have, those that are sent."""


def usual_form(request: HttpRequest, error: TrilithError, status: int) -> tuple[int, bytes]:
    """`{"error": {"code": ..., "message": ..., "request_id": ...}}`."""
    return status, error_body(error, request.request_id)


class ServerState:
    """Shared by the server and its connections.

    Attributes:
        now: the monotonic instant of the last tick, in seconds.
        connections: those that are being served, the oldest first.
        tasks: what answers, and what goes on after its answer.
        turned_away: those over the limit, until they have read why.
        draining: no further request is taken after those that have begun.
        error_form: how errors are told.
        answer_headers: what is said in every answer; None for nothing.
        held: the bound on what is kept for clients.
        empty: called when the last connection is gone.
    """

    __slots__ = (
        "_id_prefix",
        "_id_sequence",
        "_none_spare_at",
        "answer_headers",
        "app",
        "connections",
        "counters",
        "draining",
        "empty",
        "error_form",
        "hangups",
        "heads",
        "held",
        "http2_heads",
        "limits",
        "loop",
        "now",
        "tasks",
        "turned_away",
    )

    def __init__(
        self,
        app: HttpApp,
        limits: HttpLimits,
        loop: asyncio.AbstractEventLoop,
        error_form: ErrorForm = usual_form,
        answer_headers: AnswerHeaders | None = None,
        held: HeldBytes | None = None,
    ) -> None:
        self.app = app
        self.held = held if held is not None else HeldBytes()
        self.answer_headers = answer_headers
        self.error_form = error_form
        self.limits = limits
        self.loop = loop
        self.heads = ResponseHeads()
        self.http2_heads = Http2Heads()
        self.counters = HttpCounters()
        self.hangups = HangupWatch(loop)
        self.connections: dict[ServedConnection, None] = {}
        self.turned_away: set[ServedConnection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.draining = False
        self.empty: Callable[[], None] | None = None
        self.now = 0.0
        self._id_prefix = secrets.token_hex(6) + "-"
        self._id_sequence = 0
        self._none_spare_at = -1.0
        self.refresh()

    def refresh(self) -> None:
        """Sets the clock and the date."""
        self.now = time.monotonic()
        date = formatdate(usegmt=True).encode("ascii")
        self.heads.refresh(date)
        self.http2_heads.refresh(date)

    def next_request_id(self) -> str:
        """A request id that is unique to this server's life, and unlikely anywhere else."""
        self._id_sequence += 1
        return f"{self._id_prefix}{self._id_sequence:x}"

    def room(self) -> int:
        """How many connections more may be open, those included that are then told that there are too many."""
        most = self.limits.max_connections + self.limits.max_turned_away
        return most - len(self.connections) - len(self.turned_away)

    def make_room(self, peer: str) -> None:
        """Lets one connection go (see `giving_way`) for a client that comes from the address `peer`."""
        if self._none_spare_at == self.now:
            return  # a crowd that comes costs one look a tick
        spare = connection_that_gives_way(self.connections, peer, self.now)
        if spare is None:
            self._none_spare_at = self.now
            return
        del self.connections[spare]
        self.turned_away.add(spare)  # until it is closed
        too_many = len(self.turned_away) > self.limits.max_turned_away
        if too_many or spare.late_body is None:  # a request that is refused is counted there
            self.counters.refused[refusal.TOO_MANY_CONNECTIONS.reason] += 1
        if too_many:
            spare.abort()
        else:
            spare.give_way()

    def forget(self, connection: ServedConnection) -> None:
        """The connection is closed."""
        self.connections.pop(connection, None)
        self.turned_away.discard(connection)
        if self.empty is not None and not self.connections and not self.turned_away:
            self.empty()
