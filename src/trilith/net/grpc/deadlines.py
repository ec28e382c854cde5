"""One timer for all deadlines of a connection.

A timer for each call would cost more than the call. This one stands at the earliest deadline it was told of; when it
fires, it asks for the earliest that is left. A call that is answered in time costs nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from trilith.core.clock import timer_delay_s


class DeadlineTimer:
    """Calls `on_due` at the earliest deadline or a little before; `on_due` returns the next one, or None."""

    __slots__ = ("_fires_at", "_handle", "_loop", "_on_due")

    def __init__(self, loop: asyncio.AbstractEventLoop, on_due: Callable[[], float | None]) -> None:
        self._loop = loop
        self._on_due = on_due
        self._handle: asyncio.TimerHandle | None = None
        self._fires_at = 0.0

    def watch(self, deadline: float, now: float) -> None:
        """Sees to it that the timer fires at this deadline, or before."""
        if self._handle is None:
            self._set(deadline, now)
        elif deadline < self._fires_at:
            self._handle.cancel()
            self._set(deadline, now)

    def end(self) -> None:
        """Nothing is to be watched any more, and nobody to be told."""
        self._on_due = _never
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _set(self, deadline: float, now: float) -> None:
        self._fires_at = deadline
        self._handle = self._loop.call_later(timer_delay_s(deadline, now), self._fire)

    def _fire(self) -> None:
        self._handle = None
        following = self._on_due()
        if following is not None:
            self._set(following, time.monotonic())


def _never() -> None:
    """Nothing is due."""
