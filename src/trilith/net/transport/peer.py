"""One end of the connection between a gateway and a worker; both ends are this class.

Rule 1: every call ends exactly once: a reply, an entry in `on_lost`, or the caller's own `cancel`.
Rule 2: a call is sent only within the other side's grant. A cancelled call occupies its place until it is answered.
Rule 3: nothing that the other side sends raises out of here, or makes this side hold more than the limits say: the
        connection is ended with one logged reason.
Rule 4: one thread, the loop's. Only `IncomingCall.begin` and the death of received views may be elsewhere.

Read `call` and `_on_frames` first: they are the two ways through.
"""

from __future__ import annotations

import asyncio
import math
import socket
import time
from collections.abc import Callable, Sequence
from typing import Final

from trilith.errors import (
    Draining,
    InvalidConfig,
    QueueFull,
    ReplicaLost,
)
from trilith.net.transport.accept_board import MAX_CALLS, AcceptBoard
from trilith.net.transport.answering import Answering, OnCall, take_back
from trilith.net.transport.call_table import CallTable, OnReply
from trilith.net.transport.calls import LostCall, PeerStatistics, Reply
from trilith.net.transport.channel import Channel
from trilith.net.transport.config import PeerConfig
from trilith.net.transport.descriptors import allocate_lazily
from trilith.net.transport.owner import CALLBACK_FAILED, LOG, tell, tell_nothing
from trilith.net.transport.receive import HAS_BOARD, Surroundings
from trilith.net.transport.sender import FrameSender
from trilith.net.transport.stream_desk import StreamDesk
from trilith.net.transport.streams import CallStream, OnItem
from trilith.wire import frames
from trilith.wire.frame_reader import FrameReader
from trilith.wire.frames import CALL, ERROR, RESULT, Buffer, Frame, MalformedFrame
from trilith.wire.windows import Window

_ANSWERS: Final = (RESULT, ERROR)
_NEVER: Final = math.inf


