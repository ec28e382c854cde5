"""The calls of one side that are in flight: ids, callbacks, and which of them the other side began.

Rule 1: a call id is `sequence << SLOT_BITS | slot`. The slot is the call's word on the accept board, reused after the
        answer; the sequence makes ids unique for the life of the connection.
Rule 2: a cancelled call stays in flight, without a callback, until it is answered.
"""

from __future__ import annotations

from collections.abc import Callable

from trilith.net.transport.accept_board import SLOT_BITS, SLOT_MASK, AcceptBoard
from trilith.net.transport.calls import LostCall, Reply

OnReply = Callable[[Reply], None]


class CallTable:
    """Calls sent and not yet answered. `len` counts cancelled ones too.

    Attributes:
        in_flight: what `len` says, as a plain number for the way of each call.
        board: where the other side marks begun calls; None when it says so by ACCEPT frames.
    """

    __slots__ = ("_accepted", "_callbacks", "_free_slots", "_sequence", "_slots", "board", "in_flight")

    def __init__(self) -> None:
        self.board: AcceptBoard | None = None
        self.in_flight = 0
        self._callbacks: dict[int, OnReply | None] = {}
        self._accepted: set[int] = set()
        self._free_slots: list[int] = []
        self._slots = 0
        self._sequence = 0

    def __len__(self) -> int:
        return self.in_flight

    def add(self, on_reply: OnReply) -> int:
        """Enters a call; returns its id."""
        if self._free_slots:
            slot = self._free_slots.pop()
        else:
            slot = self._slots
            self._slots += 1
        self._sequence += 1
        call_id = self._sequence << SLOT_BITS | slot
        self._callbacks[call_id] = on_reply
        self.in_flight += 1
        return call_id

    def take(self, call_id: int) -> OnReply | None:
        """Removes a call; returns its callback, or None when it was cancelled.

        Raises:
            KeyError: it is not in flight.
        """
        on_reply = self._callbacks.pop(call_id)
        self.in_flight -= 1
        self._free_slots.append(call_id & SLOT_MASK)
        if self._accepted:
            self._accepted.discard(call_id)
        return on_reply

    def wanted(self, call_id: int) -> bool:
        """Whether the call is in flight, and was not cancelled."""
        return self._callbacks.get(call_id) is not None

    def cancel(self, call_id: int) -> bool:
        """Drops a call's callback; False when it is not in flight or was cancelled before."""
        if not self.wanted(call_id):
            return False
        self._callbacks[call_id] = None
        return True

    def is_cancelled(self, call_id: int) -> bool:
        """Whether the call is in flight, and was cancelled or given up."""
        return call_id in self._callbacks and self._callbacks[call_id] is None

    def give_up(self, call_id: int) -> OnReply | None:
        """The call has failed and its answer is still due: its callback, None when it was cancelled before."""
        on_reply = self._callbacks.get(call_id)
        if on_reply is not None:
            self._callbacks[call_id] = None
        return on_reply

    def accept(self, call_id: int) -> None:
        """Notes an ACCEPT frame; one for a call that is not in flight is late and ignored."""
        if call_id in self._callbacks:
            self._accepted.add(call_id)

    def empty(self) -> list[tuple[LostCall, OnReply]]:
        """Removes all calls; returns those that were not cancelled, in the order in which they were sent."""
        lost = [
            (LostCall(call_id, self._is_accepted(call_id)), on_reply)
            for call_id, on_reply in self._callbacks.items()
            if on_reply is not None
        ]
        for call_id in list(self._callbacks):
            self.take(call_id)
        return lost

    def check_integrity(self) -> None:
        """For tests: every slot is free or used by one call.

        Raises:
            AssertionError: they are not.
        """
        if self.in_flight != len(self._callbacks):
            raise AssertionError(f"expected {len(self._callbacks)} calls in flight, got {self.in_flight}")
        slots = [call_id & SLOT_MASK for call_id in self._callbacks] + self._free_slots
        if sorted(slots) != list(range(self._slots)):
            raise AssertionError(f"expected each of {self._slots} call slots once, got {sorted(slots)}")

    def _is_accepted(self, call_id: int) -> bool:
        return call_id in self._accepted or (self.board is not None and self.board.is_marked(call_id))
