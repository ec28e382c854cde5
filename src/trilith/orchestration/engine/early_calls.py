"""Calls of replicas that came before what they need: they wait by revision until that is there.

Rule: a call that waits is answered when its deadline passes, when its caller takes it back (or is gone), and when what
    it waits for will not come. None stays in memory after that.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from trilith.errors import Cancelled, DeadlineExceeded, TrilithError
from trilith.net.transport import IncomingCall
from trilith.wire.calls import CallMeta

TAKEN_BACK: Final = "the caller took the call back"


class EarlyCall:
    """One call that waits, and the revision of the replica that made it."""

    __slots__ = ("incoming", "meta", "revision", "timer")

    def __init__(self, incoming: IncomingCall, meta: CallMeta, revision: int) -> None:
        self.incoming = incoming
        self.meta = meta
        self.revision = revision
        self.timer: asyncio.TimerHandle | None = None


class EarlyCalls:
    """The calls that wait. `what` they wait for is a text for messages."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._waiting: dict[int, dict[EarlyCall, None]] = {}

    def __len__(self) -> int:
        return sum(len(waiting) for waiting in self._waiting.values())

    def keep(self, incoming: IncomingCall, meta: CallMeta, revision: int) -> None:
        """Lets a call wait, to the end of its time at the latest."""
        call = EarlyCall(incoming, meta, revision)
        self._waiting.setdefault(revision, {})[call] = None
        incoming.on_cancel = lambda: self._end(call, Cancelled(TAKEN_BACK))
        if incoming.deadline is not None:
            left_s = max(0.0, incoming.deadline - time.monotonic())
            overdue = DeadlineExceeded(f"the time of the call ran out while it waited for {self._what}")
            call.timer = asyncio.get_running_loop().call_later(left_s, self._end, call, overdue)

    def take(self, revision: int) -> list[EarlyCall]:
        """Takes out the calls that wait for a revision, in the order in which they came. They wait for nothing now."""
        taken = list(self._waiting.pop(revision, ()))
        for call in taken:
            _release(call)
        return taken

    def take_up_to(self, revision: int) -> list[EarlyCall]:
        """Takes out the calls that wait for that revision or an earlier one."""
        return [call for number in sorted(self._waiting) if number <= revision for call in self.take(number)]

    def fail(self, revision: int, error: TrilithError) -> None:
        """Answers the calls that wait for a revision with the reason why it does not come."""
        for call in self.take(revision):
            call.incoming.fail_error(error)

    def _end(self, call: EarlyCall, error: TrilithError) -> None:
        waiting = self._waiting[call.revision]
        del waiting[call]
        if not waiting:
            del self._waiting[call.revision]
        _release(call)
        call.incoming.fail_error(error)


def _release(call: EarlyCall) -> None:
    call.incoming.on_cancel = None
    if call.timer is not None:
        call.timer.cancel()
        call.timer = None
