"""The sending half of a connection: what is ready to be written, and what waits for a window.

Rule 1: control frames and whole small answers go to `ready`, in order, at once.
Rule 2: larger bodies wait in their streams. `take` cuts frames from them, one stream after the other, as the windows
and the caller's budget allow: a large answer never holds up a small one, and nothing is cut before it can be written.
Rule 3: a stream stands in the queue only while it could send. One that waits for its window costs nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from trilith.wire.http2 import frames
from trilith.wire.http2.errors import ConnectionFault, ErrorCode, StreamFault
from trilith.wire.http2.header_encoder import TABLE_EMPTIED, EncodedHeaders
from trilith.wire.http2.settings import PeerSettings
from trilith.wire.http2.states import STREAM_TRANSITIONS, StreamInput, StreamState
from trilith.wire.http2.stream import Stream

_HALF_CLOSED_REMOTE: Final = StreamState.HALF_CLOSED_REMOTE
_LARGEST_FRAME_BYTES: Final = 64 << 10
"""We cut no larger frames, whatever the peer allows: other streams should get their turn."""


ROOM_BYTES: Final = 64 << 10
"""What one stream may have waiting before its sender should wait as well."""


class Outbound:
    """Queues and cuts frames. `on_end` is called for each stream whose END_STREAM was cut."""

    __slots__ = (
        "_blocked",
        "_on_end",
        "_peer",
        "_table_update_due",
        "cuts",
        "max_frame_bytes",
        "ready",
        "roomy",
        "waiting_bytes",
        "window",
    )

    def __init__(self, on_end: Callable[[Stream], None]) -> None:
        self.ready: list[bytes] = []
        self.roomy: list[int] = []
        """Streams that wanted room and have it now."""
        self.waiting_bytes = 0
        """Octets of all bodies that wait."""
        self.cuts = 0
        """DATA frames cut so far."""
        self.window = frames.DEFAULT_WINDOW
        self.max_frame_bytes = frames.DEFAULT_MAX_FRAME_BYTES
        self._blocked: deque[Stream] = deque()
        self._peer = PeerSettings()
        self._table_update_due = False
        self._on_end = on_end

    @property
    def initial_window(self) -> int:
        """The send window of a new stream."""
        return self._peer.initial_window

    @property
    def max_header_list_bytes(self) -> int | None:
        """The longest header list that the peer takes, as RFC 9113 counts it; None when it did not say."""
        return self._peer.max_header_list_bytes

    @property
    def has_ready(self) -> bool:
        """True when `take` would return something."""
        return bool(self.ready) or bool(self._blocked and self.window > 0)

    def can_send_whole(self, stream: Stream, size_bytes: int) -> bool:
        """True when an answer with a body of this size can go out at once as one HEADERS, DATA, HEADERS."""
        return (
            size_bytes <= self.max_frame_bytes
            and size_bytes <= self.window
            and size_bytes <= stream.send_window
            and stream.state is _HALF_CLOSED_REMOTE
            and stream.pending is None
            and not self._table_update_due
        )

    def headers(self, stream: Stream, encoded: EncodedHeaders, *, end_stream: bool) -> None:
        """Queues a header list: now, or as trailers behind the body that waits."""
        if stream.pending:
            stream.trailers = encoded
            return
        prefix, self._table_update_due = (TABLE_EMPTIED if self._table_update_due else b""), False
        self.ready.append(encoded.to_frames(stream.stream_id, end_stream=end_stream, prefix=prefix))
        self._sent(stream, StreamInput.SEND_END if end_stream else StreamInput.SEND_HEADERS)

    def body(self, stream: Stream, parts: Sequence[bytes | memoryview]) -> None:
        """Queues body octets; trailers come behind them."""
        if stream.pending is None:
            stream.pending = deque()
        for part in parts:
            if len(part):
                view = memoryview(part).cast("B")
                stream.pending.append(view)
                stream.pending_bytes += len(view)
                self.waiting_bytes += len(view)
        if stream.pending:
            self._schedule(stream)

    def end(self, stream: Stream) -> None:
        """The body ends the stream: no trailers come."""
        if stream.pending:
            stream.ends = True
        else:
            self.ready.append(frames.frame(frames.DATA, frames.END_STREAM, stream.stream_id))
            self._sent(stream, StreamInput.SEND_END)

    def drop_what_must_wait(self, stream: Stream) -> None:
        """Drops the body that waits in a stream unless all that waits can go out: what comes behind it is urgent.

        What goes out needs no window to be opened by the peer. In the windows of others on the connection it counts.
        """
        if self.waiting_bytes > self.window or stream.pending_bytes > stream.send_window:
            self._drop(stream)

    def widen(self, stream: Stream | None, increment: int) -> None:
        """A WINDOW_UPDATE came, for a stream or (None) for the connection.

        Raises:
            ConnectionFault, StreamFault: the window would exceed 2**31 - 1.
        """
        if stream is None:
            self.window += increment
            if self.window > frames.MAX_WINDOW:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "the connection's window exceeds 2**31 - 1")
            return
        stream.send_window += increment
        if stream.send_window > frames.MAX_WINDOW:
            raise StreamFault(stream.stream_id, ErrorCode.FLOW_CONTROL_ERROR, "the window exceeds 2**31 - 1")
        if stream.pending:
            self._schedule(stream)

    def apply(self, peer: PeerSettings, streams: Sequence[Stream]) -> None:
        """The peer's settings changed; `streams` are the open ones.

        Raises:
            ConnectionFault: the new initial window makes a stream's window exceed 2**31 - 1.
        """
        growth = peer.initial_window - self._peer.initial_window
        self._table_update_due |= peer.smallest_table_bytes < self._peer.smallest_table_bytes
        self._peer = peer
        self.max_frame_bytes = min(peer.max_frame_bytes, _LARGEST_FRAME_BYTES)
        for stream in streams if growth else ():
            stream.send_window += growth
            if stream.send_window > frames.MAX_WINDOW:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE overflows a stream's window")
            if stream.pending:
                self._schedule(stream)

    def forget(self, stream: Stream) -> None:
        """The stream was reset: what waits in it is dropped."""
        self._drop(stream)

    def _drop(self, stream: Stream) -> None:
        stream.pending = None
        self.waiting_bytes -= stream.pending_bytes
        stream.pending_bytes = 0
        stream.wants_room = False
        if stream.scheduled:
            stream.scheduled = False
            self._blocked.remove(stream)

    def abandon(self) -> None:
        """The connection failed: no body goes out any more."""
        self._blocked.clear()

    def lost(self) -> None:
        """The socket is gone: what is ready is dropped as well, and nobody is told of the end of a stream."""
        self.abandon()
        self.ready = []
        self.waiting_bytes = 0
        self._on_end = _nobody

    def take(self, budget_bytes: int) -> bytes:
        """Everything that is ready, and at most about `budget_bytes` of waiting bodies."""
        if self._blocked:
            self._cut(budget_bytes)
        ready, self.ready = self.ready, []
        return ready[0] if len(ready) == 1 else b"".join(ready)

    def _schedule(self, stream: Stream) -> None:
        if stream.send_window > 0 and not stream.scheduled:
            stream.scheduled = True
            self._blocked.append(stream)

    def _cut(self, budget: int) -> None:
        blocked = self._blocked
        while blocked and budget > 0:
            stream = blocked.popleft()
            stream.scheduled = False
            pending = stream.pending
            if not pending:
                continue
            if self.window <= 0:  # nobody can send now: keep the turn
                stream.scheduled = True
                blocked.appendleft(stream)
                return
            limit = min(self.max_frame_bytes, self.window, stream.send_window, budget)
            if limit > 0:
                budget -= self._cut_frame(stream, pending, limit)
            if pending:
                self._schedule(stream)

    def _cut_frame(self, stream: Stream, pending: deque[memoryview], limit: int) -> int:
        parts: list[bytes | memoryview] = [b""]
        size = 0
        while pending and size < limit:
            part = pending[0]
            room = limit - size
            if len(part) <= room:
                parts.append(pending.popleft())
                size += len(part)
            else:
                parts.append(part[:room])
                pending[0] = part[room:]
                size = limit
        ends = stream.ends and not pending
        parts[0] = frames.frame_head(size, frames.DATA, frames.END_STREAM if ends else 0, stream.stream_id)
        self.ready.append(b"".join(parts))
        self.cuts += 1
        self.window -= size
        stream.send_window -= size
        stream.pending_bytes -= size
        self.waiting_bytes -= size
        stream.sent_bytes += size
        if stream.wants_room and stream.pending_bytes <= ROOM_BYTES // 2:
            stream.wants_room = False
            self.roomy.append(stream.stream_id)
        if ends:
            self._sent(stream, StreamInput.SEND_END)
        elif not pending and stream.trailers is not None:
            self.headers(stream, stream.trailers, end_stream=True)
        return size

    def _sent(self, stream: Stream, what: StreamInput) -> None:
        stream.state = STREAM_TRANSITIONS[stream.state, what]
        if what is StreamInput.SEND_END:
            self._on_end(stream)


def _nobody(_: Stream) -> None:
    """Is told."""
