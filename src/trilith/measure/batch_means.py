"""How sure a figure is that was measured over time: means of batches, and the spread between them. Pure.

Successive latencies depend on one another (one long queue makes a hundred long waits), so the spread of single requests
says nothing. The level is cut into batches that are long beside such a dependence; their means are nearly independent,
and Student's t gives an interval (Law, Simulation Modeling and Analysis, section 9.5.3, nonoverlapping batch means).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final, TypeVar

from trilith.measure.histogram import DurationHistogram
from trilith.measure.student import student_quantile

_T = TypeVar("_T")

FEWEST_BATCHES: Final = 5
MOST_BATCHES: Final = 10
FEWEST_BEYOND: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A figure with its 95 % confidence interval, all in the figure's unit."""

    value: float
    low: float
    high: float

    @property
    def half_share(self) -> float:
        """Half the interval's width, as a share of the figure; 0 when the figure is 0."""
        return (self.high - self.low) / 2 / self.value if self.value else 0.0


def batches(values: Sequence[_T]) -> list[Sequence[_T]]:
    """Cuts a sequence in time into up to ten batches of one size; what is left over at the end belongs to none.

    Empty when there are fewer than five values.
    """
    if len(values) < FEWEST_BATCHES:
        return []
    number = min(MOST_BATCHES, len(values))
    size = len(values) // number
    return [values[index * size : (index + 1) * size] for index in range(number)]


def interval(means: Sequence[float], value: float | None = None) -> Interval | None:
    """The interval round a figure, by its means in batches; None with fewer than five.

    Args:
        means: one of each batch.
        value: the figure over the whole time; by default the mean of the means.
    """
    if len(means) < FEWEST_BATCHES:
        return None
    centre = fmean(means) if value is None else value
    half = student_quantile(0.975, len(means) - 1) * stdev(means) / math.sqrt(len(means))
    return Interval(value=centre, low=max(0.0, centre - half), high=centre + half)


def percentile_interval(groups: Sequence[DurationHistogram], fraction: float) -> Interval | None:
    """The interval round a percentile of all batches together; None where fewer than ten answers lie beyond it.

    How many answers of each batch lie beyond the percentile says how sure its rank is, at least as unsure as a binomial
    count is; the interval goes from one rank to another (Law, section 9.5.3; Conover, section 3.2). The mean of the
    batches' own percentiles would be too sure: of a hundred answers the 99th percentile is not the one of a thousand.

    Args:
        groups: the batches, in time.
        fraction: 0.99 for the 99th percentile.
    """
    count = sum(group.count for group in groups)
    if len(groups) < FEWEST_BATCHES or count * (1 - fraction) < FEWEST_BEYOND - 1e-9:
        return None
    whole = DurationHistogram()
    for group in groups:
        whole.merge(group)
    value = whole.percentile_s(fraction)
    share = whole.longer_than(value) / count
    # Weighted by size: a batch in which little was answered says little.
    excess = [group.longer_than(value) - share * group.count for group in groups]
    by_batches = math.sqrt(sum(each * each for each in excess) * len(groups) / (len(groups) - 1)) / count
    by_chance = math.sqrt(fraction * (1 - fraction) / count)
    half = student_quantile(0.975, len(groups) - 1) * max(by_batches, by_chance)
    if fraction + half >= 1 - 0.5 / count:
        return None
    return Interval(
        value=value, low=whole.percentile_s(max(0.0, fraction - half)), high=whole.percentile_s(fraction + half)
    )
