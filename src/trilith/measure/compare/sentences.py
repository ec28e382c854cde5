"""A comparison in plain words. Pure.

Rule 1: the sentence says what the interval allows, never more.
Rule 2: what cannot be said is said to be so, with the figure that stands in the way and what would help.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from trilith.measure.breakdown import FLOOR_NAMES
from trilith.measure.compare.results import MEAN, P50, P90, P99, THROUGHPUT, Metric, SpanDifference
from trilith.measure.statistics import MOST_ROUNDS, RatioEstimate, Verdict, judge, rounds_needed, too_noisy
from trilith.measure.units import duration

MATTERS: Final = 0.05
"""Differences below this share are called none."""

_WANTED_WIDTH: Final = 0.15
_NAMED_SHARE: Final = 0.1


def result(
    baseline: str,
    other: str,
    ratios: Mapping[str, RatioEstimate],
    floors: Sequence[SpanDifference],
    spans: Sequence[SpanDifference],
    round_s: float,
    *,
    decisive: Metric = THROUGHPUT,
    rate_per_s: float | None = None,
) -> str:
    """The result: throughput, the latency beside it, the interval, and where the difference is.

    Of a fixed rate: the latency.
    """
    ratio = ratios.get(decisive.key)
    if ratio is None:
        return f"Nothing can be said about {other} beside {baseline}: there is no round in which both answered."
    verdict = judge(ratio, matters=MATTERS)
    if verdict is Verdict.UNCLEAR:
        return _unclear(baseline, other, decisive, ratio, round_s)
    beside, unclear = _latency(ratios) if rate_per_s is None else (f" at {rate_per_s:,.6g} requests a second", "")
    if verdict is Verdict.SAME:
        near = f"within {_closeness(ratio):.0%}"
        return f"{other} has the {decisive.title} of {baseline}, {near}{beside} ({interval(ratio)}){unclear}."
    more = f"{times(ratio.ratio)} the {decisive.title} of {baseline}{beside} ({interval(ratio)})"
    return f"{other} has {more}{unclear}{_where(floors, spans, ratio.ratio > 1 if rate_per_s is not None else None)}."


def interval(estimate: RatioEstimate) -> str:
    """`95 % interval 1.50 to 1.71`."""
    if estimate.high == math.inf:
        return "of one round: no interval"
    return f"{estimate.confidence:.0%} interval {_digits(estimate.low)} to {_digits(estimate.high)}".replace("%", " %")


def times(ratio: float) -> str:
    """`1.62 x`."""
    return f"{_digits(ratio)} x"


def _digits(ratio: float) -> str:
    return f"{ratio:.2f}" if 0.1 <= ratio < 10 else f"{ratio:.3g}"


def _closeness(estimate: RatioEstimate) -> float:
    return max(estimate.high, 1 / estimate.low) - 1


def _latency(ratios: Mapping[str, RatioEstimate]) -> tuple[str, str]:
    """The highest percentile that was measured, as ` at equal p99` or ` at 0.62 x the p99`; else that it is unclear."""
    for metric in (P99, P90, P50, MEAN):
        estimate = ratios.get(metric.key)
        if estimate is None or estimate.high == math.inf or (metric is MEAN and _by_latency(ratios)):
            continue
        verdict = judge(estimate, matters=MATTERS)
        if verdict is Verdict.SAME or (verdict is Verdict.UNCLEAR and estimate.width < 2 * MATTERS):
            return f" at equal {metric.title}", ""
        if verdict is Verdict.UNCLEAR:
            ends = f"{_digits(estimate.low)} to {_digits(estimate.high)} x"
            return "", f"; whether its {metric.title} differs is unclear ({ends})"
        return f" at {times(estimate.ratio)} the {metric.title}", ""
    return "", ""


def _by_latency(ratios: Mapping[str, RatioEstimate]) -> bool:
    """Whether throughput is the mean latency by Little's law: then the two are one finding."""
    rate = ratios.get(THROUGHPUT.key)
    return rate is not None and math.isclose(rate.ratio * ratios[MEAN.key].ratio, 1.0, rel_tol=1e-9)


def _unclear(baseline: str, other: str, metric: Metric, ratio: RatioEstimate, round_s: float) -> str:
    if ratio.high == math.inf:
        return f"One round says nothing: {other} had {times(ratio.ratio)} the {metric.title} of {baseline} in it."
    if too_noisy(ratio):
        more = "has more throughput" if metric.more_is_better else f"has the longer {metric.title}"
        beginning = f"Too noisy to say whether {other} or {baseline} {more}"
    else:
        beginning = f"No difference in {metric.title} between {other} and {baseline} that this run could show"
    needed = rounds_needed(ratio.noise, _WANTED_WIDTH, ratio.confidence)
    effort = "more rounds than are worth it"
    if needed < MOST_ROUNDS:
        effort = f"about {needed} rounds (some {duration(2 * needed * round_s)})"
    return (
        f"{beginning}: {times(ratio.ratio)} ({interval(ratio)}). The ratio of one round is off by"
        f" {ratio.noise:.0%}; {effort} would tell differences of 15 %, a quiet machine needs fewer."
    )


def _where(floors: Sequence[SpanDifference], spans: Sequence[SpanDifference], longer: bool | None) -> str:
    """`; 86 % of the difference is in floor 1, runtime: model rec, queued -> batched (waiting)`.

    Of the mean latency; `longer` is what was found of another figure, which need not differ in the same direction.
    """
    whole_s = sum(floor.difference_s for floor in floors)
    if not whole_s or (longer is not None and longer != (whole_s > 0)):
        return ""
    floor = max(floors, key=lambda each: each.difference_s / whole_s)
    share = floor.difference_s / whole_s
    sure = floor.low_s > 0 or floor.high_s < 0
    if share < _NAMED_SHARE or not sure:
        return "; the timelines do not say on which floor the difference is"
    of_what = "the difference" if longer is None else "the difference of the mean latency"
    text = f"; {_share(share)} of {of_what} is {_floor(floor.floor)}"
    inside = [span for span in spans if span.floor == floor.floor and span.name]
    if floor.floor and inside:
        span = max(inside, key=lambda each: each.difference_s / whole_s)
        if span.difference_s / whole_s >= share / 2:
            text += f": {span.name}, {span.stages}{' (waiting)' if span.waiting else ''}"
    return text


def _share(share: float) -> str:
    return "all" if 0.97 <= share <= 1.03 else "more than all" if share > 1.03 else f"{share:.0%}".replace("%", " %")


def _floor(floor: int) -> str:
    name = FLOOR_NAMES.get(floor, "unknown")
    return f"in floor {floor}, {name}" if floor else "outside the servers' stamps (network, kernel, client)"
