"""A connection that has become a websocket: messages both ways, signs of life, and an end that both sides know of.

How to read it. The transport calls the `asyncio.Protocol` methods. What comes is read into messages as long as the
application takes them; `WebSocket` is what the application sees of it.

Rule 1: it is open until `code` is set, and `code` is set once: by the client's close, by ours, by a violation, or by
    the loss of the connection. Nothing is written after the close.
Rule 2: messages that nobody takes are bounded. Beyond that the socket is not read, and its hang-up is watched for.
Rule 3: who waits is told from the loop, never from within a call of its own: so no message overtakes another.
Rule 4: what is over knows neither its request nor who waited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Final, cast

from trilith.core.logs import Accesses
from trilith.net.held_bytes import LARGE_BYTES, ConnectionShare
from trilith.net.http1.gate import FULL_READ_BYTES, ReadGate
from trilith.net.http1.outbound import Outbound
from trilith.net.http1.websocket_waiters import WebSocketWaiters
from trilith.net.request_log import http_answered
from trilith.wire import websocket as wire
from trilith.wire.websocket_deflate import Deflate
from trilith.wire.websocket_inbox import WebSocketInbox

if TYPE_CHECKING:
    from trilith.errors import TrilithError
    from trilith.net.http1.request import HttpRequest
    from trilith.net.http1.state import ServerState

_GOING: Final = "the server is stopping"
_FAILED: Final = "the server failed; its log has the reason under the request id"
_WANTED: Final = "the server has many connections, and others wait: try again later"
_FULL: Final = "the server holds all that it may for its clients: try again later"


class WebSocketConnection(asyncio.Protocol):
    """One websocket, from its handshake on.

    Attributes:
        code, reason: of the end as this side knows it; 0 while it is open.
        on_drain: called when the server begins to stop; None closes then.
    """

    __slots__ = (
        "_close_by",
        "_deaf",
        "_deflate",
        "_gate",
        "_gone",
        "_heard_at",
        "_held_bytes",
        "_inbox",
        "_limits",
        "_loop",
        "_out",
        "_pinged",
        "_request",
        "_rests",
        "_said_at",
        "_share",
        "_state",
        "_transport",
        "_waiters",
        "code",
        "on_drain",
        "peer",
        "reason",
    )

    _transport: asyncio.Transport
    _gate: ReadGate

    def __init__(self, state: ServerState, request: HttpRequest, out: Outbound, deflate: Deflate | None) -> None:
        self._state = state
        self._limits = state.limits
        self._loop = state.loop
        self._request: HttpRequest | None = request
        self._out = out
        self._deflate = deflate
        reader = wire.WebSocketReader(max_message_bytes=request.max_body_bytes, deflate=deflate)
        self._inbox = WebSocketInbox(reader, state.limits.read_ahead_bytes)
        self._held_bytes = 0
        self._waiters = WebSocketWaiters(self._loop)
        self._share = ConnectionShare(state.held)
        self._heard_at = self._said_at = monotonic()
        self.peer = request.peer
        self._pinged = self._deaf = self._gone = self._rests = False
        self._close_by = 0.0
        self.code = 0
        self.reason = ""
        self.on_drain: Callable[[], None] | None = None

    # From the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """For the connection that it was before."""
        self._transport = cast(asyncio.Transport, transport)
        self._gate = ReadGate(self._transport, self._state.hangups, self)
        self._state.connections[self] = None

    def data_received(self, data: bytes) -> None:
        """For the transport."""
        self._state.counters.bytes_received += len(data)
        self._heard_at = self._state.now
        self._pinged = False
        if self._deaf:
            return
        self._inbox.feed(data)
        self._read()
        self._hold()
        if len(data) >= FULL_READ_BYTES:
            self._gate.rest(self._loop)
        if self._inbox:
            self._said_at = self._heard_at
            self._waiters.tell_message()

    def eof_received(self) -> None:
        """For the transport, which closes itself after it."""
        self._lost()

    def hung_up(self) -> None:
        """For the hang-up watch."""
        self._lost()
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """For the transport."""
        self._lost()
        self._share.end()
        self._gate.end()
        self._state.forget(self)

    def pause_writing(self) -> None:
        """For the transport."""
        self._out.paused = True

    def resume_writing(self) -> None:
        """For the transport."""
        self._out.resume()
        self._share.unsent(self._out.unsent_bytes)
        self._waiters.tell_room()

    # What comes.

    def _read(self) -> None:
        """Takes messages out of the octets that are here, while there is room for them."""
        if self._deaf:
            return
        try:
            ping, closing, more = self._inbox.read(keep=not self.code)
        except wire.WebSocketViolation as violation:
            self._refuse(violation.code, violation.reason)
            return
        if closing is not None:
            self._closed_by_client(closing)
            return
        if more:
            self._read_later()
        if ping is not None and not self.code and not self._out.paused:
            self._out.write(wire.pong_frame(ping.payload))

    def _read_later(self) -> None:
        """Lets others have their turn."""
        if not self._rests:
            self._rests = True
            self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        self._rests = False
        self._read()
        self._hold()
        if self._inbox:
            self._waiters.tell_message()

    def _hold(self) -> None:
        """Counts what lies here, and holds the client when that is enough."""
        held = self._inbox.held_bytes
        self._share.take(held - self._held_bytes)
        self._held_bytes = held
        if self._share.passed and not self.code:
            self._share.refuse()
            self._refuse(wire.TRY_LATER, _FULL)
        full = (self._inbox.full or self._rests) and not self._deaf
        if self._gate.set(paused=full) and not full:
            self._heard_at = self._state.now  # the time for which it was held is not its own

    def take(self) -> str | bytes | None:
        """The next message, or None."""
        message = self._inbox.take()
        if message is not None:
            if self._gate.paused and not self._rests and not self._inbox.full:
                self._read()
            self._hold()
        return message

    async def wait(self) -> None:
        """Returns when a message or the end may be here."""
        await self._waiters.for_message()

    def when_message(self, callback: Callable[[], None]) -> None:
        """Calls back whenever messages came, and at the end."""
        self._waiters.when_message(callback)
        if self._inbox or self.code:
            self._loop.call_soon(self._waiters.tell_message)

    # What goes.

    def write(self, payload: bytes, *, text: bool) -> bool:
        """Sends a message. Whether the client reads fast enough. Does nothing after the end."""
        if self.code:
            return True
        self._said_at = self._state.now
        made = None if self._deflate is None else self._deflate.compress(payload)
        sent = payload if made is None else made
        self._out.write(wire.message_head(len(sent), text=text, compressed=made is not None), sent)
        if len(sent) > LARGE_BYTES:
            self._share.unsent(self._out.unsent_bytes)
        return not self._out.paused

    async def room(self) -> None:
        """Returns when the client has read enough, or at the end."""
        if self._out.paused and not self.code:
            await self._waiters.for_room()

    def when_room(self, callback: Callable[[], None]) -> None:
        """Calls back once, then."""
        self._waiters.when_room(callback)

    # The end.

    def close(self, code: int, reason: str) -> None:
        """Closes, behind what was sent. Does nothing after the end."""
        if self.code:
            return
        self._over(code, reason, gone=False)
        self._inbox.clear()
        self._out.write(wire.close_frame(code, reason))
        self._close_by = monotonic() + self._limits.websocket_close_s
        if self._gate.paused:
            self._read()
        self._hold()

    def fail(self) -> None:
        """The application failed."""
        self.close(wire.FAILED, _FAILED)

    def _closed_by_client(self, closing: wire.Closing) -> None:
        self._deaf = True
        if not self.code:
            self._over(closing.code, closing.reason, gone=True)
            self._out.write(wire.close_frame(closing.code, closing.reason))
        self._shut()

    def _refuse(self, code: int, reason: str) -> None:
        """What the client sends is read no further. It may go on for a moment, so that it can read why."""
        self._deaf = True
        if self.code:
            self._shut()
            return
        self._over(code, reason, gone=True)
        self._out.write(wire.close_frame(code, reason))
        self._close_by = monotonic() + self._limits.linger_timeout_s
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def _lost(self) -> None:
        self._deaf = True
        if not self.code:
            self._state.counters.disconnects += 1
            self._over(wire.LOST, "", gone=True)

    def _shut(self) -> None:
        self._gate.forget()
        self._transport.close()

    def _over(self, code: int, reason: str, *, gone: bool) -> None:
        self.code, self.reason, self._gone = code, reason, gone
        self._loop.call_soon(self._tell_end)

    def _tell_end(self) -> None:
        request, self._request, self.on_drain = self._request, None, None
        if request is not None:
            request.websocket = None
            if Accesses.on:
                http_answered(request, 101, whole=self.code != wire.LOST)
            request.end_websocket(gone=self._gone)
        self._waiters.over()

    # For the server.

    @property
    def busy(self) -> bool:
        """Whether it is open, or its end is not with the client yet."""
        return not self.code or self._out.unsent

    @property
    def served(self) -> bool:
        """It is being."""
        return True

    @property
    def idle_since(self) -> None:
        """It never is: its silence has bounds of its own."""

    late_body: None = None

    @property
    def silent_since(self) -> float | None:
        """Since when no message came or went; None: it is closing."""
        return None if self.code else self._said_at

    def give_way(self) -> None:
        """Closes: another needs the place."""
        self.close(wire.TRY_LATER, _WANTED)

    @property
    def in_flight(self) -> bool:
        """Whether it is open."""
        return not self.code

    def close_when_idle(self) -> None:
        """The server begins to stop."""
        if self.on_drain is not None:
            self.on_drain()
        else:
            self.close(wire.GOING_AWAY, _GOING)

    def give_up(self, error: TrilithError) -> None:
        """The server stops, and waits for this one no longer. `error`: is that of requests; here a code says it."""
        if not self._out.unsent:
            self.close(wire.GOING_AWAY, _GOING)

    def abort(self) -> None:
        """Ends it at once; while the server stops, with a word."""
        if self._state.draining and not self.code and not self._out.unsent:
            self.close(wire.GOING_AWAY, _GOING)
            self._shut()
        else:
            self._gate.forget()
            self._transport.abort()

    def check(self, now: float) -> None:
        """Ends what has lasted too long, and asks for signs of life.

        Args:
            now: the current monotonic instant in seconds.
        """
        limits = self._limits
        self._share.unsent(self._out.unsent_bytes)
        if not self._out.is_moving(now, limits.write_timeout_s):
            self._state.counters.write_timeouts += 1
            self.abort()
        elif self._close_by:
            if now > self._close_by and not self._out.unsent:
                self.abort()
        elif self._gate.paused or self._transport.is_closing():
            return
        elif self._pinged:
            if now - self._heard_at > limits.websocket_ping_s + limits.websocket_pong_s:
                self.abort()
        elif now - self._heard_at > limits.websocket_ping_s:
            self._pinged = True
            self._out.write(wire.ping_frame())
