"""The server's end of one HTTP/2 connection: octets in, events out; calls in, octets out (RFC 9113).

Rule 1: no socket, no clock, no task. `receive` takes octets and the time; `take_output` gives octets to write.
Rule 2: a call for a stream that is gone does nothing: the peer may have reset it a moment ago, and that is no mistake.
Rule 3: the layer above decides when a stream's window opens again (`release`). What a connection can make us hold is
bounded by its streams' windows.
Rule 4: an answer ends the request too. What the peer has still to say is not wanted, and it is told so by RST_STREAM
with NO_ERROR behind the answer (RFC 9113 section 8.1), unless the layer above would rather read it to its end.

`inbound.py` reads, `outbound.py` writes; here is what the layer above asks and calls. It knows nothing of gRPC: a REST
server stands on the same events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trilith.wire.http2 import frames
from trilith.wire.http2.errors import ErrorCode
from trilith.wire.http2.events import Event
from trilith.wire.http2.header_encoder import EncodedHeaders
from trilith.wire.http2.inbound import Inbound
from trilith.wire.http2.outbound import ROOM_BYTES
from trilith.wire.http2.settings import Http2Limits
from trilith.wire.http2.states import ConnectionInput, ConnectionState, StreamState

_RECEIVING: Final = (StreamState.OPEN, StreamState.HALF_CLOSED_LOCAL)


class Http2Connection:
    """One connection. Not safe for use from two threads."""

    def __init__(self, limits: Http2Limits, *, now: float) -> None:
        self._limits = limits
        self._inbound = Inbound(limits, now=now)
        self._outbound = self._inbound.outbound
        self._streams = self._inbound.streams

    # ---- what the layer above asks

    @property
    def state(self) -> ConnectionState:
        """Where the connection stands."""
        return self._inbound.state

    @property
    def open_streams(self) -> int:
        """Streams that have not ended; answers that wait for a window count."""
        return len(self._streams)

    @property
    def has_output(self) -> bool:
        """True when `take_output` would give octets."""
        return self._outbound.has_ready

    @property
    def max_header_list_bytes(self) -> int | None:
        """The longest header list that the peer takes, as RFC 9113 counts it; None when it did not say."""
        return self._outbound.max_header_list_bytes

    @property
    def ready_chunks(self) -> int:
        """Pieces of output that were made and not taken: a measure of a peer that does not read."""
        return len(self._outbound.ready)

    # ---- what the layer above calls

    def receive(self, octets: bytes, now: float) -> list[Event]:
        """Reads octets from the peer.

        Args:
            octets: what came, cut anywhere.
            now: monotonic seconds.

        Returns:
            What happened, in order. After `ConnectionFailed` all further input is ignored.
        """
        return self._inbound.receive(octets, now)

    def release(self, stream_id: int, size_bytes: int) -> None:
        """The layer above has no more need of so many received octets: the peer may send as many again."""
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        stream.unreleased -= size_bytes
        target = self._limits.stream_window_bytes
        grant = target - stream.unreleased - stream.receive_window
        if grant >= max(1, target // 2) and stream.state in _RECEIVING:
            stream.receive_window += grant
            self._outbound.ready.append(frames.window_update_frame(stream_id, grant))

    def respond(
        self, stream_id: int, head: EncodedHeaders, body: Sequence[bytes | memoryview], trailers: EncodedHeaders
    ) -> None:
        """A whole answer: head, body, trailers. One piece of output when it fits the windows, queued otherwise."""
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        outbound = self._outbound
        size = 0
        for part in body:
            size += len(part)
        if head.open_head and trailers.end_head and outbound.can_send_whole(stream, size):
            number = stream_id.to_bytes(4, "big")
            outbound.window -= size
            outbound.ready.append(
                b"".join(
                    (
                        head.open_head, number, head.block,
                        size.to_bytes(3, "big"), b"\0\0", number, *body,
                        trailers.end_head, number, trailers.block,
                    )
                )
            )  # fmt: skip
            stream.state = StreamState.CLOSED
            self._inbound.sent_end(stream)
            return
        stream.reset_at_end = True
        outbound.headers(stream, head, end_stream=False)
        outbound.body(stream, body)
        outbound.headers(stream, trailers, end_stream=True)

    def send_headers(self, stream_id: int, encoded: EncodedHeaders, *, read_on: bool = False) -> None:
        """An answer that is its head alone, or the trailers of one in parts. `read_on`: what is to come is wanted."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            stream.reset_at_end = not read_on
            self._outbound.headers(stream, encoded, end_stream=True)

    def cut_short(self, stream_id: int, trailers: EncodedHeaders) -> None:
        """Ends an answer now. What still waits of its body goes before the end only if the peer has room for it.

        A peer that reads nothing would not hear of the end otherwise.
        """
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._outbound.drop_what_must_wait(stream)
            self.send_headers(stream_id, trailers)

    def begin(self, stream_id: int, head: EncodedHeaders) -> None:
        """The head of an answer that comes in parts."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._outbound.headers(stream, head, end_stream=False)

    def send_data(self, stream_id: int, parts: Sequence[bytes | memoryview]) -> bool:
        """A part of a body. False when so much of it waits that the sender should: see `take_roomy`."""
        stream = self._streams.get(stream_id)
        if stream is None:
            return True
        self._outbound.body(stream, parts)
        stream.wants_room = stream.pending_bytes > ROOM_BYTES
        return not stream.wants_room

    def end(self, stream_id: int, *, read_on: bool = False) -> None:
        """Ends an answer in parts that has no trailers. `read_on`: see `send_headers`."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            stream.reset_at_end = not read_on
            self._outbound.end(stream)

    def waiting(self) -> dict[int, tuple[int, int]]:
        """The streams whose bodies wait for a window or for the socket: octets of each that went out, and that wait."""
        return {
            each.stream_id: (each.sent_bytes, each.pending_bytes)
            for each in self._streams.values()
            if each.pending_bytes
        }

    @property
    def waiting_bytes(self) -> int:
        """Octets of all bodies that wait for a window or for the socket."""
        return self._outbound.waiting_bytes

    def take_roomy(self) -> list[int]:
        """The streams whose senders were told to wait and may go on, each once."""
        roomy, self._outbound.roomy = self._outbound.roomy, []
        return roomy

    def reset(self, stream_id: int, code: ErrorCode) -> None:
        """Ends a stream in both directions; frames for it that are on their way are ignored."""
        self._inbound.reset(stream_id, code)

    def ping(self, payload: bytes) -> None:
        """Sends a PING of 8 octets; the answer is a `PingAcknowledged` with the same."""
        self._outbound.ready.append(frames.frame(frames.PING, 0, 0, payload))

    def announce_drain(self) -> None:
        """Phase one of a shutdown: tells the peer to open no more streams, and still serves those on their way."""
        if self._inbound.state in (ConnectionState.AWAIT_SETTINGS, ConnectionState.OPEN):
            self._outbound.ready.append(frames.go_away_frame(frames.MAX_STREAM_ID, ErrorCode.NO_ERROR))

    def go_away(self, code: ErrorCode = ErrorCode.NO_ERROR, reason: str = "") -> None:
        """Phase two: streams opened from now on are refused; those that are open run to their end."""
        if self._inbound.state is ConnectionState.CLOSED:
            return
        if self._inbound.state is not ConnectionState.AWAIT_PREFACE:
            self._outbound.ready.append(frames.go_away_frame(max(0, self._inbound.closed.last_stream_id), code, reason))
        self._inbound.advance(ConnectionInput.LAST_GOAWAY)

    def lost(self) -> None:
        """The socket is gone: drops what was half received or not sent, and lets go of its parts. Calls do nothing."""
        self._inbound.lost()

    def take_output(self, budget_bytes: int) -> bytes:
        """Octets to write now: everything small, and about `budget_bytes` of the bodies that wait."""
        return self._outbound.take(budget_bytes)