class Peer:
    """One end of one connection. Make it with `connect`, `Listener` or `peer_from_socket`.

    Args:
        sock: a connected UNIX stream socket; the peer owns it.
        grant: how many calls this side takes at a time, 0 to 4096.
        config: limits and shared memory.

    Attributes:
        on_notice: gets each one-way message.
        on_credits: called when `credits` rose from 0.
        on_lost: called once when the connection has ended, for whatever reason, with the calls that were not answered
            and not cancelled (possibly none). Without one, those calls get an error reply.
        lost_reason: why the connection ended; "" while it lives.
    """

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

    # --- Calling

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

    def call(
        self,
        meta: bytes,
        buffers: Sequence[Buffer],
        on_reply: OnReply,
        *,
        deadline: float | None = None,
        flags: int = 0,
    ) -> int:
        """Sends a call. The buffers are the caller's again when this returns.

        Args:
            meta: opaque metadata.
            buffers: C-contiguous memory of any item type. Large ones travel through shared memory.
            on_reply: called once on the loop's thread, unless the call is cancelled or reported by `on_lost`.
            deadline: absolute monotonic instant in seconds, for the other side to see.
            flags: 0 to 255, for the other side to see.

        Returns:
            The call's id, for `cancel`.

        Raises:
            QueueFull: there are no credits.
            Draining: this peer is closing.
            ReplicaLost: the connection has ended.
            PayloadTooLarge: the call is over the frame limits.
            Bug: a buffer is not C-contiguous.
        """
        room = self.credits
        if room <= 1:
            if room <= 0:
                raise self._refusal()
            self._ran_out = True
        call_id = self._outgoing.add(on_reply)
        first = _NEVER if deadline is None else deadline
        try:
            self._sender.send(CALL, call_id, meta, buffers, flags=flags, first=first)
        except BaseException:
            self._outgoing.take(call_id)
            raise
        return call_id

    def open(
        self,
        meta: bytes,
        buffers: Sequence[Buffer],
        on_reply: OnReply,
        on_item: OnItem,
        *,
        window: Window,
        deadline: float | None = None,
        flags: int = 0,
    ) -> CallStream:
        """Sends a call that has items, either way. `call` says what the arguments are that both take.

        Args:
            on_reply: the answer, which ends the items of the other side.
            on_item: gets each of them before; it says by `CallStream.took` when it is done with one.
            window: how many of them may be on their way.

        Returns:
            The caller's end of its items. It becomes writable when the other side asks for some.

        Raises:
            As `call`.
        """
        room = self.credits
        if room <= 0:
            raise self._refusal()
        self._ran_out = self._ran_out or room == 1
        first = _NEVER if deadline is None else deadline
        return self._streams.open(meta, buffers, on_reply, on_item, window=window, first=first, flags=flags)

    def cancel(self, call_id: int) -> None:
        """Takes a call back: its `on_reply` is not called any more. Unknown and answered calls are ignored.

        The call stays in flight until the other side has answered it.
        """
        self._streams.drop(call_id)
        if self._outgoing.cancel(call_id):
            self._sender.send(frames.CANCEL, call_id, b"")

    def stop(self, call_id: int) -> None:
        """Asks the other side to stop working on a call. It is answered all the same, when the work has ended."""
        if self._outgoing.wanted(call_id):
            self._sender.send(frames.CANCEL, call_id, b"")

    def notify(self, meta: bytes) -> None:
        """Sends a one-way message. Nothing happens after the end of the connection.

        Raises:
            PayloadTooLarge: it is over the metadata limit.
        """
        self._sender.send(frames.NOTICE, 0, meta)
        self._check_unsent()

    def flush(self) -> None:
        """Writes what waits for the end of the loop's turn, for an owner whose loop does not run meanwhile."""
        self._channel.flush()

    # --- Sending

    def _send_grant(self) -> None:
        self._sender.send(frames.CREDIT, 0, b"", count=self._grant)

    def _refusal(self) -> QueueFull | Draining | ReplicaLost:
        if self._closed:
            return ReplicaLost(f"the connection has ended: {self.lost_reason}")
        if self._closing:
            return Draining("the connection is closing and takes no new calls")
        return QueueFull(
            f"the other side takes {self._remote_grant} calls at a time and has {len(self._outgoing)},"
            f" {self._channel.unsent_bytes} bytes are unsent; look at `credits` before calling"
        )

    # --- Receiving

    def _on_frames(self, received: list[Frame], now: float) -> None:
        surroundings, on_call = self._surroundings, self._answering.received
        if self.credits <= 0:
            self._ran_out = True
        try:
            for frame in received:
                kind = frame.kind
                if not surroundings.greeted:
                    surroundings.greet(frame)
                elif kind in _ANSWERS:
                    self._on_answer(frame)
                elif kind == CALL:
                    on_call(frame, now)
                else:
                    self._on_other(frame)
                if self._closed:
                    return
        except MalformedFrame as malformed:
            self._on_end(f"malformed frame: {malformed}", True)
            return
        if self._ran_out:
            self._check_credits()
        if self._closing:
            self._check_idle()

    def _on_answer(self, frame: Frame) -> None:
        call_id = frame.call_id
        buffers = self._surroundings.views(frame.parts)
        try:
            on_reply = self._outgoing.take(call_id)
        except KeyError:
            raise MalformedFrame(f"an answer to call {call_id:#x}, which is not in flight") from None
        if on_reply is None:
            return
        if frame.kind == RESULT:
            reply = Reply(True, frame.meta, buffers, "", "", frame.first, frame.second)
        else:
            code, message, again = frames.decode_error(frame.meta)
            reply = Reply(False, b"", buffers, code, message, frame.first, frame.second, again)
        try:
            on_reply(reply)
        except Exception:  # noqa: BLE001 - as `tell` does, without its call
            LOG.exception(CALLBACK_FAILED, on_reply)

    def _on_other(self, frame: Frame) -> None:
        kind = frame.kind
        if kind >= frames.ITEM:
            # One in shared memory is given back by who looked at it, wanted or not.
            self._streams.on_frame(frame, self._surroundings.views(frame.parts))
        elif kind == frames.CREDIT:
            self._remote_grant = min(frame.count, MAX_CALLS)
            if not self._greeted.done():
                self._greeted.set_result(None)
        elif kind == frames.NOTICE:
            if self.on_notice is not None:
                tell(self.on_notice, frame.meta)
        elif kind == frames.CANCEL:
            self._answering.taken_back(frame.call_id)
        elif kind == frames.ACCEPT:
            self._outgoing.accept(frame.call_id)
        elif kind == frames.SEGMENT:
            self._surroundings.add_segment(frame)
        elif kind == frames.RETIRE:
            self._surroundings.segments.remove(frame.call_id)
        elif kind != frames.HEARTBEAT:
            raise MalformedFrame(f"a frame of kind {kind} in the middle of the connection")

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


def checked_grant(calls: int) -> int:
    """The grant itself.

    Raises:
        InvalidConfig: it is not 0 to 4096.
    """
    if not 0 <= calls <= MAX_CALLS:
        raise InvalidConfig(f"grant: expected 0 to {MAX_CALLS} calls at a time on one connection, got {calls}")
    return calls
