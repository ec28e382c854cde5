"""On which floor, and in which span of it, two contestants differ. Pure.

Rule 1: the parts of a mean latency add up to it, floor by floor and span by span (see `breakdown`); therefore the
        differences of the parts add up to the difference of the whole.
Rule 2: under a closed load, throughput is concurrency divided by mean latency (J. D. C. Little, 1961): what explains
        the one explains the other.
Rule 3: differences are taken within a round, and their mean has Student's interval.
Rule 4: what is called differently is the same thing when either side has just one of its kind: `service Old.read` and
        `service New.read`. Its name is then both.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final

from trilith.measure.breakdown import Breakdown
from trilith.measure.compare.results import Round, SpanDifference
from trilith.measure.student import student_quantile

_FEWEST_ROUNDS: Final = 3
_CONFIDENCE: Final = 0.95

_Place = tuple[int, str, str, bool]
"""Floor, name, stages, whether it waits."""


def floor_differences(rounds: Sequence[Round], other: int) -> tuple[SpanDifference, ...]:
    """Floor by floor, the largest difference first; empty when fewer than three rounds have both timelines.

    Args:
        rounds: all of them.
        other: index of the contestant that is compared with the first.
    """
    return _differences([(_floors(first), _floors(second)) for first, second in _both(rounds, other)])


def span_differences(rounds: Sequence[Round], other: int) -> tuple[SpanDifference, ...]:
    """Span by span, as `floor_differences`. A span of which only one knows took the other no time."""
    pairs = [(_spans(first), _spans(second)) for first, second in _both(rounds, other)]
    names = _common_names([first for first, _ in pairs], [second for _, second in pairs])
    return _differences([(_renamed(first, names), _renamed(second, names)) for first, second in pairs])


def _both(rounds: Sequence[Round], other: int) -> list[tuple[Breakdown, Breakdown]]:
    found = []
    for each in rounds:
        first, second = each.levels[0].breakdown, each.levels[other].breakdown
        if first is not None and second is not None:
            found.append((first, second))
    return found


def _floors(breakdown: Breakdown) -> dict[_Place, float]:
    return {(floor.floor, "", "", False): floor.attributed.mean_s for floor in breakdown.floors}


def _spans(breakdown: Breakdown) -> dict[_Place, float]:
    return {
        (span.key.floor, span.key.name, f"{span.key.earlier} -> {span.key.later}", span.key.waiting): (
            span.attributed.mean_s
        )
        for span in breakdown.spans
    }


def _common_names(firsts: Sequence[dict[_Place, float]], seconds: Sequence[dict[_Place, float]]) -> dict[str, str]:
    """New names of what only one side knows by its own."""
    before = {name for places in firsts for _, name, _, _ in places}
    after = {name for places in seconds for _, name, _, _ in places}
    found = {}
    for kind in {_kind(name) for name in before}:
        own, others = ([name for name in names if _kind(name) == kind] for names in (before - after, after - before))
        if len(own) == len(others) == 1:
            found[own[0]] = found[others[0]] = f"{own[0]} / {others[0].removeprefix(kind).strip()}"
    return found


def _kind(name: str) -> str:
    return name.partition(" ")[0]


def _renamed(places: dict[_Place, float], names: dict[str, str]) -> dict[_Place, float]:
    return {
        (floor, names.get(name, name), stages, waiting): seconds
        for (floor, name, stages, waiting), seconds in places.items()
    }


def _differences(pairs: Sequence[tuple[dict[_Place, float], dict[_Place, float]]]) -> tuple[SpanDifference, ...]:
    if len(pairs) < _FEWEST_ROUNDS:
        return ()
    places = {place: None for first, second in pairs for place in (*first, *second)}
    found = []
    for place in places:
        firsts = [first.get(place, 0.0) for first, _ in pairs]
        seconds = [second.get(place, 0.0) for _, second in pairs]
        low_s, high_s = _interval([after - before for before, after in zip(firsts, seconds, strict=True)])
        floor, name, stages, waiting = place
        found.append(
            SpanDifference(
                floor=floor,
                name=name,
                stages=stages,
                waiting=waiting,
                baseline_s=statistics.fmean(firsts),
                other_s=statistics.fmean(seconds),
                low_s=low_s,
                high_s=high_s,
            )
        )
    return tuple(sorted(found, key=lambda each: -abs(each.difference_s)))


def _interval(values: Sequence[float]) -> tuple[float, float]:
    error = statistics.stdev(values) / math.sqrt(len(values))
    half = student_quantile((1 + _CONFIDENCE) / 2, len(values) - 1) * error
    middle = statistics.fmean(values)
    return middle - half, middle + half
