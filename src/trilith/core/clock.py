"""Time as an argument.

Rule: deciders never call a clock; they are handed `now`. Doers hold a `Clock`. On Linux `time.monotonic()` is one clock
for all processes of a machine, so instants (deadlines, timeline stamps) may cross process boundaries of one host.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A source of monotonic instants, in seconds."""

    def now(self) -> float:
        """The current instant in seconds, comparable between the processes of one machine."""
        ...


class MonotonicClock:
    """The real clock (`CLOCK_MONOTONIC`)."""

    now = staticmethod(time.monotonic)
