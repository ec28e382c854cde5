"""The figures of one round that are compared with one another. Pure.

Rule 1: percentiles are compared at equal numbers of answers: of few, a percentile is lower than of many.
Rule 2: where a round has few answers of a connection, throughput is that of Little's law.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trilith.measure.compare.results import Metric, Round
from trilith.measure.equal_counts import enough_beyond, thinned_percentile_s
from trilith.measure.results import LevelResult

_MANY_EACH: Final = 30
_ENOUGH_BEYOND: Final = 10  # of each side beyond a percentile, where their numbers cannot be made equal


def few_each(rounds: Sequence[Round]) -> bool:
    """Whether connections gave so few answers in a round that it matters which of them fell within the window.

    Once for all contestants: what is shown of each, and the ratios, are then of one kind.
    """
    levels = [level for each in rounds for level in each.levels]
    if any(level.failed or level.open is not None for level in levels):
        return False
    return any(0 < level.latency.count < _MANY_EACH * level.concurrency for level in levels)


def rate_by_latency(level: LevelResult) -> float | None:
    """Answers a second by Little's law: with so many always in flight, that is their number by the mean latency."""
    return level.concurrency / level.latency.mean_s if level.latency.count and level.latency.mean_s > 0 else None


def rates_by_latency(each: Round, other: int) -> tuple[float | None, float | None]:
    """The baseline's and the other's of one round."""
    return rate_by_latency(each.levels[0]), rate_by_latency(each.levels[other])


def values_of(each: Round, other: int, metric: Metric) -> tuple[float | None, float | None]:
    """The baseline's and the other's of one round; a percentile of as many answers of both, or of enough of them."""
    pair = value_of(each.levels[0], metric), value_of(each.levels[other], metric)
    counts = [each.levels[index].latency.count for index in (0, other)]
    fewest, most = min(counts), max(counts)
    if metric.fraction is None or None in pair or fewest == most or enough_beyond(fewest, metric.fraction):
        return pair
    if not each.latencies:
        return pair if fewest * (1 - metric.fraction) >= _ENOUGH_BEYOND - 1e-9 else (None, None)
    before, after = (
        value if count == fewest else thinned_percentile_s(each.latencies[index], metric.fraction, fewest)
        for value, count, index in zip(pair, counts, (0, other), strict=True)
    )
    return before, after


def value_of(level: LevelResult, metric: Metric) -> float | None:
    """The figure; None where there is none, or too few answers for it."""
    if level.latency.count < metric.fewest_answers:
        return None
    value = metric.value(level)
    return value if value is not None and value > 0 else None
