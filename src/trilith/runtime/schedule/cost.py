"""How long a batch of n rows takes, learned from those that ran. Pure.

Rule 1: robust. What a size takes is the median of its latest runs, and of two the smaller: a slow run (the first, a
    page fault, a busy neighbour) says nothing.
Rule 2: forgetting. A size keeps few runs; one that was not run for long begins anew, when it is run again, with what
    it took before and the new run.
Rule 3: between measured sizes the curve is a straight line, and beyond them the line goes on; it never falls.

The line `fixed_s + rows * per_row_s` is exponentially weighted least squares over all runs: for people, and for sizes
beyond those measured. See Ljung, System Identification, section 11.2, on forgetting factors.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

RUNS_KEPT: Final = 15
STALE_AFTER: Final = 256
"""Runs of the curve's other sizes after which a size is measured anew."""
_MEMORY: Final = 0.98  # weight of the line's past at each further run


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSize:
    """What is known of one size.

    Attributes:
        rows: the size.
        seconds: what its latest runs took, by Rule 1.
        runs: how many those are.
    """

    rows: int
    seconds: float
    runs: int


class _Size:
    __slots__ = ("last_run", "runs", "typical_s")

    def __init__(self) -> None:
        self.runs: deque[float] = deque(maxlen=RUNS_KEPT)
        self.typical_s = 0.0
        self.last_run = 0


class CostCurve:
    """The learned t(n) of one shape."""

    __slots__ = ("_line", "_rows", "_sizes", "observed", "total_s")

    def __init__(self) -> None:
        self._sizes: dict[int, _Size] = {}
        self._rows: list[int] = []  # the measured sizes, ascending
        self._line = [0.0] * 5  # weighted sums of 1, n, n * n, t, n * t
        self.observed = 0
        self.total_s = 0.0

    def observe(self, rows: int, seconds: float) -> None:
        """Learns that a batch of `rows` took `seconds`."""
        self.observed += 1
        self.total_s += seconds
        size = self._sizes.get(rows)
        if size is None:
            size = self._sizes[rows] = _Size()
            bisect.insort(self._rows, rows)
        elif self.observed - size.last_run > STALE_AFTER:
            size.runs.clear()
            size.runs.append(size.typical_s)  # until a second run agrees, a slow one says nothing
        size.last_run = self.observed
        size.runs.append(seconds)
        size.typical_s = _typical(size.runs)
        for at, value in enumerate((1.0, rows, rows * rows, size.typical_s, rows * size.typical_s)):
            self._line[at] = _MEMORY * self._line[at] + value

    def runs(self, rows: int) -> int:
        """How many runs of this size are remembered; 0 when they are too old to be believed."""
        size = self._sizes.get(rows)
        return 0 if size is None or self.observed - size.last_run > STALE_AFTER else len(size.runs)

    def measured(self) -> list[int]:
        """The sizes that were ever run, ascending. Not to be changed."""
        return self._rows

    def seconds(self, rows: int) -> float:
        """What a batch of `rows` is expected to take; 0.0 while nothing is known."""
        size = self._sizes.get(rows)
        if size is not None:
            return size.typical_s
        known = self._rows
        if not known:
            return 0.0
        at = bisect.bisect(known, rows)
        if at == 0:
            return self._sizes[known[0]].typical_s
        low = known[at - 1]
        low_s = self._sizes[low].typical_s
        if at == len(known):
            return low_s + (rows - low) * max(0.0, self.line()[1])
        high = known[at]
        rise = (self._sizes[high].typical_s - low_s) / (high - low)
        return low_s + (rows - low) * max(0.0, rise)

    def at_least(self, rows: int) -> float:
        """What a batch of `rows` takes at the very least: as much as a smaller one."""
        at = bisect.bisect_left(self._rows, rows)
        return self._sizes[self._rows[at - 1]].typical_s if at else 0.0

    def at_most(self, rows: int) -> float:
        """What a batch of `rows` takes at the very most, by what is known: no longer than a larger one."""
        at = bisect.bisect_left(self._rows, rows)
        return min([self.seconds(rows), *(self._sizes[larger].typical_s for larger in self._rows[at:])])

    def line(self) -> tuple[float, float]:
        """`fixed_s` and `per_row_s` of the straight line through the runs."""
        one, n, nn, t, nt = self._line
        spread = one * nn - n * n
        if spread <= 1e-9 * one * nn:  # one size only
            return (t / one if one else 0.0), 0.0
        per_row_s = (one * nt - n * t) / spread
        return (t - per_row_s * n) / one, per_row_s

    def points(self) -> tuple[MeasuredSize, ...]:
        """What is known, by size."""
        return tuple(
            MeasuredSize(rows=rows, seconds=self._sizes[rows].typical_s, runs=len(self._sizes[rows].runs))
            for rows in self._rows
        )


def _typical(runs: Collection[float]) -> float:
    """The median; of two the smaller."""
    ordered = sorted(runs)
    return ordered[(len(ordered) - 1) // 2]
