"""Says when something holds the event loop of a replica: a call that blocks in an async method, mostly.

Rule 1: a thread asks the loop for a sign every second while the replica has calls, and does nothing else. Nothing
    stands in the way of a call. What held it is seen from the first sign that does not come: it may have begun before.
Rule 2: what held it is looked at while it does: the frames of the loop's thread, and the method whose task runs. Code
    that also keeps Python's lock is looked at when it lets go; then where it was is not known, and not said.
Rule 3: it is said when the loop goes on, and once before when that takes long; a few lines a minute at most.
Rule 4: a process that was stopped has held nothing: its own watch has overslept and used no CPU.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Final

from trilith.core.line_budget import LineBudget
from trilith.core.own_frames import is_authors
from trilith.telemetry import Counter, instruments

_log: Final = logging.getLogger("trilith.service")
_EVERY_S: Final = 1.0
_HELD_S: Final = 1.0
_LONG_S: Final = 10.0
_SLACK_S: Final = 0.5
_DEEPEST: Final = 6


class LoopWatch:
    """Of one replica. Made and started on its loop.

    Args:
        name: of the service.
        in_flight: how many calls it has.
        method_of: the method that a task works for, `Ocr.read`; "" for none.
    """

    def __init__(
        self, name: str, in_flight: Callable[[], int], method_of: Callable[[asyncio.Task[object]], str]
    ) -> None:
        self._name = name
        self._in_flight = in_flight
        self._method_of = method_of
        self._loop = asyncio.get_running_loop()
        self._loops_thread = threading.get_ident()
        self._budget = LineBudget(burst=5, per_s=0.05)
        self._held = instruments.declare(
            Counter,
            "trilith_loop_held_seconds_total",
            "Time for which the event loops of replicas were held, by what lasted a second or longer.",
            ("method",),
            own=True,
        )
        self._ends = threading.Event()

    def start(self) -> None:
        """Begins."""
        threading.Thread(target=self._run, name="trilith loop watch", daemon=True).start()

    def stop(self) -> None:
        """Ends it, in a while."""
        self._ends.set()

    def _run(self) -> None:
        while not self._ends.wait(_EVERY_S):
            if self._in_flight():
                try:
                    self._look()
                except RuntimeError:  # the loop has ended
                    return

    def _look(self) -> None:
        """Asks for one sign; what held it up, if it came late."""
        came = threading.Event()
        asked_at = time.monotonic()
        cpu_before_s = time.process_time()
        self._loop.call_soon_threadsafe(came.set)
        if came.wait(_HELD_S):
            overslept_s = time.monotonic() - asked_at
            if overslept_s < _HELD_S + _SLACK_S or time.process_time() - cpu_before_s < overslept_s / 2:
                return
            self._tell("", "", overslept_s)  # who kept the lock has let go of it, and nobody knows where that was
            return
        method, where = self._holder()
        if not came.wait(_LONG_S) and where:
            self._tell(method, where, time.monotonic() - asked_at, goes_on=True)
        while not came.wait(_EVERY_S) and not self._ends.is_set():
            continue
        held_s = time.monotonic() - asked_at
        if where:
            self._held.add(held_s, method=method or self._name)
            self._tell(method, where, held_s)

    def _holder(self) -> tuple[str, str]:
        """The method whose task runs on the loop, and the frames of the author's code there; "" and "": none does."""
        frame = sys._current_frames().get(self._loops_thread)
        try:
            task = asyncio.current_task(self._loop)
            method = "" if task is None else self._method_of(task)
        except RuntimeError:  # what it looked at changed meanwhile
            method = ""
        return method, _authors_frames(frame)

    def _tell(self, method: str, where: str, held_s: float, *, goes_on: bool = False) -> None:
        left_out = self._budget.take(time.monotonic())
        if left_out is None:
            return
        who = method or f"something in {self._name}"
        more = f" (and {left_out} times more, of which nothing was said)" if left_out else ""
        at = f" It was at:\n{where}" if where else " It kept Python's lock, too, so that where it was is not known."
        _log.warning(
            "%s %s the event loop for at least %.1f s%s: nothing else of this replica went on. Declare the method"
            " without async, so that it runs in a thread, or call what takes long by await asyncio.to_thread(...).%s",
            who,
            "has held" if goes_on else "held",
            held_s,
            more,
            at,
        )


def _authors_frames(frame: FrameType | None) -> str:
    """The frames of a thread from the author's first one on, as in a traceback; "" when it runs none of his code."""
    stack = traceback.extract_stack(frame) if frame is not None else []
    first = next((index for index, entry in enumerate(stack) if is_authors(entry.filename)), None)
    if first is None:
        return ""
    return "".join(traceback.format_list(stack[first:][-_DEEPEST:])).rstrip("\n")
