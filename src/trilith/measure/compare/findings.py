"""From rounds to a report. Pure.

Rule 1: a round counts for a figure when both have it. What was left out is said.
Rule 2: doubts are found here, not by the reader: failures, limits, a generator at its end, a noisy machine.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Final

from trilith.measure.bootstrap import FEWEST_ROUNDS, pooled_percentile_ratio, pooled_share_ratio
from trilith.measure.compare import sentences
from trilith.measure.compare.pairs import few_each, rate_by_latency, rates_by_latency, value_of, values_of
from trilith.measure.compare.plan import ComparePlan
from trilith.measure.compare.results import (
    CPU,
    MEAN,
    METRICS,
    P50,
    P90,
    P99,
    THROUGHPUT,
    Comparison,
    Metric,
    Round,
    Standing,
)
from trilith.measure.compare.span_differences import floor_differences, span_differences
from trilith.measure.histogram import DurationHistogram
from trilith.measure.results import LevelResult
from trilith.measure.statistics import (
    Noise,
    RatioEstimate,
    Verdict,
    judge,
    noise_of,
    paired_ratio,
    too_noisy,
)

_FAILED_SHARE: Final = 0.01
_LIMITED: Final = ("status 429", "status 503", "RESOURCE_EXHAUSTED")
_DRIFT: Final = 0.2
_ENOUGH_FOR_DRIFT: Final = 6
_NOT_BY_CHANCE: Final = 3
_SIZE_CHANGE: Final = 1.2
_FINE_CPU_S: Final = 0.2
_COUNT_ERROR: Final = 1 / math.sqrt(6)  # of a count of what comes at even intervals: two ends, each uniform within one
_POOLED_FACTOR: Final = 2  # a tail of all rounds takes more answers than one of each: no round repeats it


def compare_rounds(plan: ComparePlan, rounds: Sequence[Round], round_s: float) -> tuple[Comparison, ...]:
    """Every contestant beside the first; empty without a round."""
    if not rounds:
        return ()
    baseline = plan.contestants[0].name
    found = []
    for index, contestant in enumerate(plan.contestants[1:], start=1):
        ratios = {metric.key: ratio for metric in METRICS if (ratio := ratio_of(rounds, index, metric)) is not None}
        floors, spans = floor_differences(rounds, index), span_differences(rounds, index)
        decisive = decisive_metric(plan, ratios)
        ratio = ratios.get(decisive.key)
        found.append(
            Comparison(
                baseline=baseline,
                other=contestant.name,
                ratios=ratios,
                decisive=decisive.key,
                verdict=Verdict.UNCLEAR if ratio is None else judge(ratio, matters=sentences.MATTERS),
                noisy=ratio is None or too_noisy(ratio),
                sentence=sentences.result(
                    baseline,
                    contestant.name,
                    ratios,
                    floors,
                    spans,
                    round_s,
                    decisive=decisive,
                    rate_per_s=plan.rate_per_s,
                ),
                floors=floors,
                spans=spans,
            )
        )
    return tuple(found)


def decisive_metric(plan: ComparePlan, ratios: Container[str]) -> Metric:
    """What the comparison is about: throughput, or at a fixed rate the highest percentile that there is."""
    if plan.rate_per_s is None:
        return THROUGHPUT
    return next((metric for metric in (P99, P90, P50) if metric.key in ratios), MEAN)


def ratio_of(rounds: Sequence[Round], other: int, metric: Metric) -> RatioEstimate | None:
    """The ratio of one figure over the rounds in which both have it; None when there is none, or too few answers."""
    by_latency = metric is THROUGHPUT and few_each(rounds)
    baselines, others, first = [], [], []
    for each in rounds:
        before, after = rates_by_latency(each, other) if by_latency else values_of(each, other, metric)
        if before is not None and after is not None:
            baselines.append(before)
            others.append(after)
            first.append(each.order.index(0) < each.order.index(other))
    if metric is CPU and not _cpu_is_fine(rounds, other):
        return _pooled_cpu(rounds, other)
    if baselines and 2 * len(baselines) >= len(rounds):
        least = _counting_noise(rounds, other) if metric is THROUGHPUT and not by_latency else 0.0
        return paired_ratio(baselines, others, baseline_first=first, least_noise=least)
    return _pooled_ratio(rounds, other, metric)


def _counting_noise(rounds: Sequence[Round], other: int) -> float:
    """By how much a ratio of counts is off in one round: an answer more or less falls within the window by chance."""
    counts = [[each.levels[index].latency.count for each in rounds] for index in (0, other)]
    return _COUNT_ERROR * math.hypot(*(1 / max(1.0, statistics.fmean(side)) for side in counts))


def _cpu_is_fine(rounds: Sequence[Round], other: int) -> bool:
    """Whether every round used so much CPU time that its unit of a hundredth of a second does not matter."""
    used = [each.levels[index].server_cpu_s for each in rounds for index in (0, other)]
    return all(cpu_s is None or cpu_s >= _FINE_CPU_S for cpu_s in used)


def _pooled_cpu(rounds: Sequence[Round], other: int) -> RatioEstimate | None:
    """CPU time a request of all rounds together; None when even that is not fine enough."""
    sides: list[list[tuple[float, int]]] = [[], []]
    for side, index in zip(sides, (0, other), strict=True):
        for each in rounds:
            level = each.levels[index]
            if level.server_cpu_s is None:
                return None
            side.append((level.server_cpu_s, level.latency.count + level.failed))
    if len(rounds) < FEWEST_ROUNDS or any(sum(cpu_s for cpu_s, _ in side) < _FINE_CPU_S for side in sides):
        return None
    return pooled_share_ratio(sides[0], sides[1])


def _pooled_ratio(rounds: Sequence[Round], other: int, metric: Metric) -> RatioEstimate | None:
    """A percentile that single rounds do not have, of all of them together; None where even that says too little."""
    if metric.fraction is None or len(rounds) < FEWEST_ROUNDS or not all(each.latencies for each in rounds):
        return None
    sides = [[each.latencies[index] for each in rounds] for index in (0, other)]
    if any(sum(each.count for each in side) < _POOLED_FACTOR * metric.fewest_answers for side in sides):
        return None
    return pooled_percentile_ratio(sides[0], sides[1], metric.fraction)


def standings_of(plan: ComparePlan, rounds: Sequence[Round]) -> tuple[Standing, ...]:
    """Every contestant by itself."""
    found, few = [], few_each(rounds)
    for index, contestant in enumerate(plan.contestants):
        levels = [each.levels[index] for each in rounds]
        errors: Counter[str] = Counter()
        for level in levels:
            errors.update(level.errors)
        figures = {}
        for metric in METRICS:
            read = rate_by_latency if metric is THROUGHPUT and few else functools.partial(value_of, metric=metric)
            values = [value for level in levels if (value := read(level)) is not None]
            if values and 2 * len(values) >= len(levels):
                figures[metric.key] = statistics.median(values)
            elif metric.fraction is not None:
                pooled = _pooled([each.latencies[index] for each in rounds if each.latencies])
                if pooled.count >= metric.fewest_answers:
                    figures[metric.key] = pooled.percentile_s(metric.fraction)
        used = [level.server_cpu_s / level.duration_s for level in levels if level.server_cpu_s is not None]
        found.append(
            Standing(
                name=contestant.name,
                url=contestant.url,
                figures=figures,
                answers=sum(level.latency.count for level in levels),
                failed=errors.total(),
                errors=dict(errors.most_common()),
                noise=_noise(levels),
                cores=statistics.fmean(used) if used else None,
            )
        )
    return tuple(found)


def doubts(rounds: Sequence[Round], standings: Sequence[Standing]) -> Iterator[str]:
    """What a reader must know before believing the figures."""
    for index, standing in enumerate(standings):
        levels = [each.levels[index] for each in rounds]
        yield from _failures(standing)
        silent = sum(1 for level in levels if not level.latency.count)
        if silent:
            yield f"{standing.name}: no good answer in {silent} of {len(levels)} rounds; these count for nothing."
        yield from _sizes(standing.name, levels)
        if standing.noise is not None and len(levels) >= _ENOUGH_FOR_DRIFT and _drifted(standing.noise, len(levels)):
            yield (
                f"{standing.name} drifted by {standing.noise.drift:+.0%} from the first round to the last. Rounds take"
                " out what all share; a server that changes by itself is another matter."
            )
    yield from _generator([level for each in rounds for level in each.levels])


def _pooled(histograms: Iterable[DurationHistogram]) -> DurationHistogram:
    whole = DurationHistogram()
    for histogram in histograms:
        whole.merge(histogram)
    return whole


def _noise(levels: Sequence[LevelResult]) -> Noise | None:
    rates = [level.requests_per_s for level in levels if level.requests_per_s > 0]
    return noise_of(rates) if len(rates) >= 2 else None


def _drifted(noise: Noise, rounds: int) -> bool:
    """Whether a drift matters and is more than the slope that noise of this size has by chance."""
    by_chance = math.log1p(noise.step) * math.sqrt(12 / rounds)  # one standard deviation, of the line's two ends
    return abs(noise.drift) > _DRIFT and abs(math.log1p(noise.drift)) > _NOT_BY_CHANCE * by_chance


def _failures(standing: Standing) -> Iterator[str]:
    share = standing.failed / max(1, standing.failed + standing.answers)
    if not standing.failed:
        return
    kinds = ", ".join(f"{count:,} x {kind}" for kind, count in standing.errors.items())
    yield f"{standing.name}: {standing.failed:,} failed requests ({share:.1%}): {kinds}."
    limited = sum(count for kind, count in standing.errors.items() if any(word in kind for word in _LIMITED))
    if limited > standing.failed / 2 and share > _FAILED_SHARE:
        yield (
            f"{standing.name} turns requests away: its throughput is what its limit allows, not what it could do. Raise"
            " the limit, or lower --concurrency."
        )
    elif share > _FAILED_SHARE:
        yield f"{standing.name}: only good answers count; failing may be quicker or slower than answering."


def _sizes(name: str, levels: Sequence[LevelResult]) -> Iterator[str]:
    sizes = [
        level.received_bytes / level.latency.count for level in levels if level.latency.count >= 20 and not level.failed
    ]
    if len(sizes) >= 2 and max(sizes) > _SIZE_CHANGE * min(sizes) and max(sizes) - min(sizes) > 64:
        yield (
            f"{name}: the answers changed their size from round to round, from {min(sizes):,.0f} to {max(sizes):,.0f}"
            " bytes in the mean: not every round did the same work."
        )


def _generator(levels: Sequence[LevelResult]) -> Iterator[str]:
    spoiled = sum(1 for level in levels if level.spoiled)
    contended = sum(1 for level in levels if level.generator.contended and not level.spoiled)
    if spoiled:
        yield (
            f"SPOILED: in {spoiled} of {len(levels)} measurements the generator used its whole core and set the pace:"
            " the true ratio is further from 1 than the one shown."
        )
    if 2 * contended > len(levels):
        yield (
            "The generator waited for a core: it and the servers share them. Latencies include that wait, and ratios"
            " are drawn towards 1 by what the generator itself takes."
        )
