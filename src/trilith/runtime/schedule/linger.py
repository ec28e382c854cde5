"""How long an under-full batch may linger for the callers of the last one, who tend to ask again at once.

Rule 1: pure. `now` is an argument (seconds).
Rule 2: a free place waits only while that promises more rows a second than going now. What the promise rests on is
    measured in every batch, whether anything was held or not: how many come back, how soon, and what a batch of each
    size takes.
Rule 3: nothing is held for longer than `SHARE` of what the last batch took, nor once all who were expected are back: a
    lone caller who asks one call after the other never waits here.

Without it, callers who wait for their answers fall into two halves: one runs while the other one waits, and a batch is
half as large as it could be. Where a batch of two halves takes little longer than one half, twice as much gets done.
"""

from __future__ import annotations

from typing import Final

SHARE: Final = 0.5
SHORTEST_S: Final = 0.001  # what a timer can tell apart
_PAYS: Final = 1.0
_KEPT: Final = 0.8  # of what is known, when a batch adds to it
_NEARLY_ONE: Final = 0.5
_LATE: Final = 1.25  # of the time in which the last one usually is back; then those that are not are late


class Linger:
    """The pause of one queue.

    Args:
        max_size: most rows in a batch.

    Attributes:
        look_again: once something is held, the rows waiting from which on `until` has something new to say.
    """

    __slots__ = (
        "_back",
        "_ended_at",
        "_last_at",
        "_max_size",
        "_returned",
        "_size",
        "_soon_s",
        "_times",
        "_until",
        "look_again",
    )

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._times = _Line()
        self._back = 1.0  # what share of a batch's callers came back within its pause
        self._soon_s = 0.0  # in which one of them after the other was back
        self._size = 0  # rows of the last batch
        self._ended_at = self._until = 0.0
        self._returned, self._last_at = 0, 0.0  # calls that came since
        self.look_again = 0

    def arrived(self, now: float) -> None:
        """A call waits from now on."""
        if now <= self._until:
            self._returned += 1
            self._last_at = now

    def ended(self, size: int, seconds: float, now: float) -> None:
        """A batch was answered.

        Args:
            size: its rows.
            seconds: what it took.
            now: the instant.
        """
        if self._size:
            came = min(1.0, self._returned / self._size)
            self._back += (1.0 - _KEPT) * (came - self._back)
            if self._returned:
                self._soon_s += (1.0 - _KEPT) * (self._pace_s() - self._soon_s)
        self._times.add(size, seconds)
        pause_s = SHARE * seconds
        self._size = size if pause_s >= SHORTEST_S else 0
        self._ended_at, self._until = now, now + pause_s
        self._returned = 0

    def until(self, waiting: int, now: float) -> float:
        """The instant until which it pays to hold the rows that wait; not after `now` when it does not.

        Args:
            waiting: rows that wait, at least 1.
            now: the instant.
        """
        expected = min(self._back * self._size - self._returned, self._max_size - waiting)
        if now >= self._until or expected < _NEARLY_ONE:
            return now
        # Those who come back do so one after the other, because one thread answers them and one thread reads what they
        # ask next. So the pace of those who are back already tells when the others will be.
        pace_s = self._pace_s() if self._returned else self._soon_s
        until = min(max(self._ended_at, self._last_at) + _LATE * pace_s * expected, self._until)
        if until <= now:
            until = self._until
        alone = waiting / self._times.at(waiting)
        together = (waiting + expected) / (until - now + self._times.at(waiting + expected))
        if together <= _PAYS * alone:
            return now
        self.look_again = waiting + max(1, int(expected / 2))
        return until

    def _pace_s(self) -> float:
        return (self._last_at - self._ended_at) / self._returned


class _Line:
    """Seconds of a batch by its size, a line through the latest ones; flat until sizes differ."""

    __slots__ = ("_seconds", "_size", "_size_seconds", "_size_size", "_weight")

    def __init__(self) -> None:
        self._weight = self._size = self._seconds = self._size_size = self._size_seconds = 0.0

    def add(self, size: float, seconds: float) -> None:
        self._weight = _KEPT * self._weight + 1.0
        self._size = _KEPT * self._size + size
        self._seconds = _KEPT * self._seconds + seconds
        self._size_size = _KEPT * self._size_size + size * size
        self._size_seconds = _KEPT * self._size_seconds + size * seconds

    def at(self, size: float) -> float:
        """Above 0."""
        weight = self._weight
        mean_size, mean_s = self._size / weight, self._seconds / weight
        spread = self._size_size / weight - mean_size * mean_size
        slope = (self._size_seconds / weight - mean_size * mean_s) / spread if spread > _NEARLY_ONE else 0.0
        return max(mean_s + max(0.0, slope) * (size - mean_size), SHORTEST_S)
