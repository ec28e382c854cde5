"""How long a batch of n rows takes, learned from those that ran. Pure.

Rule 1: a run says two things: how fast the machine is now, which concerns every size, and what its size takes. Sizes
    that are well known tell the first, sizes that are little known the second. So a machine that slows down does not
    make the sizes look better that ran before it did, and luck in a size's first runs is not taken for the machine's.
Rule 2: what counts is the mean, because it is what all runs take together; sizes differ in how much their runs differ,
    and the median of some is far below it. But nothing counts as longer than `_LONGEST` times what usually surprises,
    and of a size's first two runs one that took more than twice as long as the other says little: a slow run (the
    first, a page fault, a busy neighbour) is an accident. Several in succession are no accident, and believed.
Rule 3: forgetting. What is known of a size fades with each run of the others, and is never without doubt.
Rule 4: between measured sizes the curve is a straight line, and beyond them the line goes on; it never falls.
Rule 5: at most `SIZES_KEPT` sizes are kept, so that nothing here takes longer the larger a batch may be. When a new one
    comes, that of which the least is known is forgotten; the line between its neighbours stands for it.

Rule 1 is a Kalman filter of two states, the speed and the size, which share each surprise by their variances (Anderson
and Moore, Optimal Filtering), and Rule 2 is Huber's bound on the surprise (Huber, Robust Statistics). The line
`fixed_s + rows * per_row_s` is exponentially weighted least squares over all runs: for people, and for sizes beyond
those measured. See Ljung, System Identification, section 11.2, on forgetting factors.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from typing import Final

SURE_AFTER: Final = 3
"""Runs after which a size is no new one."""
STALE_AFTER: Final = 256
"""Runs of the curve's other sizes after which half of what was known of a size is left, and it is measured again."""
SIZES_KEPT: Final = 24
"""Sizes of which something is known, at most."""
_KEPT: Final = 0.5 ** (1 / STALE_AFTER)
_WORTH: Final = 32.0  # runs, at most: they resemble one another more than chance would have it
_SPEED: Final = 0.25  # variance of the machine's speed from run to run, in units of that of a run
_YOUNG: Final = 6.0  # what is known of a size must be worth more runs than this for it to tell the speed in full
_LONGEST: Final = 3.0
_CREDIBLE: Final = 4.0  # by so much a run that fits among the others may have been disturbed ...
_LIKELY: Final = 2.0  # ... and one that is as long as one of a larger size
_FIRST_RUNS: Final = 2.0  # by so much the first two may differ
_LEAST: Final = 0.1  # share of the expected by which a run may always surprise
_ACCIDENTS: Final = 3  # longer or shorter ones in succession are none
_MEMORY: Final = 0.98  # weight of the past of the line and of surprises at each further run


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSize:
    """What is known of one size.

    Attributes:
        rows: the size.
        seconds: what it takes now, by Rules 1 and 2.
        runs: how many there were.
    """

    rows: int
    seconds: float
    runs: int


class _Size:
    __slots__ = ("far", "last_run", "runs", "seconds", "weight")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds  # on a machine of speed 1
        self.weight = 1.0  # how many runs what is known is worth
        self.runs = 1
        self.last_run = 0
        self.far: list[float] = []

    def known(self, now: int) -> float:
        """How many runs what is known is worth by now."""
        return self.weight * _KEPT ** (now - self.last_run)

    def copy(self) -> _Size:
        """One that goes on without this one; without what was far, which only learning needs."""
        other = _Size(self.seconds)
        other.weight, other.runs, other.last_run = self.weight, self.runs, self.last_run
        return other


