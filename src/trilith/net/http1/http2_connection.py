"""One client's HTTP/2 connection to the HTTP server: the same requests, several at a time.

Rule 1: what a client may do is decided in `trilith.wire.http2`; what a request is, in `request.py`; this joins them.
Rule 2: requests are independent: each is handed over when it is complete, or early as over HTTP/1.1, and answered in
any order.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final, cast

from trilith.errors import TrilithError
from trilith.net.held_bytes import ConnectionShare
from trilith.net.http1.address import address_text
from trilith.net.http1.dispatch import dispatch, give_up, tell_disconnect
from trilith.net.http1.http2_exchange import Http2Exchange
from trilith.net.http1.http2_unwanted import UnwantedBodies
from trilith.net.http1.late_body import LateBody
from trilith.net.http1.request import HttpRequest
from trilith.net.http1.state import ServerState
from trilith.net.http2_stalls import StallWatch
from trilith.net.http2_writer import SocketWriter
from trilith.wire.http1 import Refusal, refusal
from trilith.wire.http2 import (
    ConnectionFailed,
    ConnectionState,
    DataReceived,
    ErrorCode,
    Event,
    Http2Connection,
    PingAcknowledged,
    RequestReceived,
    RequestRefused,
    StreamReset,
    TrailersReceived,
)
from trilith.wire.http2_heads import Http2Heads
from trilith.wire.http2_request import http2_limits, violation

_HANDSHAKE: Final = (ConnectionState.AWAIT_PREFACE, ConnectionState.AWAIT_SETTINGS)
_DRAIN_PING: Final = b"trl drn\0"
_DRAIN_HEARD_S: Final = 1.0


class HttpOverHttp2(asyncio.Protocol):
    """A `ServedConnection` of an `HttpServer`; it takes over a transport whose client began with HTTP/2's preface."""

    _transport: asyncio.Transport
    _writer: SocketWriter

    def __init__(self, state: ServerState, *, peer: str) -> None:
        self.state = state
        self.limits = state.limits
        self.share = ConnectionShare(state.held)
        self.loop = state.loop
        self.peer = peer
        self.heads: Http2Heads = state.http2_heads
        now = time.monotonic()
        self.http2 = Http2Connection(http2_limits(state.limits), now=now)
        self._exchanges: dict[int, Http2Exchange] = {}
        self._unwanted = UnwantedBodies(state.limits)
        self._early: list[Http2Exchange] = []
        self._stalls = StallWatch(state.limits.write_timeout_s)
        self._made_at = self._busy_at = now
        self._drain_at: float | None = None
        self._refusing = False
        self.served = False
        self._late_body: LateBody | None = None

    # ---- the loop's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is ours."""
        self._transport = cast("asyncio.Transport", transport)
        state = self.state
        self._writer = SocketWriter(
            self._transport, self.http2, state.counters, state.loop, self._on_written, self._on_cut
        )
        state.connections[self] = None
        if state.draining:
            self.close_when_idle()

    def data_received(self, data: bytes) -> None:
        """Octets came."""
        writer = self._writer
        if writer.closing:
            return
        now = time.monotonic()
        self.state.counters.bytes_received += len(data)
        writer.gather()
        for event in self.http2.receive(data, now):
            self._on_event(event, now)
        early, self._early = self._early, []
        for exchange in early:
            if not exchange.ended:
                self._begin(exchange, now)
        writer.flush()

    def eof_received(self) -> None:
        """The client will send no more: it is gone, as over HTTP/1.1."""

    def pause_writing(self) -> None:
        """The socket takes no more."""
        self._writer.pause()

    def resume_writing(self) -> None:
        """The socket takes more again."""
        self._writer.resume()

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone."""
        self._writer.end()
        self._all_gone()
        self.share.end()
        self.state.forget(self)

    # ---- events

    def _on_event(self, event: Event, now: float) -> None:
        match event:
            case RequestReceived(stream_id=stream_id, head=head, end_stream=ended):
                exchange = Http2Exchange(self, stream_id, head, ended=ended, now=now)
                self._exchanges[stream_id] = exchange
                self._busy_at = now
                self.served = True
                found = violation(head, self.limits)
                if found is not None:
                    self._refuse(exchange, found)
                elif ended:
                    self._complete(exchange, now)
                elif exchange.early:
                    self._early.append(exchange)
            case DataReceived(stream_id=stream_id, data=data, end_stream=ended):
                self._on_data(stream_id, data, ended=ended, now=now)
            case TrailersReceived(stream_id=stream_id):
                self._unwanted.forget(stream_id)
                if stream_id in self._exchanges:
                    self._complete(self._exchanges[stream_id], now)
            case StreamReset(stream_id=stream_id, refusal=why):
                if why is not None:
                    self.state.counters.refused[why] += 1
                self._unwanted.forget(stream_id)
                self._gone(self._exchanges.pop(stream_id, None))
            case RequestRefused():
                self.state.counters.refused["streams"] += 1
            case PingAcknowledged(payload=payload):
                if payload == _DRAIN_PING and self._drain_at is not None:
                    self._finish_drain()
            case ConnectionFailed(refusal=why):
                self.state.counters.refused[why] += 1
                self._all_gone()
                self._writer.close(linger=True)
            case _:
                return  # GOAWAY of a client: it closes when it has its answers

    def _on_data(self, stream_id: int, data: bytes, *, ended: bool, now: float) -> None:
        exchange = self._exchanges.get(stream_id)
        if exchange is None:
            self._on_unwanted(stream_id, len(data), ended=ended)
            return
        if exchange.request.refusal is not None:
            return
        exchange.read_at = now
        exchange.received(data)
        body = exchange.request.inbound
        if body is not None and body.received > self.limits.max_body_bytes and not exchange.endless:
            self._refuse(
                exchange, refusal.BODY_TOO_LARGE.because(f"it is longer than {self.limits.max_body_bytes} bytes")
            )
        elif ended:
            self._complete(exchange, now)
        elif self.share.passed:
            self._refuse(exchange, refusal.HELD_BYTES.because(self.share.refuse()))

    def _on_unwanted(self, stream_id: int, size_bytes: int, *, ended: bool) -> None:
        """More of a body whose request was answered."""
        if stream_id not in self._unwanted:
            return
        if ended:
            self._unwanted.forget(stream_id)
        elif self._unwanted.received(stream_id, size_bytes):
            self.http2.release(stream_id, size_bytes)
        else:
            self._stop_reading(stream_id)

    def _stop_reading(self, stream_id: int) -> None:
        self._unwanted.forget(stream_id)
        self.http2.reset(stream_id, ErrorCode.NO_ERROR)
        self._writer.schedule()

    def _complete(self, exchange: Http2Exchange, now: float) -> None:
        exchange.request.finish_body(now)
        self._begin(exchange, now)

    def _begin(self, exchange: Http2Exchange, now: float) -> None:
        request = exchange.request
        if request.queued or request.refusal is not None or request.gone:
            return
        request.received_at = now
        held = self.state.held
        if held.held_bytes > held.last_bytes and request.inbound is not None and request.complete:
            self._refuse(exchange, refusal.HELD_BYTES.because(self.share.refuse()))
            return
        request.queued = True
        dispatch(self.state, request)

    def _refuse(self, exchange: Http2Exchange, found: Refusal) -> None:
        self.state.counters.refused[found.reason] += 1
        request = exchange.request
        request.drop_body()
        request.refuse(found)
        if not request.queued:
            request.queued = True
            request.respond_refusal()

    def _gone(self, exchange: Http2Exchange | None) -> None:
        self._late_body = None
        if exchange is None or exchange.ended:
            return
        request = exchange.request
        exchange.end()
        if request.finished:
            return
        callback = request.client_gone()
        self.state.counters.disconnects += 1
        if callback is not None:
            tell_disconnect(request, callback)

    def _all_gone(self) -> None:
        exchanges = list(self._exchanges.values())
        self._exchanges.clear()
        for exchange in exchanges:
            self._gone(exchange)

    # ---- from the exchanges

    @property
    def local(self) -> str:
        """The server's own end."""
        return address_text(self._transport.get_extra_info("sockname"))

    @property
    def secure(self) -> bool:
        """Whether it is encrypted."""
        return self._transport.get_extra_info("ssl_object") is not None

    @property
    def client_certificate(self) -> Mapping[str, object] | None:
        """The client's TLS certificate."""
        found: Mapping[str, object] | None = self._transport.get_extra_info("peercert")
        return found or None

    def schedule(self) -> None:
        """There is output."""
        self._writer.schedule()

    def reads_on(self, request: HttpRequest, stream_id: int) -> bool:
        """Whether what is left of the body of an answered request is read and dropped, rather than refused."""
        body = request.inbound
        if request.complete or body is None:
            return False
        return self._unwanted.admit(stream_id, body, request.content_length, self.state.now)

    def answered(self, stream_id: int) -> None:
        """The whole answer is on its way."""
        self.share.unsent(self.http2.waiting_bytes)
        exchange = self._exchanges.pop(stream_id, None)
        self._late_body = None
        if exchange is not None:
            exchange.end()
        self._writer.schedule()

    # ---- from the server

    @property
    def busy(self) -> bool:
        """Whether a request has begun, or an answer is not with the client yet."""
        return bool(self._exchanges) or self.http2.open_streams > 0

    @property
    def idle_since(self) -> float | None:
        """Since when no stream is open, in monotonic seconds."""
        if self._exchanges or self._refusing or self._writer.closing or self.http2.open_streams:
            return None
        return self._busy_at

    @property
    def late_body(self) -> LateBody | None:
        """Of the bodies that it waits for, when it waits for nothing else: the one that began last."""
        late = self._late_body
        if late is None or self._writer.closing or self._refusing:
            return None
        waiting = [exchange for exchange in self._exchanges.values() if not exchange.ended and _is_stalled(exchange)]
        if len(waiting) < len(self._exchanges) or all(exchange.request is not late.request for exchange in waiting):
            return None
        return late

    silent_since: float | None = None

    def give_way(self) -> None:
        """Tells the client that none of its later requests was begun, and closes."""
        for exchange in list(self._exchanges.values()):
            if not exchange.ended:
                self._refuse(exchange, refusal.TOO_MANY_CONNECTIONS)
        if self.http2.state in _HANDSHAKE or self.secure:  # TLS may take its time to close
            self.abort()
        else:
            self._finish_drain()

    @property
    def in_flight(self) -> int:
        """How many answers the application owes."""
        return sum(exchange.request.queued and not exchange.request.finished for exchange in self._exchanges.values())

    def close_when_idle(self) -> None:
        """Asks the client to open no more streams; those that it has begun, or had not heard, are still served."""
        if self._drain_at is not None or self._writer.closing:
            return
        self._drain_at = time.monotonic()
        if self.http2.state is not ConnectionState.OPEN:
            self._finish_drain()
            return
        self.http2.announce_drain()
        self.http2.ping(_DRAIN_PING)
        self._writer.schedule()

    def give_up(self, error: TrilithError) -> None:
        """Answers every request that has begun."""
        for exchange in list(self._exchanges.values()):
            if exchange.ended:
                continue
            if exchange.request.queued:
                give_up(exchange.request, error)
            else:
                self._refuse(exchange, refusal.DRAINING)
        self._finish_drain()

    def abort(self) -> None:
        """Cuts the connection at once."""
        self._writer.abort()

    def check(self, now: float) -> None:
        """Ends what has lasted too long."""
        limits = self.limits
        self._writer.tick(now, limits.write_timeout_s)
        self.share.unsent(self.http2.waiting_bytes)
        if self._writer.closing:
            return
        if self.http2.state in _HANDSHAKE:
            if now - self._made_at > limits.head_timeout_s:
                self.abort()
            return
        if self._exchanges:
            self._busy_at = now
        if self._late_body is not None and (self._late_body.request.complete or self._late_body.request.finished):
            self._late_body = None
        for exchange in list(self._exchanges.values()):
            if exchange.ended:
                continue
            if not _is_stalled(exchange):
                continue
            if self._late_body is None:
                self._late_body = LateBody(exchange.request, since=now)
            if now - exchange.read_at > limits.body_timeout_s:
                self._refuse(exchange, refusal.BODY_TIMEOUT)
        for stream_id in self._unwanted.late(now):
            self._stop_reading(stream_id)
        for stream_id in self._stalls.stalled(self.http2.waiting(), now):
            self.state.counters.write_timeouts += 1
            self.http2.reset(stream_id, ErrorCode.CANCEL)
            self._gone(self._exchanges.pop(stream_id, None))
            self._writer.schedule()
        if self._drain_at is not None:
            if now - self._drain_at > _DRAIN_HEARD_S:
                self._finish_drain()
        elif now - self._busy_at > limits.idle_timeout_s and not self.http2.open_streams:
            self.close_when_idle()

    def _finish_drain(self) -> None:
        if not self._refusing:
            self._refusing = True
            self.http2.go_away()
            self._writer.schedule()

    def _on_written(self) -> None:
        if self._refusing and not self.http2.open_streams:
            self._writer.close()

    def _on_cut(self) -> None:
        self.share.unsent(self.http2.waiting_bytes)
        for stream_id in self.http2.take_roomy():
            exchange = self._exchanges.get(stream_id)
            if exchange is not None:
                exchange.room()


def _is_stalled(exchange: Http2Exchange) -> bool:
    """Whether its client is to send more of its body, and nothing else holds it up."""
    body = exchange.request.inbound
    if body is None or body.complete or body.full or body.discarding:
        return False
    return not exchange.endless and not exchange.request.awaits_continue
