"""The ratio of two figures that a single round is too short for: of all rounds, and what else it might have been. Pure.

A round of thirty answers has no p99, and CPU time is counted in hundredths of a second; all rounds together have both.
How sure they are, rounds drawn again and again
with replacement tell (B. Efron, 1979): each draw takes whole rounds, both sides of them, so that what a round shares
stays shared. The ends are the expanded percentiles of the draws (T. C. Hesterberg, The American Statistician 69, 2015,
section 5.4), which make good for the spread that few rounds hide.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from trilith.measure.equal_counts import enough_beyond, thinned_logs
from trilith.measure.histogram import DurationHistogram
from trilith.measure.statistics import RatioEstimate
from trilith.measure.student import student_quantile

FEWEST_ROUNDS: Final = 8
"""Fewer say too little about what others would be."""

_DRAWS: Final = 1000
_SEED: Final = 20150401

_Counts = npt.NDArray[np.int64]


def pooled_percentile_ratio(
    baseline: Sequence[DurationHistogram],
    other: Sequence[DurationHistogram],
    fraction: float,
    *,
    confidence: float = 0.95,
) -> RatioEstimate:
    """The ratio of a percentile of all of the other's durations to that of the baseline's.

    Where one side has more durations, its percentile is that of as many as the other has.

    Args:
        baseline: durations round by round.
        other: the other's of the same rounds.
        fraction: 0.99 for p99.
        confidence: of the interval.

    Raises:
        ValueError: there are fewer than `FEWEST_ROUNDS` rounds, their numbers differ, or one side is empty.
    """
    rounds = len(baseline)
    if rounds < FEWEST_ROUNDS or rounds != len(other):
        raise ValueError(f"expected {FEWEST_ROUNDS} rounds or more of both, got {rounds} and {len(other)}")
    weights = _weights(rounds)
    count = min(sum(histogram.count for histogram in side) for side in (baseline, other))
    before, after = (_log_percentiles(side, weights, fraction, count) for side in (baseline, other))
    logs = after - before
    return _estimate(logs, rounds, confidence)


def pooled_share_ratio(
    baseline: Sequence[tuple[float, int]], other: Sequence[tuple[float, int]], *, confidence: float = 0.95
) -> RatioEstimate:
    """The ratio of what one of the other's requests takes in the mean to what one of the baseline's takes.

    Args:
        baseline: round by round, what all requests took together, and their number.
        other: the other's of the same rounds.
        confidence: of the interval.

    Raises:
        ValueError: there are fewer than `FEWEST_ROUNDS` rounds, their numbers differ, or a sum is not above 0.
    """
    rounds = len(baseline)
    if rounds < FEWEST_ROUNDS or rounds != len(other):
        raise ValueError(f"expected {FEWEST_ROUNDS} rounds or more of both, got {rounds} and {len(other)}")
    sums = [math.fsum(part[place] for part in side) for side in (baseline, other) for place in (0, 1)]
    if min(sums) <= 0:
        raise ValueError(f"expected sums above 0, got {sums}")
    weights = _weights(rounds)
    with np.errstate(divide="ignore", invalid="ignore"):  # a draw of rounds without any is no number, and left out
        before, after = (np.log(weights @ np.array(side, np.float64)) for side in (baseline, other))
        logs = (after[:, 0] - after[:, 1]) - (before[:, 0] - before[:, 1])
    return _estimate(logs, rounds, confidence)


def _weights(rounds: int) -> _Counts:
    """How often each round counts: once in the first row, as drawn in the others."""
    chance = np.random.default_rng(_SEED)
    drawn = chance.multinomial(rounds, np.full(rounds, 1 / rounds), size=_DRAWS)
    return np.vstack([np.ones(rounds, np.int64), drawn])


def _estimate(logs: npt.NDArray[np.float64], rounds: int, confidence: float) -> RatioEstimate:
    """Of the logarithms of the ratio: the first of all rounds, the others of draws."""
    centre, draws = float(logs[0]), np.sort(logs[1:][np.isfinite(logs[1:])])
    widened = statistics.NormalDist().cdf(
        -math.sqrt(rounds / (rounds - 1)) * student_quantile((1 + confidence) / 2, rounds - 1)
    )
    low, high = np.quantile(draws, [widened, 1 - widened])
    return RatioEstimate(
        ratio=math.exp(centre),
        low=math.exp(min(float(low), centre)),
        high=math.exp(max(float(high), centre)),
        confidence=confidence,
        rounds=rounds,
        noise=math.expm1(float(np.std(draws)) * math.sqrt(rounds)),
        method="bootstrap",
    )


def _log_percentiles(
    rounds: Sequence[DurationHistogram], weights: _Counts, fraction: float, count: int
) -> npt.NDArray[np.float64]:
    """The logarithm of the percentile of each weighting of the rounds; not finite for one without any duration.

    Of more than `count` durations, it is that of so many of them.
    """
    buckets = sorted({bucket for histogram in rounds for bucket, _ in histogram.filled()})
    if not buckets:
        raise ValueError("one side has no duration at all")
    place = {bucket: index for index, bucket in enumerate(buckets)}
    counts: _Counts = np.zeros((len(rounds), len(buckets)), np.int64)
    for row, histogram in enumerate(rounds):
        for bucket, number in histogram.filled():
            counts[row, place[bucket]] = number
    seen = np.cumsum(weights @ counts, axis=1)
    centres = np.log([DurationHistogram.centre_s(bucket) for bucket in buckets])
    whole = int(counts.sum())
    if 0 < count < whole and not enough_beyond(count, fraction):
        thinned = thinned_logs(seen / np.maximum(1, seen[:, -1:]), centres, fraction, count=count, of=whole)
        return np.where(seen[:, -1] > 0, thinned, math.nan)
    rank = np.maximum(1, np.ceil(fraction * seen[:, -1]))
    found = (seen < rank[:, None]).sum(axis=1)
    return np.where(seen[:, -1] > 0, centres[np.minimum(found, len(buckets) - 1)], math.nan)
