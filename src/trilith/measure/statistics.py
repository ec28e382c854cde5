"""How much larger is one measured figure than another, and how sure is that? Pure.

The figures of two things that ran in turn on a machine that is never quiet come in rounds: each round has one of each.

Rule 1: ratios are compared, within a round, as logarithms. What slows a whole round down falls out of its ratio.
Rule 2: what comes second in a round may fare worse or better just by that. Half of the rounds run the other way round,
        and the two halves count the same, so a steady drift falls out too.
Rule 3: intervals are Student's on the rounds' log ratios. From `TRIMMED_FROM` rounds on, a fifth of them is cut off at
        either end and the spread is that of the winsorised rest (K. K. Yuen, Biometrika 61, 1974): a neighbour who took
        the machine for some rounds then neither moves nor widens the interval.
Rule 4: bad luck comes in runs. Where a round resembles the one before it more than chance explains, the interval is
        widened as for so many fewer rounds (the effective sample size of a first-order autoregression).
Rule 5: an interval that says nothing is said to say nothing, with what would help.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from trilith.measure.resemblance import widening
from trilith.measure.student import student_quantile

TRIMMED_FROM: Final = 20
"""Rounds from which outliers are cut off."""

MOST_ROUNDS: Final = 100_000
"""`rounds_needed` says no more than that."""

_TRIM: Final = 0.2
_ORDERED_FROM: Final = 4  # below that there is no degree of freedom to spend on the order


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioEstimate:
    """A ratio and what is known of it.

    Attributes:
        ratio: the other's figure as a multiple of the baseline's: 1.0 for equal ones.
        low: lower end of the interval.
        high: upper end; infinite where nothing is known.
        confidence: how often such an interval holds the true ratio, 0 to 1.
        rounds: number of rounds it is made of.
        noise: by how much the ratio of a single round is off, as a share: 0.1 for ten percent (one standard deviation);
            more where rounds resemble their neighbours, so that it is what a round counts for.
        method: `student`, `trimmed` or `bootstrap`.
    """

    ratio: float
    low: float
    high: float
    confidence: float
    rounds: int
    noise: float
    method: str

    @property
    def width(self) -> float:
        """How wide the interval is, as a share: 0.15 when its upper end is 15 % above the lower one."""
        return self.high / self.low - 1.0 if self.low > 0 else math.inf

    def contains(self, ratio: float) -> bool:
        """Whether the interval holds `ratio`."""
        return self.low <= ratio <= self.high

    def inverse(self) -> RatioEstimate:
        """The baseline's figure as a multiple of the other's."""
        return RatioEstimate(
            ratio=1.0 / self.ratio,
            low=1.0 / self.high if self.high < math.inf else 0.0,
            high=1.0 / self.low if self.low > 0 else math.inf,
            confidence=self.confidence,
            rounds=self.rounds,
            noise=self.noise,
            method=self.method,
        )


class Verdict(StrEnum):
    """What an interval allows to say."""

    HIGHER = "higher"
    LOWER = "lower"
    SAME = "same"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """How repeated measurements of one thing scatter, as shares (0.1: ten percent).

    Attributes:
        spread: standard deviation of all of them, a drift included.
        step: the same as seen from one to the next, which a slow drift does not raise (J. von Neumann, 1941).
        drift: by how much the last is expected above the first: the slope of a straight line through their logarithms.
    """

    spread: float
    step: float
    drift: float


def paired_ratio(
    baseline: Sequence[float],
    other: Sequence[float],
    *,
    baseline_first: Sequence[bool] = (),
    confidence: float = 0.95,
    least_noise: float = 0.0,
) -> RatioEstimate:
    """The ratio of `other` to `baseline`, with an interval.

    Args:
        baseline: one figure a round, above 0.
        other: the other's of the same rounds.
        baseline_first: whether the baseline ran before the other, round by round; empty where that is not known.
        confidence: 0 to 1, both excluded.
        least_noise: what the ratio of a round is off by at least, as a share: figures that are counted in whole answers
            may agree by chance, and are not that exact.

    Raises:
        ValueError: there is no round, the lengths differ, or a figure is not above 0.
    """
    logs = log_ratios(baseline, other)
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"a confidence is between 0 and 1, got {confidence}")
    if baseline_first and len(baseline_first) != len(logs):
        raise ValueError(f"{len(logs)} rounds, but the order of {len(baseline_first)}")
    groups = _groups(logs, baseline_first)
    method = "trimmed" if len(logs) >= TRIMMED_FROM and min(map(len, groups)) >= TRIMMED_FROM // 4 else "student"
    trim = _TRIM if method == "trimmed" else 0.0
    centre, error, degrees = _centre(groups, trim)
    error = max(error, math.log1p(least_noise) / math.sqrt(len(logs))) * widening(logs, groups, baseline_first)
    half = student_quantile((1 + confidence) / 2, degrees) * error if degrees > 0 else math.inf
    noise = error * math.sqrt(len(logs)) if degrees > 0 else math.inf
    return RatioEstimate(
        ratio=math.exp(centre),
        low=_exp(centre - half),
        high=_exp(centre + half),
        confidence=confidence,
        rounds=len(logs),
        noise=_exp(noise) - 1.0,
        method=method,
    )


def log_ratios(baseline: Sequence[float], other: Sequence[float]) -> list[float]:
    """The logarithm of `other` to `baseline`, round by round.

    Raises:
        ValueError: as `paired_ratio`.
    """
    if len(baseline) != len(other) or not baseline:
        raise ValueError(f"expected as many rounds of both, at least one; got {len(baseline)} and {len(other)}")
    wrong = [value for value in (*baseline, *other) if not (value > 0 and math.isfinite(value))]
    if wrong:
        raise ValueError(f"only what is above 0 has a ratio, got {wrong[0]}")
    return [math.log(second) - math.log(first) for first, second in zip(baseline, other, strict=True)]


def rounds_needed(noise: float, width: float, confidence: float = 0.95) -> int:
    """How many rounds give an interval of at most that width.

    Args:
        noise: `RatioEstimate.noise` of what was measured so far.
        width: wanted `RatioEstimate.width`, as 0.15.
        confidence: of the interval.

    Returns:
        At least 2, at most `MOST_ROUNDS`.

    Raises:
        ValueError: `width` is not above 0, or `noise` is below 0.
    """
    if not width > 0 or not noise >= 0:
        raise ValueError(f"expected a width above 0 and a noise of at least 0, got {width} and {noise}")
    wanted, deviation = math.log1p(width) / 2, math.log1p(noise)

    def enough(rounds: int) -> bool:
        degrees = rounds - 2 if rounds >= _ORDERED_FROM else rounds - 1
        return student_quantile((1 + confidence) / 2, degrees) * deviation <= wanted * math.sqrt(rounds)

    low, high = 2, 2
    while not enough(high):
        if high == MOST_ROUNDS:
            return MOST_ROUNDS
        low, high = high, min(2 * high, MOST_ROUNDS)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return high


def noise_of(values: Sequence[float]) -> Noise:
    """How measurements of one and the same thing scatter, in the order in which they were taken.

    Raises:
        ValueError: there are fewer than two, or one is not above 0.
    """
    if len(values) < 2 or not all(value > 0 and math.isfinite(value) for value in values):
        raise ValueError(f"expected two figures above 0 or more, got {list(values)[:5]}")
    logs = [math.log(value) for value in values]
    steps = [later - earlier for earlier, later in itertools.pairwise(logs)]
    places = range(len(logs))
    slope = statistics.linear_regression(places, logs).slope
    return Noise(
        spread=_exp(statistics.stdev(logs)) - 1.0,
        step=_exp(math.sqrt(sum(step * step for step in steps) / (2 * len(steps)))) - 1.0,
        drift=_exp(slope * (len(logs) - 1)) - 1.0,
    )


def judge(estimate: RatioEstimate, *, matters: float = 0.05) -> Verdict:
    """What the interval allows to say.

    Args:
        estimate: the ratio.
        matters: a difference below this share is none that anybody cares about: 0.05 for five percent.

    Returns:
        HIGHER or LOWER when 1 is outside the interval; SAME when all of the interval is that close to 1; else UNCLEAR:
        there may be a difference that matters, or none.
    """
    if matters < 0:
        raise ValueError(f"expected a share of at least 0, got {matters}")
    if 1.0 / (1.0 + matters) <= estimate.low and estimate.high <= 1.0 + matters:
        return Verdict.SAME
    if estimate.low > 1.0:
        return Verdict.HIGHER
    return Verdict.LOWER if estimate.high < 1.0 else Verdict.UNCLEAR


def too_noisy(estimate: RatioEstimate, *, widest: float = 0.5) -> bool:
    """Whether the interval is too wide to say anything: above `widest` (a share), with 1 inside it."""
    return estimate.contains(1.0) and estimate.width > widest


def _groups(logs: list[float], baseline_first: Sequence[bool]) -> list[list[float]]:
    """The rounds of either order; all in one where that cannot be told apart."""
    if len(logs) >= _ORDERED_FROM and baseline_first:
        halves = [
            [log for log, first in zip(logs, baseline_first, strict=True) if first is order] for order in (True, False)
        ]
        if all(halves):
            return halves
    return [logs]


def _centre(groups: list[list[float]], trim: float) -> tuple[float, float, float]:
    """The mean of the groups' (trimmed) means, its standard error and the degrees of freedom of that (0: unknown)."""
    centres, squares, kept = [], [], []
    for group in groups:
        cut = int(trim * len(group))
        ordered = sorted(group)
        inner = ordered[cut : len(ordered) - cut]
        winsorised = [inner[0]] * cut + inner + [inner[-1]] * cut
        middle = statistics.fmean(winsorised)
        centres.append(statistics.fmean(inner))
        squares.append(math.fsum((value - middle) ** 2 for value in winsorised))
        kept.append(len(inner))
    degrees = sum(kept) - len(kept)
    if degrees < 1:
        return statistics.fmean(centres), math.inf, 0.0
    # Squares are pooled: the two orders differ in their mean, hardly in their spread.
    variance = sum(squares) / degrees
    error = math.sqrt(sum(variance / count for count in kept)) / len(kept)
    return statistics.fmean(centres), error, float(degrees)


def _exp(power: float) -> float:
    """Without an error where it is beyond what a number holds."""
    return math.inf if power > 700 else math.exp(power)
