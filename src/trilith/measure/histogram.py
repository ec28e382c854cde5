"""How long things took, in bounded memory.

Rule 1: pure. Instants and durations are arguments; no clock is called.
Rule 2: recording costs one logarithm and one addition, because it runs in the generator's hot path.
Rule 3: count, sum, minimum and maximum are exact; percentiles are within `RELATIVE_ERROR` of the exact ones.

The buckets grow geometrically, the idea of HdrHistogram (Gil Tene) with one constant ratio instead of a mantissa.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Final

SMALLEST_S: Final = 1e-7
"""Shorter durations, in seconds, share the first bucket."""

LARGEST_S: Final = 1e5
"""Longer durations, in seconds, share the last bucket."""

RELATIVE_ERROR: Final = 0.0025
"""A percentile differs from the exact one by at most this share of it."""

_BUCKETS_PER_E: Final = 1.0 / math.log1p(2 * RELATIVE_ERROR)
_OFFSET: Final = -math.log(SMALLEST_S) * _BUCKETS_PER_E
_BUCKETS: Final = int(math.log(LARGEST_S) * _BUCKETS_PER_E + _OFFSET) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationSummary:
    """What a set of durations looks like. All in seconds; all zero when there are none."""

    count: int
    mean_s: float
    min_s: float
    p50_s: float
    p90_s: float
    p99_s: float
    max_s: float


class DurationHistogram:
    """Counts durations in geometric buckets. Two of them add up exactly (`merge`)."""

    __slots__ = ("_counts", "count", "max_s", "min_s", "sum_s")

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS
        self.count = 0
        self.sum_s = 0.0
        self.min_s = math.inf
        self.max_s = 0.0

    def record(self, duration_s: float) -> None:
        """Adds one duration in seconds. What is out of range counts as the nearest bound in the percentiles."""
        if duration_s < SMALLEST_S:
            bucket = 0
        elif duration_s >= LARGEST_S:
            bucket = _BUCKETS - 1
        else:
            bucket = int(math.log(duration_s) * _BUCKETS_PER_E + _OFFSET)
        self._counts[bucket] += 1
        self.count += 1
        self.sum_s += duration_s
        if duration_s > self.max_s:
            self.max_s = duration_s
        if duration_s < self.min_s:
            self.min_s = duration_s

    def merge(self, other: DurationHistogram) -> None:
        """Adds all that another one has counted."""
        self._counts = list(map(operator.add, self._counts, other._counts))
        self.count += other.count
        self.sum_s += other.sum_s
        self.min_s = min(self.min_s, other.min_s)
        self.max_s = max(self.max_s, other.max_s)

    def longer_than(self, duration_s: float) -> int:
        """How many are longer, save for those in the same bucket."""
        if not duration_s < self.max_s:
            return 0
        bucket = int(math.log(duration_s) * _BUCKETS_PER_E + _OFFSET) if duration_s >= SMALLEST_S else 0
        return sum(self._counts[bucket + 1 :])

    def percentile_s(self, fraction: float) -> float:
        """The duration, in seconds, that `fraction` (0 to 1) of all do not exceed (nearest rank); 0.0 when empty.

        Raises:
            ValueError: `fraction` is outside 0 to 1.
        """
        if not 0.0 <= fraction <= 1.0:
            raise ValueError(f"a percentile is a fraction between 0 and 1, got {fraction}")
        if not self.count:
            return 0.0
        rank = max(1, math.ceil(fraction * self.count))
        if rank == self.count:
            return self.max_s
        seen = 0
        for bucket, count in enumerate(self._counts):
            seen += count
            if seen >= rank:
                if bucket == 0 and self.min_s < SMALLEST_S:
                    return self.min_s  # too short to tell apart; most often 0.0, which no bucket has as its middle
                return min(self.max_s, max(self.min_s, _centre_s(bucket)))
        return self.max_s

    def filled(self) -> list[tuple[int, int]]:
        """The buckets that hold any, by number, and how many."""
        return [(bucket, count) for bucket, count in enumerate(self._counts) if count]

    @staticmethod
    def centre_s(bucket: int) -> float:
        """The duration, in seconds, that stands for a bucket."""
        return _centre_s(bucket)

    def summary(self) -> DurationSummary:
        """Mean, extremes and the usual percentiles."""
        return DurationSummary(
            count=self.count,
            mean_s=self.sum_s / self.count if self.count else 0.0,
            min_s=self.min_s if self.count else 0.0,
            p50_s=self.percentile_s(0.50),
            p90_s=self.percentile_s(0.90),
            p99_s=self.percentile_s(0.99),
            max_s=self.max_s,
        )


def _centre_s(bucket: int) -> float:
    """The geometric middle of a bucket in seconds."""
    return math.exp((bucket + 0.5 - _OFFSET) / _BUCKETS_PER_E)
