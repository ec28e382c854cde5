"""One client's connection: reads octets, turns the HTTP/2 layer's events into calls, and keeps the time.

Rule 1: what a client may do is decided in `trilith.wire.http2`; what a call is, in `call.py`; what its body says, in
`intake.py`; what is answered, in `sending.py`; foreign code runs in `dispatch.py`; `http2_writer.py` writes.
Rule 2: every second the server calls `tick`; only calls with a deadline have a timer, one for the whole connection.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Final, cast

from trilith.errors import Draining, TrilithError, Unsupported
from trilith.net.grpc import answers
from trilith.net.grpc.call import CallState, GrpcCall
from trilith.net.grpc.deadlines import DeadlineTimer
from trilith.net.grpc.dispatch import tell_drain
from trilith.net.grpc.intake import Intake
from trilith.net.grpc.lifetime import Due, Lifetime
from trilith.net.grpc.sending import CallSender
from trilith.net.grpc.state import Admit, ServerState
from trilith.net.grpc.statistics import CallRefusal
from trilith.net.held_bytes import ConnectionShare
from trilith.net.http2_stalls import StallWatch
from trilith.net.http2_writer import SocketWriter
from trilith.wire.grpc_messages import PREFIX_BYTES
from trilith.wire.grpc_request import NOT_GRPC, call_head
from trilith.wire.http2 import (
    ConnectionFailed,
    ConnectionState,
    DataReceived,
    Event,
    Http2Connection,
    PingAcknowledged,
    RequestReceived,
    RequestRefused,
    StreamReset,
    TrailersReceived,
)

_RECEIVING: Final = CallState.RECEIVING
_HANDSHAKE: Final = (ConnectionState.AWAIT_PREFACE, ConnectionState.AWAIT_SETTINGS)
_DRAIN_PING: Final = b"trl drn\0"
_KEEPALIVE_PING: Final = b"trl ping"
_TIMER_SLACK_S: Final = 0.002


class GrpcConnection(asyncio.Protocol):
    """A connection of a `GrpcServer`. Made by the server, used by the loop and by its calls."""

    def __init__(self, state: ServerState) -> None:
        # The rest is made with the connection: one whose TLS handshake failed never is, and nobody tells it of its end.
        self._server = state
        self._limits = state.limits
        self._counters = state.counters
        self._refusing = False
        self._peer = ""

    def _make_parts(self) -> None:
        state = self._server
        self._now = time.monotonic()
        self._http2 = Http2Connection(state.limits.http2(), now=self._now)
        self._timer = DeadlineTimer(state.loop, self._on_deadline)
        self._share = share = ConnectionShare(state.held)
        self._sender = CallSender(state, self._http2, self._schedule, share)
        self._calls = self._sender.calls
        self._intake = Intake(state, self._http2, self._schedule, share)
        self._stalls = StallWatch(state.limits.write_timeout_s)
        self._life = Lifetime(state.limits, now=self._now, spread=random.random())

    @property
    def draining(self) -> bool:
        """True once further calls are refused."""
        return self._refusing or self._writer.closing

    @property
    def calls_in_flight(self) -> int:
        """Calls begun and not ended."""
        return len(self._calls)

    # ---- the loop's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open."""
        server, socket = self._server, cast("asyncio.Transport", transport)
        self._make_parts()
        self._writer = SocketWriter(
            socket, self._http2, self._counters, server.loop, self._on_written, self._sender.wake
        )
        self._sender.transport = socket
        self._peer = _address(transport.get_extra_info("peername"))
        self._counters.connections_accepted_total += 1
        if len(server.connections) >= self._limits.max_connections or server.draining:
            self._counters.refused[CallRefusal.CONNECTIONS] += 1
            self._writer.close()
        else:
            server.connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Octets came."""
        writer = self._writer
        if writer.closing:
            return
        self._now = now = time.monotonic()
        self._life.heard(now)
        self._counters.bytes_received += len(data)
        writer.gather()
        for event in self._http2.receive(data, now):
            kind = event.__class__
            if kind is DataReceived:
                self._on_data(cast("DataReceived", event))
            elif kind is RequestReceived:
                self._on_request(cast("RequestReceived", event))
            else:
                self._on_rare_event(event)
        writer.flush()

    def pause_writing(self) -> None:
        """The socket takes no more."""
        self._writer.pause()

    def resume_writing(self) -> None:
        """The socket takes more again."""
        self._writer.resume()

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone, and with it all calls."""
        self._writer.end()
        self._timer.end()
        self._sender.end()
        self._intake.end()
        self._share.end()
        self._server.connections.discard(self)
        self._server.changed.set()

    # ---- events of the HTTP/2 layer

    def _on_request(self, event: RequestReceived) -> None:
        head = call_head(event.head)
        if head.http_status != 200:
            why = CallRefusal.CONTENT_TYPE if head.http_status == NOT_GRPC else CallRefusal.HTTP_METHOD
            self._counters.refused[why] += 1
            self._http2.send_headers(event.stream_id, answers.refusal(head.http_status))
            return
        now = self._life.busy_at = self._now
        deadline = None if head.timeout_s is None else now + head.timeout_s
        call = GrpcCall(self._sender, event.stream_id, head, now=now, deadline=deadline, peer=self._peer)
        call.compression = self._server.compression
        self._calls[event.stream_id] = call
        if head.error is not None:
            why = CallRefusal.COMPRESSION if isinstance(head.error, Unsupported) else CallRefusal.TIMEOUT
            self._intake.refuse(call, why, head.error)
        elif deadline is not None:
            if deadline <= now:
                self._sender.expire(call)
            else:
                self._timer.watch(deadline, now)
        if call.state is _RECEIVING and self._server.admit is not None:
            self._admit(self._server.admit, call)
        if call.state is not _RECEIVING:
            return
        if call.path in self._server.streaming:
            self._intake.begin_stream(call)
        if event.end_stream and event.stream_id in self._calls:
            self._intake.complete(call, now)

    def _admit(self, admit: Admit, call: GrpcCall) -> None:
        try:
            admit(call)
        except TrilithError as error:
            self._intake.refuse(call, CallRefusal.ACCESS, error)

    def _on_data(self, event: DataReceived) -> None:
        call = self._calls.get(event.stream_id)
        if call is None:
            return  # it was answered before its message was complete
        data = event.data
        if event.end_stream and call.reader is None:
            size = len(data) - PREFIX_BYTES
            # The common case, whole in one frame. Everything else, and everything wrong, goes the long way.
            if (
                size >= 0
                and not data[0]
                and int.from_bytes(data[1:PREFIX_BYTES], "big") == size
                and size <= self._limits.max_message_bytes
                and (call.message_limit is None or size <= call.message_limit)
            ):
                call.message = data[PREFIX_BYTES:]
                call.received_at = self._now
                self._intake.hand_over(call)
                return
        if call.state is _RECEIVING:
            call.received_at = self._now
        self._intake.piece(call, data)
        if event.end_stream and event.stream_id in self._calls:
            self._intake.complete(call, self._now)

    def _on_rare_event(self, event: Event) -> None:
        match event:
            case StreamReset(stream_id=stream_id, refusal=refusal):
                if refusal is not None:
                    self._counters.refused[refusal] += 1
                self._sender.taken_back(stream_id)
            case TrailersReceived(stream_id=stream_id):
                call = self._calls.get(stream_id)
                if call is not None:
                    self._intake.complete(call, self._now)
            case RequestRefused():
                self._counters.refused[CallRefusal.STREAMS] += 1
            case PingAcknowledged(payload=payload):
                if payload == _DRAIN_PING and self._life.drain_begun:
                    self.finish_drain()
            case ConnectionFailed(code=code, refusal=refusal):
                self._counters.protocol_errors[code.name] += 1
                self._counters.refused[refusal] += 1
                self._sender.taken_back_all()
                self._writer.close(linger=True)
            case _:
                return  # GOAWAY of a client: it opens no more streams, and closes when it has its answers

    # ---- time

    def _on_deadline(self) -> float | None:
        """Ends the calls that are due; the next deadline, or None."""
        self._now = now = time.monotonic()
        watched = [call for call in self._calls.values() if call.deadline is not None]
        for call in watched:
            # An earlier one's `on_cancel` may have answered this one.
            if call.deadline is not None and call.deadline <= now + _TIMER_SLACK_S and call.stream_id in self._calls:
                self._sender.expire(call)
        return min((call.deadline for call in self._calls.values() if call.deadline is not None), default=None)

    def tick(self, now: float) -> None:
        """Enforces the time limits. The server calls it every second."""
        self._now = now
        if self._calls:
            self._life.busy_at = now
        self._writer.tick(now, self._limits.write_timeout_s)
        self._share.unsent(self._http2.waiting_bytes)
        if self._writer.closing:
            return
        self._intake.refuse_slow(list(self._calls.values()), now)
        self._sender.drop_unread(self._stalls.stalled(self._http2.waiting(), now))
        handshake, streams = self._http2.state in _HANDSHAKE, self._http2.open_streams
        match self._life.due(now, handshake=handshake, open_streams=streams, refusing=self._refusing):
            case Due.ABORT_HANDSHAKE:
                self._writer.abort()
            case Due.ABORT_SILENT:
                self._counters.keepalive_timeouts += 1
                self._writer.abort()
            case Due.PING:
                self._life.pinged(now)
                self._http2.ping(_KEEPALIVE_PING)
                self._writer.schedule()
            case Due.DRAIN:
                self.begin_drain(now)
            case Due.FINISH_DRAIN:
                self.finish_drain()
            case Due.CUT:
                self.cut()
            case Due.NOTHING:
                return

    # ---- the end

    def begin_drain(self, now: float | None = None) -> None:
        """Asks the client to open no more calls; those that it has begun, or had not heard, are still served."""
        if self.draining or self._life.drain_begun:
            return
        self._life.begin_drain(time.monotonic() if now is None else now)
        self._sender.draining = True
        if self._http2.state is not ConnectionState.OPEN:
            self.finish_drain()  # nothing was asked yet
            return
        self._http2.announce_drain()
        self._http2.ping(_DRAIN_PING)  # its answer shows that the client has heard
        for call in list(self._calls.values()):
            tell_drain(call)
        self._writer.schedule()

    def finish_drain(self) -> None:
        """Refuses further calls, and closes when those in flight have ended."""
        if not self.draining:
            self._refusing = True
            self._http2.go_away()
            self._writer.schedule()
            self._server.changed.set()

    def cut(self) -> None:
        """Ends all calls with UNAVAILABLE, and closes."""
        error = Draining("the server is stopping: send the call to another one")
        for call in list(self._calls.values()):
            if call.stream_id in self._calls:  # an earlier one's `on_cancel` may have answered this one
                self._sender.cut_short(call, error)
        self._writer.close(linger=True)  # its client may be saying how much it has read

    def abort(self) -> None:
        """Drops the socket with what is unwritten."""
        self._writer.abort()

    def _schedule(self) -> None:
        self._writer.schedule()

    def _on_written(self) -> None:
        if self._refusing and not self._http2.open_streams:
            self._writer.close()


def _address(peername: object) -> str:
    if isinstance(peername, tuple) and len(peername) >= 2:
        return f"{peername[0]}:{peername[1]}"
    return str(peername or "local")
