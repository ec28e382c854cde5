"""What the owner of a connection sees of calls: replies, lost calls, incoming calls, counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from trilith.errors import TrilithError, error_from_code, wire_code
from trilith.wire.frames import Buffer

if TYPE_CHECKING:
    from trilith.net.transport.accept_board import AcceptBoard
    from trilith.net.transport.answering import Answering


class Reply(msgspec.Struct, frozen=True, gc=False):
    """The one answer to one call.

    Attributes:
        ok: whether the call succeeded; otherwise `error_code` and `error_message` are set.
        meta: as the other side gave it.
        buffers: writable views, this side's alone. One in shared memory occupies its slot as long as a view lives.
        started_at: the instant (seconds) at which the other side began the call; 0.0 when it never did.
        finished_at: the instant at which it answered.
        retry_after_s: seconds after which trying again is sensible, where the failure says.
    """

    ok: bool
    meta: bytes
    buffers: list[memoryview]
    error_code: str
    error_message: str
    started_at: float
    finished_at: float
    retry_after_s: float | None = None

    def error(self) -> TrilithError:
        """The failure as an exception of the tree."""
        return error_from_code(self.error_code, self.error_message, retry_after_s=self.retry_after_s)


@dataclass(frozen=True, slots=True)
class LostCall:
    """A call that will not be answered, because its connection ended.

    Attributes:
        call_id: what `Peer.call` returned.
        accepted: the other side had begun it: running it again elsewhere may do its work twice.
    """

    call_id: int
    accepted: bool


class IncomingCall:
    """A call from the other side. Answer it exactly once, by `result` or `fail`, on the loop's thread.

    Attributes:
        id: unique among the calls that this side holds from this connection.
        meta: as the caller gave it.
        buffers: writable views, this side's alone. One in shared memory occupies its slot as long as a view lives.
        deadline: absolute monotonic instant in seconds, or None. It is carried, not enforced.
        flags: 0 to 255, as the caller gave it.
        received_at: the instant at which it was read.
        started_at: the instant of `begin`, 0.0 before.
        cancelled: the caller took it back, or its connection ended. An answer is still due (`Cancelled.code` will do).
        on_cancel: called once when `cancelled` becomes true.
    """

    __slots__ = (
        "_answering",
        "_board",
        "buffers",
        "cancelled",
        "deadline",
        "flags",
        "id",
        "meta",
        "on_cancel",
        "received_at",
        "started_at",
    )

    def __init__(
        self,
        answering: Answering,
        board: AcceptBoard | None,
        call_id: int,
        meta: bytes,
        buffers: list[memoryview],
        deadline: float | None,
        flags: int,
        received_at: float,
    ) -> None:
        self._answering = answering
        self._board = board
        self.id = call_id
        self.meta = meta
        self.buffers = buffers
        self.deadline = deadline
        self.flags = flags
        self.received_at = received_at
        self.started_at = 0.0
        self.cancelled = False
        self.on_cancel: Callable[[], None] | None = None

    def begin(self) -> None:
        """Records that work starts now: from here on the caller will not run the call elsewhere by itself.

        The record outlives this process. From any thread while there is an accept board (see `PeerStatistics`), else on
        the loop's thread.
        """
        self.started_at = time.monotonic()
        if self._board is not None:
            self._board.mark(self.id)
        else:
            self._answering.send_accept(self.id)

    def may_run_again(self) -> None:
        """Takes the record back: should this process die before the answer leaves it, the caller may run it elsewhere.

        For work that may be done twice, whose answer is given and not written. Nothing happens without a board.
        """
        if self._board is not None:
            self._board.unmark(self.id)

    def result(self, meta: bytes, buffers: Sequence[Buffer] = ()) -> None:
        """Answers with success. The buffers are the caller's again when this returns.

        An answer over the frame limits is sent as an error. When the connection has ended nothing happens.

        Raises:
            Bug: it was answered before, or a buffer is not C-contiguous.
        """
        self._answering.answer(self, meta, buffers)

    def result_in_one_frame(self, meta: bytes, buffers: Sequence[Buffer] = ()) -> None:
        """As `result`, for an answer of which a part can be left out.

        Raises:
            PayloadTooLarge: it is over the frame limits. An answer is still due.
            Bug: it was answered before, or a buffer is not C-contiguous.
        """
        self._answering.answer(self, meta, buffers, whole=False)

    def fail(self, code: str, message: str) -> None:
        """Answers with an error.

        Args:
            code: of a class of `trilith.errors`.
            message: a sentence for a person; a very long one is cut.

        Raises:
            Bug: it was answered before.
        """
        self._answering.answer_error(self, code, message)

    def fail_error(self, error: TrilithError) -> None:
        """Answers with an error of the tree: the other side gets its kind, its message and when to try again.

        Raises:
            Bug: it was answered before.
        """
        self._answering.answer_error(self, wire_code(error), error.message, error.retry_after_s)

    def __repr__(self) -> str:
        return f"<IncomingCall {self.id:#x} {len(self.meta)} bytes, {len(self.buffers)} buffers>"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerStatistics:
    """The counts of one end of a connection.

    Attributes:
        in_flight: sent and unanswered.
        incoming: received and unanswered.
        credits: how many more the other side takes now.
        grant: how many this side takes at a time.
        bytes_sent, bytes_received: over the socket, headers and all.
        buffers_inline, bytes_inline: buffers sent in frames.
        buffers_shared, bytes_shared: buffers sent through shared memory.
        unsent_bytes: waiting for the socket.
        segments, slots, slots_in_use, segment_bytes: shared memory that this side created.
        mapped_bytes: shared memory of the other side, mapped here.
        accept_board: whether the other side can read from memory which of its calls were begun here.
    """

    in_flight: int
    incoming: int
    credits: int
    grant: int
    bytes_sent: int
    bytes_received: int
    buffers_inline: int
    bytes_inline: int
    buffers_shared: int
    bytes_shared: int
    unsent_bytes: int
    segments: int
    slots: int
    slots_in_use: int
    segment_bytes: int
    mapped_bytes: int
    accept_board: bool