class CostCurve:
    """The learned t(n) of one shape."""

    __slots__ = ("_line", "_noise", "_rows", "_sizes", "_slow", "_usual", "observed", "total_s")

    def __init__(self) -> None:
        self._sizes: dict[int, _Size] = {}
        self._rows: list[int] = []  # the measured sizes, ascending
        self._line = [0.0] * 5  # weighted sums of 1, n, n * n, t, n * t
        self._slow = 1.0  # how many times longer everything takes now
        self._usual = 0.15  # mean of what surprises, as a share of what was expected
        self._noise = 0.04  # mean of its square
        self.observed = 0
        self.total_s = 0.0

    def observe(self, rows: int, seconds: float) -> None:
        """Learns that a batch of `rows` took `seconds`."""
        self.observed += 1
        self.total_s += seconds
        took_s = max(seconds, 1e-9) / self._slow
        size = self._sizes.get(rows)
        if size is None:
            if len(self._sizes) == SIZES_KEPT:
                self._forget()
            size = self._sizes[rows] = _Size(took_s)
            bisect.insort(self._rows, rows)
        else:
            size.weight = size.known(self.observed)
            size.runs += 1
            self._learn(size, took_s)
        size.last_run = self.observed
        for at, value in enumerate((1.0, rows, rows * rows, size.seconds, rows * size.seconds)):
            self._line[at] = _MEMORY * self._line[at] + value

    def _forget(self) -> None:
        least = min(self._rows, key=lambda rows: self._sizes[rows].known(self.observed))
        del self._sizes[least]
        self._rows.remove(least)

    def _learn(self, size: _Size, took_s: float) -> None:
        if size.runs == 2:
            size.seconds = _first_two(size.seconds, took_s)
            return
        speed = _SPEED * min(1.0, (size.weight - 1.0) / _YOUNG)
        ratio, doubt = took_s / size.seconds, 1.0 / size.weight
        most = max(_LEAST, _LONGEST * self._usual)
        if -most <= ratio - 1.0 <= most:
            size.far.clear()
        else:
            size.far.append(ratio)
            if len(size.far) == _ACCIDENTS:
                ratio = sorted(size.far)[_ACCIDENTS // 2]
                size.far.clear()
                share = doubt / (doubt + speed)
                size.seconds *= ratio**share
                self._slow *= ratio ** (1.0 - share)
                return
        surprise = min(ratio - 1.0, most)
        self._usual = _MEMORY * self._usual + (1.0 - _MEMORY) * abs(surprise)
        self._noise = _MEMORY * self._noise + (1.0 - _MEMORY) * surprise * surprise
        share = surprise / (1.0 + doubt + speed)
        size.seconds *= 1.0 + share * doubt
        self._slow *= 1.0 + share * speed
        size.weight += 1.0

    def runs(self, rows: int) -> int:
        """How often this size was run."""
        size = self._sizes.get(rows)
        return 0 if size is None else size.runs

    def age(self, rows: int) -> float:
        """Runs since this size was run; infinite when it never was."""
        size = self._sizes.get(rows)
        return math.inf if size is None else self.observed - size.last_run

    def doubt(self, rows: int) -> float:
        """The standard deviation of what is known of this size, as a share of it; infinite where nothing is."""
        size = self._sizes.get(rows)
        if size is None:
            return math.inf
        return math.sqrt(self._noise / min(size.known(self.observed), _WORTH))

    def measured(self) -> list[int]:
        """The sizes of which something is known, ascending. Not to be changed."""
        return self._rows

    def seconds(self, rows: int) -> float:
        """What a batch of `rows` is expected to take now; 0.0 while nothing is known."""
        size = self._sizes.get(rows)
        return self._slow * (self._between(rows) if size is None else size.seconds)

    def at_least(self, rows: int) -> float:
        """What a batch of `rows` takes at the very least: as much as a smaller one that was run more than once.

        One that ran once may have been disturbed. If it took no longer than the next larger one, that was no great
        accident: it takes at least a part of that (`_CREDIBLE`). This may be a batch of `rows` itself.
        """
        sizes, known = self._sizes, self._rows
        at = bisect.bisect(known, rows)
        if at == 0:
            return 0.0
        size = sizes[known[at - 1]]
        least_s = 0.0
        if size.runs == 1 and at < len(known):
            share = size.seconds / sizes[known[at]].seconds
            if share <= 1.0 + _LEAST:
                least_s = size.seconds / (_CREDIBLE if share < 1.0 - _LEAST else _LIKELY)
        at -= known[at - 1] == rows
        while at and sizes[known[at - 1]].runs == 1:
            at -= 1
        return self._slow * max(least_s, sizes[known[at - 1]].seconds if at else 0.0)

    def at_most(self, rows: int) -> float:
        """What a batch of `rows` takes at the very most, by what is known: no longer than a larger one."""
        at = bisect.bisect_left(self._rows, rows)
        return min([self.seconds(rows), *(self._slow * self._sizes[larger].seconds for larger in self._rows[at:])])

    def copy(self) -> CostCurve:
        """One to read while this one goes on."""
        other = CostCurve()
        other._sizes = {rows: size.copy() for rows, size in self._sizes.items()}
        other._rows, other._line = list(self._rows), list(self._line)
        other._slow, other._usual, other._noise = self._slow, self._usual, self._noise
        other.observed, other.total_s = self.observed, self.total_s
        return other

    def line(self) -> tuple[float, float]:
        """`fixed_s` and `per_row_s` of the straight line through the runs."""
        fixed_s, per_row_s = self._straight()
        return self._slow * fixed_s, self._slow * per_row_s

    def points(self) -> tuple[MeasuredSize, ...]:
        """What is known, by size."""
        return tuple(
            MeasuredSize(rows=rows, seconds=self.seconds(rows), runs=self._sizes[rows].runs) for rows in self._rows
        )

    def _between(self, rows: int) -> float:
        known = self._rows
        if not known:
            return 0.0
        at = bisect.bisect(known, rows)
        if at == 0:
            return self._sizes[known[0]].seconds
        low = known[at - 1]
        low_s = self._sizes[low].seconds
        if at == len(known):
            return low_s + (rows - low) * max(0.0, self._straight()[1])
        high = known[at]
        rise = (self._sizes[high].seconds - low_s) / (high - low)
        return low_s + (rows - low) * max(0.0, rise)

    def _straight(self) -> tuple[float, float]:
        one, n, nn, t, nt = self._line
        spread = one * nn - n * n
        if spread <= 1e-9 * one * nn:  # one size only
            return (t / one if one else 0.0), 0.0
        per_row_s = (one * nt - n * t) / spread
        return (t - per_row_s * n) / one, per_row_s


def _first_two(first_s: float, second_s: float) -> float:
    if first_s > _FIRST_RUNS * second_s:
        return second_s
    return (first_s + min(second_s, _FIRST_RUNS * first_s)) / 2.0
