"""One client's connection: reads octets, turns the HTTP/2 layer's events into calls, and keeps the time.

Rule 1: what a client may do is decided in `trilith.wire.http2`; what a call is, in `call.py`; foreign code runs in
`dispatch.py`; `writer.py` writes.
Rule 2: every second the server calls `tick`; only calls with a deadline have a timer, one for the whole connection.
Rule 3: a call is in `_calls` from its first octet to its outcome, which is counted once, in `_ended`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final, cast

from trilith.errors import DeadlineExceeded, Draining, QueueFull, TrilithError, Unsupported
from trilith.net.grpc import answers
from trilith.net.grpc.call import CallState, GrpcCall
from trilith.net.grpc.deadlines import DeadlineTimer
from trilith.net.grpc.dispatch import cancel, dispatch
from trilith.net.grpc.state import ServerState
from trilith.net.grpc.writer import SocketWriter
from trilith.wire.grpc_messages import PREFIX_BYTES, MessageReader, message_prefix
from trilith.wire.grpc_request import NOT_GRPC, call_head
from trilith.wire.grpc_status import GrpcStatus, grpc_status
from trilith.wire.http2 import (
    ConnectionFailed,
    ConnectionState,
    DataReceived,
    ErrorCode,
    Event,
    Field,
    Http2Connection,
    PingAcknowledged,
    RequestReceived,
    RequestRefused,
    StreamReset,
    TrailersReceived,
)

_RECEIVING: Final = CallState.RECEIVING
_OK: Final = int(GrpcStatus.OK)
_HANDSHAKE: Final = (ConnectionState.AWAIT_PREFACE, ConnectionState.AWAIT_SETTINGS)
_DRAIN_PING: Final = b"trl drn\0"
_KEEPALIVE_PING: Final = b"trl ping"
_TIMER_SLACK_S: Final = 0.002
DRAIN_HEARD_S: Final = 1.0
"""How long a client has to acknowledge the first GOAWAY of a drain."""


class GrpcConnection(asyncio.Protocol):
    """A connection of a `GrpcServer`. Made by the server, used by the loop and by its calls."""

    def __init__(self, state: ServerState) -> None:
        self._server = state
        self._limits = state.limits
        self._counters = state.counters
        self._now = time.monotonic()
        self._http2 = Http2Connection(state.limits.http2(), now=self._now)
        self._writer: SocketWriter
        self._timer = DeadlineTimer(state.loop, self._on_deadline)
        self._calls: dict[int, GrpcCall] = {}
        self._peer = ""
        self._refusing = False
        self._made_at = self._heard_at = self._busy_at = self._now
        self._pinged_at: float | None = None
        self._drain_begun_at: float | None = None

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
        self._writer = SocketWriter(socket, self._http2, self._counters, server.loop, self._on_written)
        self._peer = _address(transport.get_extra_info("peername"))
        self._counters.connections_total += 1
        if len(server.connections) >= self._limits.max_connections or server.draining:
            self._counters.refused["connections"] += 1
            self._writer.close()
        else:
            server.connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Octets came."""
        writer = self._writer
        if writer.closing:
            return
        self._now = self._heard_at = now = time.monotonic()
        self._pinged_at = None
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
        self._writer.closing = True
        self._timer.cancel()
        self._cancel_calls()
        self._server.connections.discard(self)
        self._server.changed.set()

    # ---- events of the HTTP/2 layer

    def _on_request(self, event: RequestReceived) -> None:
        head = call_head(event.head)
        if head.http_status != 200:
            self._counters.refused["content_type" if head.http_status == NOT_GRPC else "http_method"] += 1
            self._http2.send_headers(event.stream_id, answers.refusal(head.http_status))
            self._http2.reset(event.stream_id, ErrorCode.NO_ERROR)
            return
        now = self._busy_at = self._now
        deadline = None if head.timeout_s is None else now + head.timeout_s
        call = GrpcCall(self, event.stream_id, head, now=now, deadline=deadline, peer=self._peer)
        self._calls[event.stream_id] = call
        if head.error is not None:
            call.fail_error(head.error)
        elif deadline is not None:
            if deadline <= now:
                self._expire(call)
            else:
                self._timer.watch(deadline, now)
        if event.end_stream and call.state is _RECEIVING:
            self._complete(call)

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
            ):
                call.message = data[PREFIX_BYTES:]
                call.received_at = self._now
                dispatch(self._server, call)
                return
        self._collect(call, data)
        if call.state is not _RECEIVING:
            return
        if event.end_stream:
            self._complete(call)
        else:
            call.received_at = self._now
            self._http2.release(event.stream_id, len(data))

    def _on_rare_event(self, event: Event) -> None:
        match event:
            case StreamReset(stream_id=stream_id):
                call = self._calls.pop(stream_id, None)
                if call is not None:
                    self._ended(call, GrpcStatus.CANCELLED)
                    cancel(call)
            case TrailersReceived(stream_id=stream_id):
                call = self._calls.get(stream_id)
                if call is not None:
                    self._complete(call)
            case RequestRefused():
                self._counters.refused["streams"] += 1
            case PingAcknowledged(payload=payload):
                if payload == _DRAIN_PING and self._drain_begun_at is not None:
                    self.finish_drain()
            case ConnectionFailed(code=code):
                self._counters.protocol_errors[code.name] += 1
                self._cancel_calls()
                self._writer.close(linger=True)
            case _:
                return  # GOAWAY of a client: it opens no more streams, and closes when it has its answers

    def _collect(self, call: GrpcCall, data: bytes) -> None:
        """Adds a piece to a message that comes in several."""
        reader = call.reader
        if reader is None:
            reader = call.reader = MessageReader(self._limits.max_message_bytes)
        call.held_bytes += len(data)
        self._server.buffered_bytes += len(data)
        try:
            if self._server.buffered_bytes > self._limits.max_buffered_bytes:
                raise QueueFull("the server holds too many half-received messages: try again later")
            messages = reader.feed(data)
            if reader.completed > 1:
                raise Unsupported("this method takes one message, and more were sent")
        except TrilithError as error:
            call.fail_error(error)
            return
        if messages:
            call.message = messages[0]

    def _complete(self, call: GrpcCall) -> None:
        """The client has sent everything."""
        reader = call.reader
        if reader is not None and not reader.at_boundary:
            call.fail(GrpcStatus.INTERNAL, "the message ends before its declared length")
        elif reader is None or not reader.completed:
            call.fail(GrpcStatus.UNIMPLEMENTED, "this method takes one message, and none was sent")
        else:
            self._drop_buffer(call)
            call.received_at = self._now
            dispatch(self._server, call)

    # ---- outcomes of calls

    def send_reply(self, call: GrpcCall, message: bytes, trailers: Sequence[Field]) -> None:
        """See `CallSink`."""
        ending = answers.ok_trailers(trailers)
        del self._calls[call.stream_id]
        self._http2.respond(call.stream_id, answers.OK_HEAD, (message_prefix(len(message)), message), ending)
        self._ended(call, _OK)

    def send_failure(self, call: GrpcCall, status: GrpcStatus, message: str) -> None:
        """See `CallSink`."""
        answer = answers.failure(status, message)
        del self._calls[call.stream_id]
        self._http2.send_headers(call.stream_id, answer)
        # Its message may still be on the way: tell the client to stop (RFC 9113 section 8.1). Else this does nothing.
        self._http2.reset(call.stream_id, ErrorCode.NO_ERROR)
        self._ended(call, status)

    def _expire(self, call: GrpcCall) -> None:
        error = DeadlineExceeded("the call's deadline passed before there was an answer")
        self.send_failure(call, grpc_status(error), error.message)
        cancel(call)

    def _cancel_calls(self) -> None:
        calls, self._calls = list(self._calls.values()), {}
        for call in calls:
            self._ended(call, GrpcStatus.CANCELLED)
            cancel(call)

    def _ended(self, call: GrpcCall, status: int) -> None:
        self._counters.outcomes[status] += 1
        if call.held_bytes:
            self._drop_buffer(call)
        self._writer.schedule()

    def _drop_buffer(self, call: GrpcCall) -> None:
        self._server.buffered_bytes -= call.held_bytes
        call.held_bytes = 0
        call.reader = None

    # ---- time

    def _on_deadline(self) -> float | None:
        """Ends the calls that are due; the next deadline, or None."""
        self._now = now = time.monotonic()
        watched = [call for call in self._calls.values() if call.deadline is not None]
        for call in watched:
            # An earlier one's `on_cancel` may have answered this one.
            if call.deadline is not None and call.deadline <= now + _TIMER_SLACK_S and call.stream_id in self._calls:
                self._expire(call)
        return min((call.deadline for call in self._calls.values() if call.deadline is not None), default=None)

    def tick(self, now: float) -> None:
        """Enforces the time limits. The server calls it every second."""
        self._now = now
        if self._calls:
            self._busy_at = now
        self._writer.tick(now, self._limits.write_timeout_s)
        if self._writer.closing:
            return
        if self._http2.state in _HANDSHAKE:
            if now - self._made_at > self._limits.handshake_timeout_s:
                self._writer.abort()
            return
        self._expire_silent_calls(now)
        self._keep_alive(now)
        self._end_idle(now)

    def _expire_silent_calls(self, now: float) -> None:
        limit = now - self._limits.receive_timeout_s
        for call in [call for call in self._calls.values() if call.state is _RECEIVING and call.received_at < limit]:
            call.fail_error(DeadlineExceeded(f"no more of the message came in {self._limits.receive_timeout_s:g} s"))

    def _keep_alive(self, now: float) -> None:
        if self._pinged_at is not None:
            if now - self._pinged_at > self._limits.keepalive_timeout_s:
                self._counters.keepalive_timeouts += 1
                self._writer.abort()
        elif now - self._heard_at > self._limits.keepalive_interval_s:
            self._pinged_at = now
            self._http2.ping(_KEEPALIVE_PING)
            self._writer.schedule()

    def _end_idle(self, now: float) -> None:
        if self._drain_begun_at is not None:
            if now - self._drain_begun_at > DRAIN_HEARD_S:
                self.finish_drain()
        elif now - self._busy_at > self._limits.idle_timeout_s and not self._http2.open_streams:
            self.begin_drain()

    # ---- the end

    def begin_drain(self) -> None:
        """Asks the client to open no more calls; those that it has begun, or had not heard, are still served."""
        if self.draining or self._drain_begun_at is not None:
            return
        self._drain_begun_at = time.monotonic()
        if self._http2.state is not ConnectionState.OPEN:
            self.finish_drain()  # nothing was asked yet
            return
        self._http2.announce_drain()
        self._http2.ping(_DRAIN_PING)  # its answer shows that the client has heard
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
            if call.stream_id in self._calls:
                self.send_failure(call, grpc_status(error), error.message)
                cancel(call)
        self._writer.close()

    def abort(self) -> None:
        """Drops the socket with what is unwritten."""
        self._writer.abort()

    def _on_written(self) -> None:
        if self._refusing and not self._http2.open_streams:
            self._writer.close()


def _address(peername: object) -> str:
    if isinstance(peername, tuple) and len(peername) >= 2:
        return f"{peername[0]}:{peername[1]}"
    return str(peername or "local")
