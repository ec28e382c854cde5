"""A percentile as it would be of fewer durations, so that two sides of unequal numbers may be compared. Pure.

The 99th percentile of a hundred durations is the second longest, and of a thousand the eleventh: the same distribution
gives the smaller set the shorter tail. So the larger set is thinned to the number of the smaller: which rank of it is
then the percentile is a negative hypergeometric chance (N. L. Johnson et al., "Univariate Discrete Distributions",
section 6.2.2), and the mean over all ways to thin is taken instead of one of them.

Rule: logarithms are averaged, because logarithms are compared.
"""

from __future__ import annotations

import functools
import math
from typing import Final

import numpy as np
import numpy.typing as npt

from trilith.measure.histogram import DurationHistogram

_Floats = npt.NDArray[np.float64]
_MOST_BEYOND: Final = 100  # with more durations beyond the percentile, their number no longer moves it
_GRID: Final = 512
_DEVIATIONS: Final = 8.0


def enough_beyond(count: int, fraction: float) -> bool:
    """Whether a percentile of so many durations is that of any more of them."""
    return count - _rank(count, fraction) >= _MOST_BEYOND


def thinned_percentile_s(histogram: DurationHistogram, fraction: float, count: int) -> float:
    """The percentile, in seconds, of `count` durations drawn of these: the geometric mean of all ways to draw.

    Args:
        histogram: the durations; more than `count` of them.
        fraction: 0.99 for p99.
        count: above 0.

    Raises:
        ValueError: there are not more than `count`, or that is not above 0.
    """
    filled = histogram.filled()
    seen = np.cumsum(np.array([number for _, number in filled], np.float64))
    logs = np.log([DurationHistogram.centre_s(bucket) for bucket, _ in filled])
    return math.exp(float(thinned_logs(seen / histogram.count, logs, fraction, count=count, of=histogram.count)))


def thinned_logs(shares: _Floats, logs: _Floats, fraction: float, *, count: int, of: int) -> _Floats:
    """The mean logarithm of the percentile of `count` durations drawn of the `of` that there are.

    Args:
        shares: of shape (..., buckets): the share of durations, 0 to 1, up to and with each bucket.
        logs: of shape (buckets,): the logarithm of each bucket's duration.
        fraction: 0.99 for p99.
        count: how many are drawn.
        of: how many there are.

    Returns:
        Of shape (...).

    Raises:
        ValueError: `count` is not between 1 and `of`.
    """
    if not 1 <= count < of:
        raise ValueError(f"expected to draw from 1 to {of - 1} of {of} durations, got {count}")
    at, chance = _chances(count, of, fraction)
    up_to = np.interp(shares, at, chance, left=0.0, right=1.0)
    return np.asarray(np.diff(up_to, axis=-1, prepend=0.0) @ logs, np.float64)


@functools.lru_cache(maxsize=32)
def _chances(count: int, of: int, fraction: float) -> tuple[_Floats, _Floats]:
    """Shares of the larger set, and the chance that the percentile of the drawn ones lies within each."""
    rank = _rank(count, fraction)
    middle = rank / (count + 1)
    reach = _DEVIATIONS * math.sqrt(middle * (1 - middle) / count) + 1 / count
    low, high = max(rank - 1, math.floor((middle - reach) * of)), min(of, math.ceil((middle + reach) * of))
    places = np.unique(np.linspace(low, high, _GRID).round().astype(np.int64))
    factorials = _log_factorials(1 << of.bit_length())
    whole = factorials[of] - factorials[count] - factorials[of - count]
    beyond = np.arange(count - rank + 1)[:, None]  # how many of those drawn are longer than this place
    longer, within = of - places - beyond, places - (count - beyond)
    possible = (longer >= 0) & (within >= 0)
    logs = (
        factorials[of - places]
        - factorials[beyond]
        - factorials[np.maximum(longer, 0)]
        + factorials[places]
        - factorials[count - beyond]
        - factorials[np.maximum(within, 0)]
        - whole
    )
    chance = np.where(possible, np.exp(np.where(possible, logs, 0.0)), 0.0).sum(axis=0)
    return places / of, np.minimum(chance, 1.0)


@functools.lru_cache(maxsize=4)
def _log_factorials(size: int) -> _Floats:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, size)))])


def _rank(count: int, fraction: float) -> int:
    return max(1, math.ceil(fraction * count))
