"""The receiving half of a connection: octets in, events out.

Rule 1: the handlers stand in the order of RFC 9113 section 6, one for each frame type. A handler raises
`ConnectionFault` or `StreamFault`; what becomes of them is decided in `receive` alone.
Rule 2: events are returned in wire order after the whole input was read; nothing is answered from inside.
Rule 3: the connection's window opens by itself, a stream's as the layer above releases what it received.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from trilith.wire.http2 import frames
from trilith.wire.http2.errors import ConnectionFault, ErrorCode, Refusal, StreamFault
from trilith.wire.http2.events import (
    ConnectionFailed,
    DataReceived,
    Event,
    GoAwayReceived,
    PingAcknowledged,
    StreamReset,
)
from trilith.wire.http2.states import (
    STREAM_TRANSITIONS,
    ConnectionInput,
    ConnectionState,
    StreamInput,
    StreamState,
)
from trilith.wire.http2.stream_books import HeaderBlock, StreamBooks

_DATA: Final = StreamInput.RECEIVE_DATA
_DATA_END: Final = StreamInput.RECEIVE_DATA_END
_CLOSED: Final = StreamState.CLOSED
_UPDATES_PER_FRAME: Final = 64  # of a client that reads 64 KiB by 2 KiB, for the stream and for the connection
_HTTP1_START: Final = re.compile(rb"[A-Z]{3,8} ")
_NOT_HTTP2: Final = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n"
    b"This port speaks HTTP/2 only: gRPC, not HTTP/1.1.\n"
)
"""The answer to a client that took this port for another: a person reads it sooner than a GOAWAY."""


class Inbound(StreamBooks):
    """Reads frames, and keeps the streams that they open."""

    # ---- octets in

    def receive(self, octets: bytes, now: float) -> list[Event]:
        """Reads octets from the peer.

        Args:
            octets: what came, cut anywhere.
            now: monotonic seconds.

        Returns:
            What happened, in order. After `ConnectionFailed` all further input is ignored.
        """
        if self.state is ConnectionState.CLOSED:
            return []
        self._now = now
        events: list[Event] = []
        self._events = events
        if self._rest:
            octets = self._rest + octets
        position = 0
        try:
            if self.state is ConnectionState.AWAIT_PREFACE:
                position = self._read_preface(octets)
            if self.state is not ConnectionState.AWAIT_PREFACE:
                position = self._read_frames(octets, position)
        except ConnectionFault as fault:
            self._fail(fault)
            return events
        self._rest = octets[position:]
        return events

    def _read_preface(self, octets: bytes) -> int:
        preface = frames.PREFACE
        if octets[: len(preface)] == preface:
            self.advance(ConnectionInput.PREFACE)
            self.outbound.ready.append(self._limits.announcement())
            return len(preface)
        if preface.startswith(octets):
            return 0
        reason = "the connection does not begin with the HTTP/2 preface"
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, reason, _what_it_is(octets))

    def _read_frames(self, octets: bytes, position: int) -> int:
        unpack, handlers, available = frames.FRAME_HEAD.unpack_from, _HANDLERS, len(octets)
        while available - position >= frames.FRAME_HEAD_BYTES:
            high, low, kind, flags, stream_id = unpack(octets, position)
            size = high << 16 | low
            if size > self._limits.max_frame_bytes:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {size} octets")
            start = position + frames.FRAME_HEAD_BYTES
            end = start + size
            if end > available:
                break
            position = end
            if self._block is not None and kind != frames.CONTINUATION:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a header block was interrupted by another frame")
            if self.state is ConnectionState.AWAIT_SETTINGS and (kind != frames.SETTINGS or flags & frames.ACK):
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS")
            if kind >= len(handlers):
                self._flood.spend(self._now, Refusal.CONTROL_FLOOD)
            else:
                try:
                    handlers[kind](self, flags, stream_id & frames.MAX_STREAM_ID, octets[start:end])
                except StreamFault as fault:
                    self._fail_stream(fault)
        return position

    def _fail(self, fault: ConnectionFault) -> None:
        if self.state is ConnectionState.AWAIT_PREFACE:
            self.outbound.ready.append(_NOT_HTTP2)
        else:
            last = max(0, self.closed.last_stream_id)
            self.outbound.ready.append(frames.go_away_frame(last, fault.code, fault.reason))
        self.advance(ConnectionInput.FAULT)
        self.streams.clear()
        self.outbound.abandon()
        self._events.append(ConnectionFailed(fault.code, fault.reason, fault.refusal))

    def _fail_stream(self, fault: StreamFault) -> None:
        # A peer that makes us reset streams makes us work; so this counts as if it had reset them itself.
        self._flood.spend(self._now, Refusal.RESET_FLOOD)
        known = fault.stream_id in self.streams
        self.reset(fault.stream_id, fault.code)
        if not known:
            self._reset_unknown(fault.stream_id, fault.code)
        self._events.append(StreamReset(fault.stream_id, fault.code, fault.refusal))

    # ---- frames, in the order of RFC 9113 section 6

    def _on_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        size = len(payload)
        self._take_connection_window(size)
        stream = self.streams.get(stream_id)
        if stream is None:
            self._on_late_frame(stream_id)
            return
        end = flags & frames.END_STREAM
        self._receive(stream, _DATA_END if end else _DATA)
        stream.receive_window -= size
        if stream.receive_window < 0:
            raise StreamFault(stream_id, ErrorCode.FLOW_CONTROL_ERROR, "more DATA than the stream's window allows")
        if flags & frames.PADDED:
            payload = frames.without_padding(payload)
        if not payload and not end:
            self._flood.spend(self._now, Refusal.EMPTY_FRAME_FLOOD)
        if stream.body_left is not None and stream.state is not _CLOSED:  # who has its answer may stop short
            self._count_body(stream, len(payload), ended=bool(end))
        stream.unreleased += len(payload)
        self._events.append(DataReceived(stream_id, payload, bool(end)))
        if stream.state is _CLOSED:
            del self.streams[stream_id]

    def _on_headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        if not stream_id & 1:
            raise ConnectionFault(
                ErrorCode.PROTOCOL_ERROR, f"HEADERS on stream {stream_id}, which a client may not use"
            )
        if flags & frames.PADDED:
            payload = frames.without_padding(payload)
        if flags & frames.HAS_PRIORITY:
            if len(payload) < 5:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "HEADERS with less than its priority fields")
            payload = payload[5:]
        end_stream = bool(flags & frames.END_STREAM)
        if flags & frames.END_HEADERS:
            self._on_header_block(stream_id, payload, end_stream)
        else:
            self._block = HeaderBlock(stream_id, end_stream, payload)

    def _on_priority(self, flags: int, stream_id: int, payload: bytes) -> None:
        # Deprecated by RFC 9113 and ignored, save for its form.
        if not stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PRIORITY on stream 0")
        if len(payload) != 5:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "PRIORITY is not 5 octets")
        self._flood.spend(self._now, Refusal.CONTROL_FLOOD)

    def _on_reset(self, flags: int, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "RST_STREAM is not 4 octets")
        if not stream_id or self.closed.is_idle(stream_id):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"RST_STREAM on idle stream {stream_id}")
        self._flood.spend(self._now, Refusal.RESET_FLOOD)
        stream = self.streams.pop(stream_id, None)
        if stream is not None:
            stream.state = STREAM_TRANSITIONS[stream.state, StreamInput.RECEIVE_RESET]
            self.outbound.forget(stream)
            self._events.append(StreamReset(stream_id, frames.u32(payload)))

    def _on_settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"SETTINGS on stream {stream_id}")
        if flags & frames.ACK:
            if payload:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS acknowledgement with a payload")
            self._on_settings_acknowledged()
            return
        if len(payload) % 6:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS is no multiple of 6 octets")
        self._flood.spend(self._now, Refusal.SETTINGS_FLOOD)
        self._peer = self._peer.updated(frames.settings_entries(payload))
        self.outbound.apply(self._peer, tuple(self.streams.values()))
        self.outbound.ready.append(frames.frame(frames.SETTINGS, frames.ACK, 0))
        if self.state is ConnectionState.AWAIT_SETTINGS:
            self.advance(ConnectionInput.FIRST_SETTINGS)

    def _on_settings_acknowledged(self) -> None:
        shrink = self._new_stream_window - self._limits.stream_window_bytes
        if shrink:
            self._new_stream_window -= shrink
            for stream in self.streams.values():
                stream.receive_window -= shrink

    def _on_push_promise(self, flags: int, stream_id: int, payload: bytes) -> None:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE from a client")

    def _on_ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"PING on stream {stream_id}")
        if len(payload) != 8:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "PING is not 8 octets")
        if flags & frames.ACK:
            self._events.append(PingAcknowledged(payload))
            return
        self._flood.spend(self._now, Refusal.PING_FLOOD)
        if self.outbound.cuts != self._cuts_at_ping:
            self._cuts_at_ping = self.outbound.cuts
            self._pings.forgive()
        self._pings.ping(self._now)
        self.outbound.ready.append(frames.frame(frames.PING, frames.ACK, 0, payload))

    def _on_go_away(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"GOAWAY on stream {stream_id}")
        if len(payload) < 8:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "GOAWAY is under 8 octets")
        self._flood.spend(self._now, Refusal.CONTROL_FLOOD)
        self._events.append(GoAwayReceived(frames.u32(payload, 4), payload[8:]))

    def _on_window_update(self, flags: int, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "WINDOW_UPDATE is not 4 octets")
        self._count_window_update()
        increment = frames.u32(payload) & frames.MAX_WINDOW
        stream = self.streams.get(stream_id) if stream_id else None
        if stream_id and stream is None:
            if self.closed.is_idle(stream_id):
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"WINDOW_UPDATE on idle stream {stream_id}")
            return
        if not increment:
            if stream is None:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE of 0")
            raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE of 0")
        self.outbound.widen(stream, increment)

    def _count_window_update(self) -> None:
        """A client that reads sends some for each DATA frame or answer: each allows so many beside the usual burst."""
        sent = self.outbound.cuts + self._ends
        if sent != self._sent_at_update:
            self._window_flood.earn(_UPDATES_PER_FRAME * (sent - self._sent_at_update))
            self._sent_at_update = sent
        self._window_flood.spend(self._now, Refusal.CONTROL_FLOOD)

    def _on_continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        block = self._block
        if block is None or block.stream_id != stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "CONTINUATION of no header block")
        block.pieces.append(payload)
        block.size_bytes += len(payload)
        # A block may be larger than its list by a little (literals), never by much.
        if (
            block.size_bytes > 2 * self._limits.max_header_list_bytes
            or len(block.pieces) > self._limits.max_continuations + 1
        ):
            reason = "a header block in too many octets or frames"
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, reason, Refusal.CONTINUATION_FLOOD)
        if flags & frames.END_HEADERS:
            self._block = None
            self._on_header_block(stream_id, b"".join(block.pieces), block.end_stream)


def _what_it_is(octets: bytes) -> Refusal:
    """What a client speaks that did not begin with our preface."""
    if octets[:2] == b"\x16\x03":
        return Refusal.TLS
    return Refusal.HTTP1 if _HTTP1_START.match(octets) else Refusal.PREFACE


_Handler = Callable[[Inbound, int, int, bytes], None]
_HANDLERS: Final[tuple[_Handler, ...]] = (
    Inbound._on_data,
    Inbound._on_headers,
    Inbound._on_priority,
    Inbound._on_reset,
    Inbound._on_settings,
    Inbound._on_push_promise,
    Inbound._on_ping,
    Inbound._on_go_away,
    Inbound._on_window_update,
    Inbound._on_continuation,
)
"""By frame type; an unknown type is ignored, as it must be, and counted."""
