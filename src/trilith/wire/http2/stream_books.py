"""The books of a connection that receives: its streams, what each of them may do, and how much came of each.

Rule: what a frame is has been read (`inbound`); here is what becomes of the stream that it names. A method raises
`ConnectionFault` or `StreamFault`, which `Inbound.receive` decides on.
"""

from __future__ import annotations

from typing import Final

from trilith.wire.http2 import frames
from trilith.wire.http2.closed import ClosedStreams
from trilith.wire.http2.errors import ConnectionFault, ErrorCode, Refusal, StreamFault
from trilith.wire.http2.events import (
    Event,
    RequestReceived,
    RequestRefused,
    TrailersReceived,
)
from trilith.wire.http2.flood import FloodGuard, PingGuard
from trilith.wire.http2.header_decoder import DecodedBlock, HeaderDecoder
from trilith.wire.http2.outbound import Outbound
from trilith.wire.http2.request_head import MalformedHeaders, check_trailers
from trilith.wire.http2.settings import Http2Limits, PeerSettings
from trilith.wire.http2.states import (
    CONNECTION_TRANSITIONS,
    RECEIVE_FAULTS,
    STREAM_TRANSITIONS,
    ConnectionInput,
    ConnectionState,
    StreamInput,
    StreamState,
)
from trilith.wire.http2.stream import Stream

_HEADERS: Final = StreamInput.RECEIVE_HEADERS
_HEADERS_END: Final = StreamInput.RECEIVE_HEADERS_END
_IDLE: Final = StreamState.IDLE
_CLOSED: Final = StreamState.CLOSED


class HeaderBlock:
    """A header block that CONTINUATION frames have yet to complete."""

    __slots__ = ("end_stream", "pieces", "size_bytes", "stream_id")

    def __init__(self, stream_id: int, end_stream: bool, piece: bytes) -> None:
        self.stream_id = stream_id
        self.end_stream = end_stream
        self.pieces = [piece]
        self.size_bytes = len(piece)


