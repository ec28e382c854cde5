"""The life of one end of a connection: how it begins, what it has room for, how it ends. Its calls are `peer.Peer`'s.

Rule: whatever ends a connection comes by `_end`, once; all that were promised an answer are told there.
"""

from __future__ import annotations

import abc
import asyncio
import socket
import time
from collections.abc import Callable

from trilith.errors import ReplicaLost
from trilith.net.transport.accept_board import AcceptBoard
from trilith.net.transport.answering import Answering, OnCall, take_back
from trilith.net.transport.call_table import CallTable, OnReply
from trilith.net.transport.calls import LostCall, PeerStatistics, Reply
from trilith.net.transport.channel import Channel
from trilith.net.transport.config import PeerConfig, checked_grant
from trilith.net.transport.descriptors import allocate_lazily
from trilith.net.transport.owner import LOG, tell, tell_nothing
from trilith.net.transport.receive import HAS_BOARD, Surroundings
from trilith.net.transport.sender import FrameSender
from trilith.net.transport.stream_desk import StreamDesk
from trilith.wire import frames
from trilith.wire.frame_reader import FrameReader
from trilith.wire.frames import Frame


class PeerLife(abc.ABC):
    """A `Peer` without its calls."""

    def __init__(self, sock: socket.socket, *, grant: int, config: PeerConfig | None = None) -> None:
        self.on_notice: Callable[[bytes], None] | None = None
        self.on_credits: Callable[[], None] | None = None
        self.on_lost: Callable[[list[LostCall]], None] | None = None
        self.lost_reason = ""
        self._config = config or PeerConfig()
        self._channel = Channel(
            sock,
            FrameReader(self._config.limits, allocate=allocate_lazily),
            on_frames=self._on_frames,
            on_end=self._on_end,
            on_written=self._on_written,
        )
        self._sender = FrameSender(self._channel, self._config)
        self._surroundings = Surroundings(self._channel, self._config.shared_memory.max_mapped_bytes)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._greeted: asyncio.Future[None] = self._loop.create_future()
        self._idle: asyncio.Future[None] | None = None
        self._grant = checked_grant(grant)
        self._remote_grant = 0
        self._closing = False
        self._closed = False
        self._high_water_bytes = self._config.high_water_bytes
        self._outgoing = CallTable()
        self._ran_out = True  # credits were 0, and `on_credits` was not called since
        self._answering = Answering(
            self._channel,
            self._sender,
            self._surroundings,
            grant=self._grant,
            after_answer=self._after_answer,
            max_unsent_bytes=self._config.max_unsent_bytes,
        )
        self._incoming = self._answering.calls
        self._streams = StreamDesk(self._sender, self._outgoing, self._incoming)

    # --- Life

    def start(self) -> None:
        """Greets the other side, sends the grant and begins to read. Set the callbacks before."""
        board = AcceptBoard.create()
        hello = frames.encode(
            frames.HELLO, frames.MAGIC, count=frames.PROTOCOL_VERSION, flags=0 if board is None else HAS_BOARD
        )
        self._channel.start()
        if board is None:
            self._channel.send(hello)
        else:
            self._outgoing.board, descriptor = board
            self._channel.send_descriptor(hello, descriptor)
        self._send_grant()
        self._arm_timer()

    async def wait_greeted(self) -> None:
        """Returns when the other side has sent its grant, or when the connection has ended (see `closed`)."""
        await asyncio.shield(self._greeted)

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""
        return self._closed

    async def close(self, timeout_s: float) -> int:
        """Ends the connection in order: takes no new calls, finishes both sides' calls, sends what is unsent.

        Args:
            timeout_s: seconds that this may take.

        Returns:
            How many calls, sent and received, were cut off when that time was over.
        """
        if self._closed:
            return 0
        if self._idle is None:
            self._idle = self._loop.create_future()
            self._closing = self._answering.closing = True
            self.grant = 0
        self._check_idle()
        await asyncio.wait([self._idle], timeout=timeout_s)
        cut = len(self._outgoing) + len(self._incoming)
        self._end("this side closed the connection")
        return cut

    def abort(self) -> None:
        """Ends the connection at once. `on_lost` is called before this returns."""
        self._end("this side aborted the connection")

    def tick(self, now: float) -> None:
        """Sends a heartbeat if nothing was sent for the interval, and gives back idle shared memory.

        Called by the peer's own timer when `heartbeat_interval_s` is not 0.
        """
        if self._closed:
            return
        if now - self._channel.last_sent_at >= self._config.heartbeat_interval_s and not self._channel.unsent_bytes:
            self._sender.send(frames.HEARTBEAT, 0, b"")
        self._sender.pool.trim(now)

    @property
    def last_heard_at(self) -> float:
        """The instant (seconds) at which the other side was last heard; a heartbeat counts."""
        return self._channel.last_heard_at

    # --- Room for calls

    @property
    def grant(self) -> int:
        """How many calls this side takes at a time; setting it tells the other side."""
        return self._grant

    @grant.setter
    def grant(self, calls: int) -> None:
        self._grant = checked_grant(calls)
        self._answering.granted(self._grant)
        self._send_grant()

    @property
    def on_call(self) -> OnCall | None:
        """Gets each call of the other side. Without one, calls are refused."""
        return self._answering.on_call

    @on_call.setter
    def on_call(self, on_call: OnCall | None) -> None:
        self._answering.on_call = on_call

    @property
    def in_flight(self) -> int:
        """Calls sent and not yet answered, cancelled ones included."""
        return self._outgoing.in_flight

    @property
    def incoming(self) -> int:
        """Calls received and not yet answered."""
        return len(self._incoming)

    @property
    def writable(self) -> bool:
        """Whether the other side reads fast enough: unsent bytes are below the high-water mark."""
        return self._channel.unsent_bytes < self._config.high_water_bytes

    @property
    def credits(self) -> int:
        """How many more calls the other side takes now; 0 while it does not read, and after the end."""
        if self._closed or self._closing or self._channel.unsent_bytes >= self._high_water_bytes:
            return 0
        room = self._remote_grant - self._outgoing.in_flight
        return room if room > 0 else 0  # the grant may have sunk below what is in flight

    # --- Sending

    def _send_grant(self) -> None:
        self._sender.send(frames.CREDIT, 0, b"", count=self._grant)

    @abc.abstractmethod
    def _on_frames(self, received: list[Frame], now: float) -> None:
        """Takes what came."""

    # --- Room and end

    def _on_written(self, sent_bytes: int) -> None:
        unsent_bytes = self._channel.unsent_bytes
        if unsent_bytes < self._config.high_water_bytes <= unsent_bytes + sent_bytes:
            self._check_credits()
        if self._closing:
            self._check_idle()

    def _after_answer(self) -> None:
        """The connection is closing, or much waits to be sent."""
        self._check_unsent()
        if self._closing:
            self._check_idle()

    def _check_unsent(self) -> None:
        unsent_bytes = self._channel.unsent_bytes
        if unsent_bytes > self._config.max_unsent_bytes:
            self._on_end(f"the other side does not read: {unsent_bytes} bytes are unsent", True)

    def _check_credits(self) -> None:
        if self.credits > 0:
            self._ran_out = False
            if self.on_credits is not None:
                tell_nothing(self.on_credits)

    def _check_idle(self) -> None:
        idle = self._idle
        if idle is None or idle.done() or self._outgoing or self._incoming or self._channel.unsent_bytes:
            return
        idle.set_result(None)

    def _arm_timer(self) -> None:
        interval_s = self._config.heartbeat_interval_s
        if interval_s > 0:
            self._timer = self._loop.call_later(interval_s, self._on_timer)

    def _on_timer(self) -> None:
        self.tick(time.monotonic())
        if not self._closed:
            self._arm_timer()

    def _on_end(self, reason: str, broken: bool) -> None:
        # The end of a process is its supervisor's news; a broken protocol is this connection's own.
        if broken and not self._closed:
            LOG.error("the connection to another Trilith process was ended: %s", reason)
        self._end(reason)

    def _end(self, reason: str) -> None:
        if self._closed:
            return
        self._closed = True
        self.lost_reason = reason
        self._channel.close()
        if self._timer is not None:
            self._timer.cancel()
        self._streams.close()
        lost = self._outgoing.empty()
        self._outgoing.board = None
        incoming = self._answering.end()
        self._sender.pool.close()
        self._surroundings.close()
        for future in (self._greeted, self._idle):
            if future is not None and not future.done():
                future.set_result(None)
        for call in incoming:
            take_back(call)
        self._report_lost(lost)

    def _report_lost(self, lost: list[tuple[LostCall, OnReply]]) -> None:
        if self.on_lost is not None:
            tell(self.on_lost, [call for call, _ in lost])
            return
        message = f"the connection to the process that held the call has ended: {self.lost_reason}"
        for _, on_reply in lost:
            tell(on_reply, Reply(False, b"", [], ReplicaLost.code, message, 0.0, 0.0))

    # --- For operators and tests

    def statistics(self) -> PeerStatistics:
        """The counts of this end."""
        segments, slots, slots_in_use = self._sender.pool.counts()
        return PeerStatistics(
            in_flight=len(self._outgoing),
            incoming=len(self._incoming),
            credits=self.credits,
            grant=self._grant,
            bytes_sent=self._channel.sent_bytes,
            bytes_received=self._channel.received_bytes,
            buffers_inline=self._sender.buffers_inline,
            bytes_inline=self._sender.bytes_inline,
            buffers_shared=self._sender.buffers_shared,
            bytes_shared=self._sender.bytes_shared,
            unsent_bytes=self._channel.unsent_bytes,
            segments=segments,
            slots=slots,
            slots_in_use=slots_in_use,
            segment_bytes=self._sender.pool.total_bytes,
            mapped_bytes=self._surroundings.segments.total_bytes,
            accept_board=self._surroundings.board is not None,
        )

    def check_integrity(self) -> None:
        """For tests: the counts of shared memory and of call slots agree.

        Raises:
            AssertionError: they do not.
        """
        self._sender.pool.check_integrity()
        self._outgoing.check_integrity()

    def __repr__(self) -> str:
        if self._closed:
            return f"<Peer ended: {self.lost_reason}>"
        return f"<Peer {len(self._outgoing)} in flight, {self.credits} credits, {len(self._incoming)} incoming>"
