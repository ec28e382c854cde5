"""One client's connection: moves octets between the socket and the HTTP/2 layer, and its events to calls.

Rule 1: what a client may do is decided in `trilith.wire.http2`; what a call is, in `call.py`; foreign code runs in
`dispatch.py`. Here are only reading, writing, and the clock.
Rule 2: output is written once a loop turn: at the end of `data_received`, or in one callback for later answers.
Rule 3: while the socket takes no more, bodies stay uncut in the HTTP/2 layer; when small output piles up as well, we
stop reading. Both end by `resume_writing`, or by the write timeout.
Rule 4: every second the server calls `tick`; only calls with a deadline have a timer, one for the whole connection.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final, cast

from trilith.errors import DeadlineExceeded, Draining, QueueFull, TrilithError, Unsupported
from trilith.net.grpc.call import CallState, GrpcCall
from trilith.net.grpc.dispatch import cancel, dispatch
from trilith.net.grpc.state import ServerState
from trilith.wire.grpc_messages import PREFIX_BYTES, MessageReader, message_prefix, status_trailers
from trilith.wire.grpc_request import call_head
from trilith.wire.grpc_status import GrpcStatus, grpc_status
from trilith.wire.http2 import (
    ConnectionFailed,
    ConnectionState,
    DataReceived,
    EncodedHeaders,
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
_HEAD: Final[list[Field]] = [(b":status", b"200"), (b"content-type", b"application/grpc")]
_ACCEPTS: Final[Field] = (b"grpc-accept-encoding", b"identity")
_OK_HEAD: Final = EncodedHeaders(_HEAD)
_OK_TRAILERS: Final = EncodedHeaders(status_trailers(GrpcStatus.OK))
_OK: Final = int(GrpcStatus.OK)
_WRITE_BUDGET_BYTES: Final = 256 << 10
_WRITE_BUFFER_BYTES: Final = 512 << 10
_MAX_READY_CHUNKS: Final = 512
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
        self._calls: dict[int, GrpcCall] = {}
        self._transport: asyncio.Transport
        self._peer = ""
        self._flush_due = False
        self._closing = False
        self._drain_begun_at: float | None = None
        self._draining = False
        self._writing_paused_at: float | None = None
        self._reading_paused = False
        self._made_at = self._heard_at = self._busy_at = self._now
        self._pinged_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    @property
    def draining(self) -> bool:
        """True once further calls are refused."""
        return self._draining or self._closing

    @property
    def calls_in_flight(self) -> int:
        """Calls begun and not ended."""
        return len(self._calls)

    # ---- the loop's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        self._peer = _address(transport.get_extra_info("peername"))
        self._counters.connections_total += 1
        if len(self._server.connections) >= self._limits.max_connections or self._server.draining:
            self._counters.refused["connections"] += 1
            self._closing = True
            self._transport.close()
            return
        self._server.connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Octets came."""
        if self._closing:
            return
        self._now = self._heard_at = now = time.monotonic()
        self._pinged_at = None
        self._counters.bytes_received += len(data)
        self._flush_due = True  # answers given meanwhile are written below, together
        for event in self._http2.receive(data, now):
            kind = event.__class__
            if kind is DataReceived:
                self._on_data(cast("DataReceived", event))
            elif kind is RequestReceived:
                self._on_request(cast("RequestReceived", event))
            else:
                self._on_rare_event(event)
        self._flush()
        if self._writing_paused_at is not None and self._http2.ready_chunks > _MAX_READY_CHUNKS:
            self._reading_paused = True
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        """The socket takes no more."""
        self._writing_paused_at = time.monotonic()

    def resume_writing(self) -> None:
        """The socket takes more again."""
        self._writing_paused_at = None
        if self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone, and with it all calls."""
        self._closing = True
        self._server.connections.discard(self)
        self._server.changed.set()
        if self._timer is not None:
            self._timer.cancel()
        self._cancel_calls()

    # ---- events of the HTTP/2 layer

    def _on_request(self, event: RequestReceived) -> None:
        head = call_head(event.head)
        if head.http_status != 200:
            self._refuse(event, head.http_status)
            return
        now = self._busy_at = self._now
        timeout_s = head.timeout_s
        deadline = None if timeout_s is None else now + timeout_s
        call = GrpcCall(self, event.stream_id, head, now=now, deadline=deadline, peer=self._peer)
        self._calls[event.stream_id] = call
        if head.error is not None:
            call.fail_error(head.error)
        elif deadline is not None:
            self._watch(call, deadline)
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
                if payload == _DRAIN_PING:
                    self.finish_drain()
            case ConnectionFailed(code=code):
                self._counters.protocol_errors[code.name] += 1
                self._cancel_calls()
                self._close()
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

    def _refuse(self, event: RequestReceived, http_status: int) -> None:
        """No gRPC call: answered as HTTP, as the protocol wants."""
        self._counters.refused["content_type" if http_status == 415 else "http_method"] += 1
        trailers = status_trailers(GrpcStatus.UNKNOWN, "expected POST with content-type application/grpc")
        answer = EncodedHeaders([(b":status", b"%d" % http_status), *trailers])
        self._http2.send_headers(event.stream_id, answer, end_stream=True)
        self._http2.reset(event.stream_id, ErrorCode.NO_ERROR)

    def _cancel_calls(self) -> None:
        calls, self._calls = list(self._calls.values()), {}
        for call in calls:
            self._ended(call, GrpcStatus.CANCELLED)
            cancel(call)

    # ---- answers

    def send_reply(self, call: GrpcCall, message: bytes, trailers: Sequence[Field]) -> None:
        """See `CallSink`."""
        ending = EncodedHeaders(status_trailers(GrpcStatus.OK, extra=trailers)) if trailers else _OK_TRAILERS
        del self._calls[call.stream_id]
        self._http2.respond(call.stream_id, _OK_HEAD, (message_prefix(len(message)), message), ending)
        self._ended(call, _OK)

    def send_failure(self, call: GrpcCall, status: GrpcStatus, message: str) -> None:
        """See `CallSink`."""
        del self._calls[call.stream_id]
        extra = (_ACCEPTS,) if status is GrpcStatus.UNIMPLEMENTED else ()
        answer = EncodedHeaders([*_HEAD, *status_trailers(status, message, extra)])
        self._http2.send_headers(call.stream_id, answer, end_stream=True)
        # Its message may still be on the way: tell the client to stop (RFC 9113 section 8.1). Else this does nothing.
        self._http2.reset(call.stream_id, ErrorCode.NO_ERROR)
        self._ended(call, status)

    def _ended(self, call: GrpcCall, status: int) -> None:
        self._counters.outcomes[status] += 1
        if call.held_bytes:
            self._drop_buffer(call)
        if not self._flush_due:
            self._schedule_flush()

    def _drop_buffer(self, call: GrpcCall) -> None:
        self._server.buffered_bytes -= call.held_bytes
        call.held_bytes = 0
        call.reader = None

    # ---- writing

    def _schedule_flush(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            self._server.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        if self._closing or self._writing_paused_at is not None:
            return
        output = self._http2.take_output(_WRITE_BUDGET_BYTES)
        if output:
            self._counters.bytes_sent += len(output)
            self._transport.write(output)
        if self._http2.has_output:
            self._schedule_flush()
        elif self._draining and not self._http2.open_streams:
            self._close()

    def _close(self) -> None:
        """Writes what is ready, and closes once it is out."""
        if self._closing:
            return
        output = self._http2.take_output(_WRITE_BUDGET_BYTES)
        self._closing = True
        self._writing_paused_at = self._now  # the write timeout bounds the closing as well
        if output:
            self._transport.write(output)
        self._transport.close()

    # ---- time

    def _watch(self, call: GrpcCall, deadline: float) -> None:
        """Sees to it that the timer fires at this deadline, or before."""
        if deadline <= self._now:
            self._expire(call)
        elif self._timer is None or deadline < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = deadline
            self._timer = self._server.loop.call_later(deadline - self._now, self._on_timer)

    def _on_timer(self) -> None:
        """Ends the calls that are due, and sets the timer for the next. A call answered in time costs nothing."""
        self._timer = None
        self._now = now = time.monotonic()
        due = [
            call for call in self._calls.values() if call.deadline is not None and call.deadline <= now + _TIMER_SLACK_S
        ]
        for call in due:
            self._expire(call)
        deadlines = [call.deadline for call in self._calls.values() if call.deadline is not None]
        if deadlines and not self._closing:
            self._timer_at = min(deadlines)
            self._timer = self._server.loop.call_later(max(0.0, self._timer_at - now), self._on_timer)

    def _expire(self, call: GrpcCall) -> None:
        if self._calls.get(call.stream_id) is call:
            error = DeadlineExceeded("the call's deadline passed before there was an answer")
            self.send_failure(call, grpc_status(error), error.message)
            cancel(call)

    def tick(self, now: float) -> None:
        """Enforces the time limits. The server calls it every second."""
        limits = self._limits
        self._now = now
        if self._calls:
            self._busy_at = now
        if self._writing_paused_at is not None and now - self._writing_paused_at > limits.write_timeout_s:
            self._counters.write_timeouts += 1
            self._transport.abort()
        elif self._closing:
            return
        elif self._http2.state in (ConnectionState.AWAIT_PREFACE, ConnectionState.AWAIT_SETTINGS):
            if now - self._made_at > limits.handshake_timeout_s:
                self._transport.abort()
        else:
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
                self._transport.abort()
        elif now - self._heard_at > self._limits.keepalive_interval_s:
            self._pinged_at = now
            self._http2.ping(_KEEPALIVE_PING)
            self._schedule_flush()

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
        self._schedule_flush()

    def finish_drain(self) -> None:
        """Refuses further calls, and closes when those in flight have ended."""
        if not self.draining:
            self._draining = True
            self._server.changed.set()
            self._http2.go_away()
            self._schedule_flush()

    def cut(self) -> None:
        """Ends all calls with UNAVAILABLE, and closes."""
        error = Draining("the server is stopping: send the call to another one")
        for call in list(self._calls.values()):
            self.send_failure(call, grpc_status(error), error.message)
            cancel(call)
        self._close()

    def abort(self) -> None:
        """Drops the socket with what is unwritten."""
        self._transport.abort()


def _address(peername: object) -> str:
    if isinstance(peername, tuple) and len(peername) >= 2:
        return f"{peername[0]}:{peername[1]}"
    return str(peername or "local")
