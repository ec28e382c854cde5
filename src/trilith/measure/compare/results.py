"""What a comparison found: plain frozen values. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from trilith.measure.histogram import DurationHistogram
from trilith.measure.results import LevelResult
from trilith.measure.statistics import Noise, RatioEstimate, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Every contestant once.

    Attributes:
        order: who ran when: indices of contestants.
        levels: what each gave, by index of contestant.
        latencies: of successful answers, by index of contestant; empty where they were not kept.
    """

    order: tuple[int, ...]
    levels: tuple[LevelResult, ...]
    latencies: tuple[DurationHistogram, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A figure that is compared.

    Attributes:
        key: its name in JSON.
        title: its name in a table.
        more_is_better: whether a ratio above 1 is a gain.
        fewest_answers: of a round, below which it says nothing.
        value: reads it from a round's level; None where that has none.
        fraction: of a percentile, 0 to 1; None for others.
    """

    key: str
    title: str
    more_is_better: bool
    fewest_answers: int
    value: Callable[[LevelResult], float | None]
    fraction: float | None = None


THROUGHPUT: Final = Metric(
    key="throughput",
    title="throughput",
    more_is_better=True,
    fewest_answers=1,
    value=lambda level: level.requests_per_s,
)
MEAN: Final = Metric(
    key="mean", title="mean latency", more_is_better=False, fewest_answers=1, value=lambda level: level.latency.mean_s
)
P50: Final = Metric(
    key="p50",
    title="p50",
    more_is_better=False,
    fewest_answers=3,
    value=lambda level: level.latency.p50_s,
    fraction=0.5,
)
P90: Final = Metric(
    key="p90",
    title="p90",
    more_is_better=False,
    fewest_answers=20,
    value=lambda level: level.latency.p90_s,
    fraction=0.9,
)
P99: Final = Metric(
    key="p99",
    title="p99",
    more_is_better=False,
    fewest_answers=100,
    value=lambda level: level.latency.p99_s,
    fraction=0.99,
)
CPU: Final = Metric(
    key="cpu",
    title="CPU a request",
    more_is_better=False,
    fewest_answers=1,
    value=lambda level: level.server_cpu_per_request_s,
)
FIRST_ITEM: Final = Metric(
    key="first_item",
    title="first item",
    more_is_better=False,
    fewest_answers=1,
    value=lambda level: level.stream.first_item.p50_s if level.stream is not None else None,
)
ITEMS: Final = Metric(
    key="items",
    title="items a second",
    more_is_better=True,
    fewest_answers=1,
    value=lambda level: level.stream.items_per_s if level.stream is not None else None,
)
METRICS: Final = (THROUGHPUT, MEAN, P50, P90, P99, FIRST_ITEM, ITEMS, CPU)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A contestant by itself.

    Attributes:
        name: how it is called.
        url: its endpoint.
        figures: the median of its rounds by key of the metric; durations in seconds.
        answers: successful ones of all rounds.
        failed: other requests.
        errors: their number by kind.
        noise: how its throughput scattered from round to round; None with fewer than two rounds.
        cores: CPU seconds a second that its processes used; None when not measured.
    """

    name: str
    url: str
    figures: dict[str, float]
    answers: int
    failed: int
    errors: dict[str, int]
    noise: Noise | None
    cores: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanDifference:
    """What a floor or one span of it contributes to the difference of the mean latency.

    Attributes:
        floor: 0 outside, 1 runtime, 2 service, 3 orchestration.
        name: whose span, `model ocr-rec`; "" for the whole floor.
        stages: `queued -> batched`; "" for the whole floor.
        waiting: whether the call lay there, and nobody worked on it.
        baseline_s: seconds a request of the baseline.
        other_s: seconds a request of the other.
        low_s: lower end of the interval of the difference, other less baseline.
        high_s: its upper end.
    """

    floor: int
    name: str
    stages: str
    waiting: bool
    baseline_s: float
    other_s: float
    low_s: float
    high_s: float

    @property
    def difference_s(self) -> float:
        """Seconds that the other takes longer."""
        return self.other_s - self.baseline_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One contestant beside the baseline.

    Attributes:
        baseline: name of the first.
        other: name of this one.
        ratios: the other's figures as multiples of the baseline's, by key of the metric.
        decisive: key of the metric that decides: `throughput`, or of a fixed rate the highest percentile that there is.
        verdict: on that: `higher` is more throughput, or a longer latency.
        noisy: whether the interval is too wide to say anything.
        sentence: the result in words.
        floors: where the mean latency differs, floor by floor, largest first; empty where not both tell it.
        spans: the same span by span.
    """

    baseline: str
    other: str
    ratios: dict[str, RatioEstimate]
    decisive: str
    verdict: Verdict
    noisy: bool
    sentence: str
    floors: tuple[SpanDifference, ...] = ()
    spans: tuple[SpanDifference, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareReport:
    """A whole comparison.

    Attributes:
        conditions: the machine and the versions at the start.
        concurrency: requests in flight.
        rate_per_s: of a fixed rate: requests a second; else None.
        round_s: seconds measured of one contestant in one round.
        standings: the contestants, the baseline first.
        comparisons: the others beside it.
        notes: what a reader must know before believing the figures.
        rounds: what was measured, round by round.
        interrupted: whether it was stopped before its time.
    """

    conditions: dict[str, str | int | float]
    concurrency: int
    round_s: float
    standings: tuple[Standing, ...]
    comparisons: tuple[Comparison, ...]
    notes: tuple[str, ...]
    rounds: tuple[Round, ...]
    interrupted: bool = False
    rate_per_s: float | None = None
