"""One HTTP/2 connection of the generator with many gRPC calls in flight, driven by callbacks alone.

Rule 1: no task and no future in the hot path. A small call is one write; what arrives is read frame by frame.
Rule 2: our windows are as large as they may be, so a server never waits for us to read; the server's are kept.
Rule 3: a server that says goodbye (GOAWAY) gets no new calls. When those in flight have ended the connection is closed
        and opened again; no call fails for it but those that the server says it never saw.

Frames: RFC 9113. Calls: gRPC's PROTOCOL-HTTP2.md.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from typing import Final, cast

from trilith.core.timeline import TIMELINE_AT_HEADER, TIMELINE_HEADER
from trilith.errors import CallerError
from trilith.measure.load.grpc_lane import GrpcLane, Owner, error_of
from trilith.measure.load.grpc_target import GrpcRequest
from trilith.measure.load.lanes import CLOSED, MALFORMED, RESET, Load
from trilith.wire.http2 import frames
from trilith.wire.http2.errors import ConnectionFault, ErrorCode
from trilith.wire.http2.header_decoder import HeaderDecoder

_CREDIT_AFTER_BYTES: Final = 1 << 28
_LAST_STREAM: Final = frames.MAX_STREAM_ID - 1000
_INITIAL_WINDOW: Final = 4
_MAX_FRAME: Final = 5
_MAX_STREAMS: Final = 3


class GrpcConnection(asyncio.Protocol):
    """A connection to the server under load.

    Attributes:
        slot: which of the station's connections this is.
        received_bytes: bytes read.
        max_streams: calls that the server allows at a time.
        open: whether new calls may be sent.
        asked_at: instant in seconds at which it was asked for; for the owner to set.
    """

    def __init__(self, owner: Owner, load: Load, slot: int) -> None:
        self._owner = owner
        self._load = load
        self._transport: asyncio.Transport | None = None
        self._decoder = HeaderDecoder(max_list_bytes=1 << 20)
        self._lanes: dict[int, GrpcLane] = {}
        self._blocked: deque[GrpcLane] = deque()
        self._rest = b""
        self._block: list[bytes] = []
        self._block_of = (0, False)
        self._next_stream = 1
        self._window = frames.DEFAULT_WINDOW
        self._stream_window = frames.DEFAULT_WINDOW
        self._max_frame = frames.DEFAULT_MAX_FRAME_BYTES
        self._unacknowledged = 0
        self._greeted = False
        self._lost = False
        self.slot = slot
        self.received_bytes = 0
        self.max_streams = 1 << 31
        self.open = False
        self.asked_at = 0.0

    def start(self, lane: GrpcLane, request: GrpcRequest) -> None:
        """Writes a call."""
        stream = self._next_stream
        self._next_stream = stream + 2
        self._lanes[stream] = lane
        lane.stream = stream
        transport = self._transport
        if transport is None:
            return
        head, size = request.sampled if lane.sampled else request.head, len(request.message)
        number = stream.to_bytes(4, "big")
        if size <= self._max_frame and size <= self._window and size <= self._stream_window and not self._blocked:
            self._window -= size
            parts = (head.open_head, number, head.block, request.data_head, number, request.message)
            transport.write(b"".join(parts))
        else:
            transport.write(head.open_head + number + head.block)
            lane.unsent = memoryview(request.message)
            lane.window = self._stream_window
            self._blocked.append(lane)
            self._send_blocked()
        if stream >= _LAST_STREAM:
            self.open = False

    def cancel(self, lane: GrpcLane) -> None:
        """Tells the server that nobody wants the answer of a call any more."""
        if self._lanes.pop(lane.stream, None) is not None and self._transport is not None:
            self._forget(lane)
            self._transport.write(frames.reset_frame(lane.stream, ErrorCode.CANCEL))

    def abort(self) -> None:
        """Drops the connection at once and reports nothing."""
        self._lost = True
        self.open = False
        if self._transport is not None:
            self._transport.abort()

    # ---- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self._transport = cast(asyncio.Transport, transport)  # TCP and TLS give no other
        raw = transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        settings = frames.settings_frame([(2, 0), (_INITIAL_WINDOW, frames.MAX_WINDOW)])  # no push
        credit = frames.window_update_frame(0, frames.MAX_WINDOW - frames.DEFAULT_WINDOW)
        self._transport.write(frames.PREFACE + settings + credit)

    def data_received(self, data: bytes) -> None:
        """Frames, cut anywhere."""
        if self._gone():
            return
        self.received_bytes += len(data)
        data = self._rest + data if self._rest else data
        position, end = 0, len(data)
        unpack = frames.FRAME_HEAD.unpack_from
        try:
            while end - position >= 9:
                high, low, kind, flags, stream = unpack(data, position)
                size = high << 16 | low
                after = position + 9 + size
                if after > end:
                    if size > frames.DEFAULT_MAX_FRAME_BYTES:
                        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "no HTTP/2, or a frame over what we allow")
                    break
                self._frame(kind, flags, stream & frames.MAX_STREAM_ID, data[position + 9 : after])
                position = after
                if self._gone():
                    return
        except (ConnectionFault, CallerError, IndexError):
            self._fail(MALFORMED)
            return
        self._rest = data[position:]

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        if not self._lost:
            self._fail(RESET if exc is not None else CLOSED)

    # ---- frames

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == frames.DATA:
            self._data(flags, stream, payload)
        elif kind == frames.HEADERS:
            if flags & frames.PADDED:
                payload = frames.without_padding(payload)
            if flags & frames.HAS_PRIORITY:
                payload = payload[5:]
            self._block_of = (stream, bool(flags & frames.END_STREAM))
            if flags & frames.END_HEADERS:
                self._headers(payload)
            else:
                self._block = [payload]
        elif kind == frames.CONTINUATION:
            self._block.append(payload)
            if flags & frames.END_HEADERS:
                self._headers(b"".join(self._block))
        elif kind == frames.WINDOW_UPDATE:
            self._widen(stream, frames.u32(payload))
        else:
            self._control(kind, flags, stream, payload)

    def _data(self, flags: int, stream: int, payload: bytes) -> None:
        self._unacknowledged += len(payload)
        if self._unacknowledged >= _CREDIT_AFTER_BYTES and self._transport is not None:
            self._transport.write(frames.window_update_frame(0, self._unacknowledged))
            self._unacknowledged = 0
        lane = self._lanes.get(stream)
        if lane is None:
            return
        if flags & frames.PADDED:
            payload = frames.without_padding(payload)
        if lane.reader is not None and payload:
            lane.received_bytes += len(payload)
            found = lane.reader.feed(payload)
            if found and lane.kept is not None:
                lane.kept += found
            if found and lane.counts:
                self._load.items(lane, len(found))
            if lane.received_bytes >= _CREDIT_AFTER_BYTES and self._transport is not None:
                self._transport.write(frames.window_update_frame(stream, lane.received_bytes))
                lane.received_bytes = 0
        if flags & frames.END_STREAM:
            self._ended(stream, "answer without a status")

    def _headers(self, block: bytes) -> None:
        stream, ends = self._block_of
        fields = self._decoder.decode(block).fields  # also of a call that is gone: the table must follow the server's
        lane = self._lanes.get(stream)
        if lane is None:
            return
        if lane.sampled:
            for name, value in fields:
                if name == TIMELINE_HEADER:
                    lane.timeline = value
                elif name == TIMELINE_AT_HEADER:
                    lane.timeline_place = value
        if ends:
            self._ended(stream, error_of(fields, lane))

    def _control(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        transport = self._transport
        if transport is None:
            return
        if kind == frames.SETTINGS and not flags & frames.ACK:
            for setting, value in frames.settings_entries(payload[: len(payload) // 6 * 6]):
                self._setting(setting, value)
            transport.write(frames.frame(frames.SETTINGS, frames.ACK, 0))
            if not self._greeted:
                self._greeted = self.open = True
                self._owner.ready(self)
        elif kind == frames.PING and not flags & frames.ACK:
            transport.write(frames.frame(frames.PING, frames.ACK, 0, payload))
        elif kind == frames.RST_STREAM:
            code = frames.u32(payload)
            name = ErrorCode(code).name if code in ErrorCode.__members__.values() else str(code)
            self._ended(stream, f"reset by the server ({name})")
        elif kind == frames.GOAWAY:
            self.open = False
            last = frames.u32(payload) & frames.MAX_STREAM_ID
            for refused in [each for each in self._lanes if each > last]:
                self._ended(refused, "refused by a server that goes away")
            self._owner.draining(self)
            if not self._lanes and not self._gone():
                self._fail(CLOSED)

    def _setting(self, name: int, value: int) -> None:
        if name == _INITIAL_WINDOW:
            for lane in self._blocked:
                lane.window += value - self._stream_window
            self._stream_window = value
            self._send_blocked()
        elif name == _MAX_FRAME:
            self._max_frame = min(value, 1 << 20)
        elif name == _MAX_STREAMS:
            self.max_streams = value

    def _ended(self, stream: int, error: str) -> None:
        lane = self._lanes.pop(stream, None)
        if lane is None:
            return
        if lane.unsent:
            self._forget(lane)
            if self._transport is not None:
                self._transport.write(frames.reset_frame(stream, ErrorCode.NO_ERROR))
        lane.waiting = False
        self._load.ended(lane, error)
        if not self.open and not self._lanes and not self._lost:
            self._fail(CLOSED)

    # ---- large requests

    def _widen(self, stream: int, increment: int) -> None:
        if stream == 0:
            self._window += increment
        elif (lane := self._lanes.get(stream)) is not None:
            lane.window += increment
        if self._blocked:
            self._send_blocked()

    def _send_blocked(self) -> None:
        transport = self._transport
        for _ in range(len(self._blocked)):
            lane = self._blocked.popleft()
            while lane.unsent and transport is not None:
                size = min(len(lane.unsent), self._max_frame, self._window, lane.window)
                if size <= 0:
                    break
                piece, lane.unsent = lane.unsent[:size], lane.unsent[size:]
                self._window -= size
                lane.window -= size
                flags = 0 if lane.unsent else frames.END_STREAM
                transport.writelines((frames.frame_head(size, frames.DATA, flags, lane.stream), piece))
            if lane.unsent:
                self._blocked.append(lane)

    def _forget(self, lane: GrpcLane) -> None:
        lane.unsent = None
        if lane in self._blocked:
            self._blocked.remove(lane)

    def _gone(self) -> bool:
        return self._lost

    def _fail(self, kind: str) -> None:
        self.abort()
        self._owner.lost(self, kind)
