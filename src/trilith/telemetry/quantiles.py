"""Quantiles of what was observed lately.

The algorithm is DDSketch (Masson, Rim and Lee, VLDB 2019): observations are counted in buckets whose bounds grow by a
constant factor, so that any quantile is known to within 1 %, in bounded memory. The window slides in slices, as that of
Triton's summaries does: the last minute, in fifths of it.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_ACCURACY: Final = 0.01
_GROWTH: Final = math.log((1 + _ACCURACY) / (1 - _ACCURACY))
_MIDDLE: Final = 1 - _ACCURACY  # of a bucket, below its upper bound
_LEAST, _MOST = 1e-9, 1e9  # what lies outside counts as the nearest of these; less than the least as 0
_SLICES: Final = 5
_SLICE_S: Final = 12.0


@dataclass(frozen=True, slots=True)
class Quantiles:
    """The state of one series of a summary.

    Attributes:
        values: quantiles as they are written, each with its value; not a number when nothing was observed lately.
        count: all observations ever.
        total: the sum of them.
    """

    values: tuple[tuple[str, float], ...]
    count: int
    total: float


class SlidingQuantiles:
    """Counts observations of the last minute. Time is an argument, in seconds, and does not go back."""

    __slots__ = ("_slices", "count", "total")

    def __init__(self) -> None:
        self._slices: deque[tuple[int, Counter[int]]] = deque()
        self.count = 0
        self.total = 0.0

    def observe(self, value: float, times: int, now: float) -> None:
        """Counts equal observations."""
        at = int(now // _SLICE_S)
        if not self._slices or self._slices[-1][0] != at:
            self._slices.append((at, Counter()))
            self._forget(at)
        key = _ZERO if value < _LEAST else math.ceil(math.log(min(value, _MOST)) / _GROWTH)
        self._slices[-1][1][key] += times
        self.count += times
        self.total += value * times

    def values(self, quantiles: Sequence[float], now: float) -> list[float]:
        """The values at these quantiles, each from 0 to 1."""
        self._forget(int(now // _SLICE_S))
        together: Counter[int] = Counter()
        for _, counted in self._slices:
            together.update(counted)
        keys, number = sorted(together), together.total()
        found: list[float] = []
        for quantile in quantiles:
            wanted, seen = max(1, math.ceil(quantile * number)), 0
            value = math.nan
            for key in keys:
                seen += together[key]
                if seen >= wanted:
                    value = 0.0 if key == _ZERO else math.exp(key * _GROWTH) * _MIDDLE
                    break
            found.append(value)
        return found

    def _forget(self, at: int) -> None:
        while self._slices and self._slices[0][0] <= at - _SLICES:
            self._slices.popleft()


_ZERO: Final = math.floor(math.log(_LEAST) / _GROWTH) - 1