class StreamBooks:
    """The streams that a connection has, and its state."""

    def __init__(self, limits: Http2Limits, *, now: float) -> None:
        self._limits = limits
        self.state = ConnectionState.AWAIT_PREFACE
        self.streams: dict[int, Stream] = {}
        self.closed = ClosedStreams()
        self._decoder = HeaderDecoder(max_list_bytes=limits.max_header_list_bytes)
        self._flood = FloodGuard(burst=limits.control_burst, per_s=limits.control_per_s, now=now)
        self._pings = PingGuard(interval_s=limits.min_ping_interval_s, max_strikes=limits.max_ping_strikes)
        self._window_flood = FloodGuard(burst=limits.control_burst, per_s=limits.control_per_s, now=now)
        self._cuts_at_ping = 0
        self._ends = self._sent_at_update = 0
        self.outbound = Outbound(self.sent_end)
        self._peer = PeerSettings()
        self._block: HeaderBlock | None = None
        self._window_target = max(limits.connection_window_bytes, frames.DEFAULT_WINDOW)
        self._window = self._window_target
        # Until the peer has acknowledged our SETTINGS it may go by the defaults.
        self._new_stream_window = max(limits.stream_window_bytes, frames.DEFAULT_WINDOW)
        self._rest = b""
        self._now = now
        self._events: list[Event] = []

    # ---- requests

    def _on_header_block(self, stream_id: int, block: bytes, end_stream: bool) -> None:
        # Decoded first, whatever becomes of it: the dynamic table must follow the peer's.
        decoded = self._decoder.decode(block)
        if stream_id > self.closed.last_stream_id:
            self._open(stream_id, decoded, end_stream)
            return
        stream = self.streams.get(stream_id)
        if stream is not None:
            self._on_trailers(stream, decoded, end_stream)
        elif self.closed.was_skipped(stream_id):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"stream {stream_id} is below the last one")
        elif not self.closed.was_reset_by_us(stream_id):
            raise ConnectionFault(ErrorCode.STREAM_CLOSED, f"HEADERS on stream {stream_id}, which has ended")

    def _open(self, stream_id: int, decoded: DecodedBlock, end_stream: bool) -> None:
        self.closed.opened(stream_id)
        if len(self.streams) >= self._limits.max_concurrent_streams or self.state is ConnectionState.DRAINING:
            self._flood.spend(self._now, Refusal.RESET_FLOOD)
            self._reset_unknown(stream_id, ErrorCode.REFUSED_STREAM)
            self._events.append(RequestRefused(stream_id))
            return
        try:
            head = decoded.request_head()
        except MalformedHeaders as error:
            raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR, str(error), Refusal.MALFORMED_HEADERS) from error
        if end_stream and head.content_length:
            raise StreamFault(
                stream_id, ErrorCode.PROTOCOL_ERROR, "a content-length, and no body", Refusal.CONTENT_LENGTH
            )
        self.streams[stream_id] = Stream(
            stream_id,
            STREAM_TRANSITIONS[_IDLE, _HEADERS_END if end_stream else _HEADERS],
            self._peer.initial_window,
            self._new_stream_window,
            head.content_length,
        )
        self._events.append(RequestReceived(stream_id, head, end_stream))

    def _on_trailers(self, stream: Stream, decoded: DecodedBlock, end_stream: bool) -> None:
        stream_id = stream.stream_id
        self._receive(stream, _HEADERS_END if end_stream else _HEADERS)
        try:
            check_trailers(decoded.fields)
        except MalformedHeaders as error:
            raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR, str(error), Refusal.MALFORMED_HEADERS) from error
        if stream.body_left:
            reason = "the body is shorter than its content-length"
            raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR, reason, Refusal.CONTENT_LENGTH)
        self._events.append(TrailersReceived(stream_id, decoded.fields))
        if stream.state is _CLOSED:
            del self.streams[stream_id]

    def _receive(self, stream: Stream, what: StreamInput) -> None:
        state = STREAM_TRANSITIONS.get((stream.state, what))
        if state is None:
            raise StreamFault(
                stream.stream_id, RECEIVE_FAULTS[stream.state, what], f"{what.name} in {stream.state.name}"
            )
        stream.state = state

    def _on_late_frame(self, stream_id: int) -> None:
        if not stream_id or self.closed.is_idle(stream_id):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"DATA on idle stream {stream_id}")
        if not self.closed.was_reset_by_us(stream_id):
            raise StreamFault(stream_id, ErrorCode.STREAM_CLOSED, "DATA after the end")

    def _count_body(self, stream: Stream, size: int, *, ended: bool) -> None:
        left = (stream.body_left or 0) - size
        if left < 0 or (ended and left):
            reason = "the body is not as long as its content-length"
            raise StreamFault(stream.stream_id, ErrorCode.PROTOCOL_ERROR, reason, Refusal.CONTENT_LENGTH)
        stream.body_left = left

    def _take_connection_window(self, size: int) -> None:
        self._window -= size
        if self._window < 0:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "more DATA than the connection's window allows")
        if self._window <= self._window_target // 2:
            self.outbound.ready.append(frames.window_update_frame(0, self._window_target - self._window))
            self._window = self._window_target

    def _reset_unknown(self, stream_id: int, code: ErrorCode) -> None:
        self.closed.reset_by_us(stream_id)
        self.outbound.ready.append(frames.reset_frame(stream_id, code))

    def lost(self) -> None:
        """The socket is gone: see `Http2Connection.lost`."""
        self.state = ConnectionState.CLOSED
        self.streams.clear()
        self._block = None
        self._rest = b""
        self._events = []
        self.outbound.lost()

    def sent_end(self, stream: Stream) -> None:
        """END_STREAM went out on a stream."""
        self._ends += 1
        self._flood.earn()
        self._pings.forgive()
        if stream.state is _CLOSED:
            del self.streams[stream.stream_id]
        elif stream.reset_at_end:
            self.reset(stream.stream_id, ErrorCode.NO_ERROR)

    def advance(self, what: ConnectionInput) -> None:
        """The connection goes on to another state."""
        self.state = CONNECTION_TRANSITIONS[self.state, what]

    def reset(self, stream_id: int, code: ErrorCode) -> None:
        """Ends a stream in both directions; frames for it that are on their way are ignored."""
        stream = self.streams.pop(stream_id, None)
        if stream is not None:
            stream.state = STREAM_TRANSITIONS[stream.state, StreamInput.SEND_RESET]
            self.outbound.forget(stream)
            self._reset_unknown(stream_id, code)
