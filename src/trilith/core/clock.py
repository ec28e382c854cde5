"""Time as an argument.

Rule: deciders never call a clock; they are handed `now`. Doers hold a `Clock`. On Linux `time.monotonic()` is one clock
for all processes of a machine, so instants (deadlines, timeline stamps) may cross process boundaries of one host.
"""

from __future__ import annotations

import time
from typing import Final, Protocol

_TIMER_RESOLUTION_S: Final = 0.001


class Clock(Protocol):
    """A source of monotonic instants, in seconds."""

    def now(self) -> float:
        """The current instant in seconds, comparable between the processes of one machine."""
        ...


class MonotonicClock:
    """The real clock (`CLOCK_MONOTONIC`)."""

    now = staticmethod(time.monotonic)


def timer_delay_s(due: float, now: float) -> float:
    """What to tell a loop's `call_later` so that it looks again at `due`: at least what its timers can tell apart.

    uvloop counts in whole milliseconds. A shorter delay would be none: it looked again at once, and would spin until
    `due`.
    """
    return max(_TIMER_RESOLUTION_S, due - now)
