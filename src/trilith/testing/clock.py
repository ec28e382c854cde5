"""A clock that stands still until it is told to move."""

from __future__ import annotations


class FakeClock:
    """For tests of anything that takes a `Clock`.

    Args:
        start_s: the first instant, in seconds.
    """

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = start_s

    def now(self) -> float:
        """The current instant in seconds."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Lets time pass.

        Raises:
            ValueError: `seconds` is negative.
        """
        if seconds < 0:
            raise ValueError(f"time goes forward: seconds must be >= 0, got {seconds}")
        self._now_s += seconds
