"""The calls of the other side of a connection: from their frame to their one answer.

Rule: a call that was granted is here from its frame to its answer, wanted or not. `IncomingCall` is the way in from the
    serving side, `received` and `taken_back` that of the connection's owner, `Peer`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Final

from trilith.errors import Bug, Draining, NoReadyReplica, PayloadTooLarge, ServiceError
from trilith.net.transport.calls import IncomingCall
from trilith.net.transport.channel import Channel
from trilith.net.transport.owner import tell, tell_nothing
from trilith.net.transport.receive import Surroundings
from trilith.net.transport.sender import FrameSender
from trilith.net.transport.streams import IncomingStream
from trilith.wire import frames
from trilith.wire.frames import ERROR, RESULT, Buffer, Frame, MalformedFrame

_NEVER: Final = math.inf

OnCall = Callable[[IncomingCall], None]


class Answering:
    """The called half of one connection.

    Args:
        channel: where answers go.
        sender: makes them frames.
        surroundings: what frames refer to.
        grant: how many calls the other side may have here at a time.
        after_answer: called when an answer was sent while the connection closes, or while much waits to be sent.
        max_unsent_bytes: what is much.

    Attributes:
        calls: those that were not answered, by id.
        on_call: gets each call; None: they are refused.
        closing, closed: whether the connection takes no new calls, or has ended.
    """

    def __init__(
        self,
        channel: Channel,
        sender: FrameSender,
        surroundings: Surroundings,
        *,
        grant: int,
        after_answer: Callable[[], None],
        max_unsent_bytes: int,
    ) -> None:
        self.calls: dict[int, IncomingCall] = {}
        self.on_call: OnCall | None = None
        self.closing = self.closed = False
        self._channel = channel
        self._sender = sender
        self._surroundings = surroundings
        self._highest_grant = grant
        self._after_answer = after_answer
        self._max_unsent_bytes = max_unsent_bytes

    # --- For Peer

    def granted(self, calls: int) -> None:
        """The other side may have so many here; what it was granted before it may be using."""
        self._highest_grant = max(self._highest_grant, calls)

    def taken_back(self, call_id: int) -> None:
        """The other side wants an answer no more; one is due all the same."""
        call = self.calls.get(call_id)
        if call is not None:
            take_back(call)

    def end(self) -> list[IncomingCall]:
        """The connection has ended; those that were not answered."""
        self.closed = True
        left = list(self.calls.values())
        self.calls.clear()
        return left

    def received(self, frame: Frame, now: float) -> None:
        """Makes a frame a call, and hands it over. Raises `MalformedFrame` when it may not come."""
        call_id = frame.call_id
        if call_id in self.calls:
            raise MalformedFrame(f"call {call_id:#x} was sent twice")
        if len(self.calls) >= self._highest_grant:
            raise MalformedFrame(f"more calls than the {self._highest_grant} that were granted")
        deadline = frame.first if frame.first < _NEVER else None
        buffers = self._surroundings.views(frame.parts)
        board = self._surroundings.board
        if frame.count:
            call: IncomingCall = IncomingStream(self, self._sender, board, frame, buffers, deadline, now)
        else:
            call = IncomingCall(self, board, call_id, frame.meta, buffers, deadline, frame.flags, now)
        self.calls[call_id] = call
        if self.closing:
            call.fail(Draining.code, "this side of the connection is closing and takes no new calls")
        elif self.on_call is None:
            call.fail(NoReadyReplica.code, "this side of the connection serves no calls")
        elif not tell(self.on_call, call) and call_id in self.calls:
            call.fail(Bug.code, "the handler of calls failed; see the log of the serving process")

    # --- For IncomingCall

    def send_accept(self, call_id: int) -> None:
        """Tells the caller that its call was begun, at once. Used where there is no accept board."""
        self._sender.send(frames.ACCEPT, call_id, b"")
        self._channel.flush()

    def answer(self, call: IncomingCall, meta: bytes, buffers: Sequence[Buffer], *, whole: bool = True) -> None:
        """Sends the result of a call (see `IncomingCall.result`; `whole=False`: `IncomingCall.result_in_one_frame`)."""
        if self.calls.get(call.id) is not call and not self._owes(call):
            return
        try:
            self._sender.send(
                RESULT,
                call.id,
                meta,
                buffers,
                first=call.started_at,
                second=time.monotonic(),
            )
        except PayloadTooLarge as error:
            if not whole:
                raise
            self.answer_error(call, ServiceError.code, f"the answer is too large: {error.message}")
            return
        self._answered(call)

    def answer_error(self, call: IncomingCall, code: str, message: str, retry_after_s: float | None = None) -> None:
        """Sends the failure of a call (see `IncomingCall.fail`)."""
        if not self._owes(call):
            return
        meta = frames.encode_error(code, message, retry_after_s)
        self._sender.send(ERROR, call.id, meta, first=call.started_at, second=time.monotonic())
        self._answered(call)

    def _owes(self, call: IncomingCall) -> bool:
        if self.closed:
            return False
        if self.calls.get(call.id) is not call:
            raise Bug(f"{call!r} was answered twice; a call has exactly one result or failure")
        return True

    def _answered(self, call: IncomingCall) -> None:
        del self.calls[call.id]
        call.on_cancel = None  # it refers to the call in turn: freed now, not by the cycle collector
        if self.closing or self._channel.unsent_bytes > self._max_unsent_bytes:
            self._after_answer()


def take_back(call: IncomingCall) -> None:
    """The caller wants it no more, or is gone."""
    if call.cancelled:
        return
    call.cancelled = True
    if isinstance(call, IncomingStream):
        call.stream.close()
    if call.on_cancel is not None:
        tell_nothing(call.on_cancel)
