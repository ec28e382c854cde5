"""One end of the connection between a gateway and a worker; both ends are this class.

Rule 1: every call ends exactly once: a reply, an entry in `on_lost`, or the caller's own `cancel`.
Rule 2: a call is sent only within the other side's grant. A cancelled call occupies its place until it is answered.
Rule 3: nothing that the other side sends raises out of here, or makes this side hold more than the limits say: the
        connection is ended with one logged reason.
Rule 4: one thread, the loop's. Only `IncomingCall.begin` and the death of received views may be elsewhere.

Read `call` and `_on_frames` first: they are the two ways through.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from trilith.errors import Draining, QueueFull, ReplicaLost
from trilith.net.transport.accept_board import MAX_CALLS
from trilith.net.transport.call_table import OnReply
from trilith.net.transport.calls import Reply
from trilith.net.transport.owner import CALLBACK_FAILED, LOG, tell
from trilith.net.transport.peer_life import PeerLife
from trilith.net.transport.streams import CallStream, OnItem
from trilith.wire import frames
from trilith.wire.frames import CALL, ERROR, RESULT, Buffer, Frame, MalformedFrame
from trilith.wire.windows import Window

_ANSWERS: Final = (RESULT, ERROR)
_NEVER: Final = math.inf


class Peer(PeerLife):
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

    # --- Calling

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
