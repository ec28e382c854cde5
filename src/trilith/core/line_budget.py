"""How many lines of one kind a log takes. Pure: the instant is an argument."""

from __future__ import annotations


class LineBudget:
    """Lets `burst` lines through at once, and `per_s` a second after that.

    Args:
        burst: lines that may come at once.
        per_s: lines a second that may come for ever.
    """

    def __init__(self, *, burst: float, per_s: float) -> None:
        self._burst = burst
        self._per_s = per_s
        self._left = burst
        self._at = 0.0
        self._left_out = 0

    def take(self, now: float) -> int | None:
        """Whether a line may be written at `now` (seconds): how many were left out before it, or None: not this one."""
        self._left = min(self._burst, self._left + max(0.0, now - self._at) * self._per_s)
        self._at = max(self._at, now)
        if self._left < 1.0:
            self._left_out += 1
            return None
        self._left -= 1.0
        left_out, self._left_out = self._left_out, 0
        return left_out
