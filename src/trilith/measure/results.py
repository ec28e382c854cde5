"""What a benchmark found: plain frozen values, ready for a table, JSON or CSV. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trilith.measure.breakdown import Breakdown, break_down
from trilith.measure.histogram import DurationHistogram, DurationSummary
from trilith.measure.load.outcome import GeneratorLoad, LoadOutcome
from trilith.measure.load.recorder import Recorder
from trilith.measure.rate_search import RateFound
from trilith.measure.seconds import NOT_SURE, SecondFigures, Sureness, seconds_of, sureness
from trilith.measure.slo import Slo, SloResult

PERCENTILES: Final = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9995, 0.9999, 1.0)
"""Of which a level tells the latency; 0 and 1 are the shortest and the longest."""

LAG_SHARE: Final = 0.05
"""A generator that is late by more than this share of the p99 latency, in one of a hundred requests, spoils it."""

LAG_NEGLIGIBLE_S: Final = 0.0005
BEHIND_S: Final = 0.1
"""A lag shorter than this many seconds spoils nothing: it is what the machine's own timer does."""

STALL_FACTOR: Final = 10
"""A gap between items so many times the median one is a stall, if it is one at all (`STALL_S`)."""

STALL_S: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFigures:
    """What is known of an open loop beyond a closed one's figures.

    Attributes:
        rate_per_s: requests that were to be sent a second, in the mean.
        arrivals: `constant`, `poisson` or `replay`.
        offered: requests that were due while measured.
        from_send: latency from the actual sending, without what a request waited in the client.
        wait: what requests waited for a free connection.
        lag: how late the generator took them up.
        behind_s: how far it was behind its schedule at the end, in seconds; what was due then was never sent.
    """

    rate_per_s: float
    arrivals: str
    offered: int
    from_send: DurationSummary
    wait: DurationSummary
    lag: DurationSummary
    behind_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFigures:
    """What answers of several items were like.

    Attributes:
        items: number of them.
        items_per_s: items a second.
        first_item: from when a request was due to its first item.
        between: from one item to the next of the same answer.
        stalls: gaps ten times the median one or longer, and at least 50 ms.
    """

    items: int
    items_per_s: float
    first_item: DurationSummary
    between: DurationSummary
    stalls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFigures:
    """One of several targets of a level: its name, its latency and its failures by kind."""

    name: str
    latency: DurationSummary
    errors: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelResult:
    """One level of load.

    Attributes:
        concurrency: requests in flight.
        duration_s: seconds measured.
        requests_per_s: successful answers a second.
        latency: of successful answers.
        errors: failed requests by kind.
        sent_bytes: size of the requests sent.
        received_bytes: bytes read.
        connections: connections opened while measured.
        generator: what the generator used.
        server_cpu_s: CPU seconds of the server's process tree, or None when no process was named.
        breakdown: where the server spent the time, or None when it does not say.
        interrupted: whether the level was stopped before its time.
        name: what the level is called: `8`, `200/s`, or the name of a phase.
        percentiles: fractions (0 to 1) and the latencies, in seconds, that they do not exceed.
        seconds: the level second by second.
        sureness: confidence intervals, and whether the level stood still.
        slo: how it did by the promise, or None without one.
        open: of an open loop, None of a closed one.
        stream: of answers of several items, None when there were none.
        targets: where there are several.
    """

    concurrency: int
    duration_s: float
    requests_per_s: float
    latency: DurationSummary
    errors: dict[str, int]
    sent_bytes: int
    received_bytes: int
    connections: int
    generator: GeneratorLoad
    server_cpu_s: float | None
    breakdown: Breakdown | None
    interrupted: bool
    name: str = ""
    percentiles: tuple[tuple[float, float], ...] = ()
    seconds: tuple[SecondFigures, ...] = ()
    sureness: Sureness = NOT_SURE
    slo: SloResult | None = None
    open: OpenFigures | None = None
    stream: StreamFigures | None = None
    targets: tuple[TargetFigures, ...] = ()

    @property
    def failed(self) -> int:
        """Number of failed requests."""
        return sum(self.errors.values())

    @property
    def nothing_ended(self) -> bool:
        """Whether no request was answered or failed: each takes longer than was measured."""
        return not self.latency.count and not self.failed

    @property
    def spoiled(self) -> bool:
        """Whether the figures describe the generator rather than the server."""
        return self.generator.saturated or self.lagged or self.fell_behind

    @property
    def fell_behind(self) -> bool:
        """Whether the generator of an open loop could not send as often as it was to."""
        return self.open is not None and self.open.behind_s > max(BEHIND_S, LAG_SHARE * self.duration_s)

    @property
    def lagged(self) -> bool:
        """Whether the generator of an open loop was so late that the latencies are partly its own."""
        if self.open is None or not self.latency.count:
            return False
        lag_s = self.open.lag.p99_s
        return lag_s > LAG_NEGLIGIBLE_S and lag_s > LAG_SHARE * self.latency.p99_s

    @property
    def server_cpu_per_request_s(self) -> float | None:
        """CPU seconds of the server a request, failed ones included; None when not measured or nothing was answered."""
        requests = self.latency.count + self.failed
        return None if self.server_cpu_s is None or not requests else self.server_cpu_s / requests

    @classmethod
    def of(
        cls,
        outcome: LoadOutcome,
        concurrency: int,
        *,
        name: str = "",
        slo: Slo | None = None,
        rate_per_s: float = 0.0,
        arrivals: str = "",
        targets: Sequence[str] = (),
    ) -> LevelResult:
        """Turns the counts of one level into figures.

        Args:
            outcome: the counts.
            concurrency: requests in flight, at most.
            name: of the level; by default its concurrency.
            slo: the promise that it is judged by.
            rate_per_s: of an open loop; 0.0 of a closed one.
            arrivals: of an open loop.
            targets: their names, where there are several.
        """
        recorder, elapsed_s = outcome.recorder, outcome.elapsed_s
        answered = recorder.answered if rate_per_s else recorder.latencies.count
        requests = recorder.latencies.count + recorder.errors.total()
        return cls(
            concurrency=concurrency,
            duration_s=elapsed_s,
            requests_per_s=answered / elapsed_s if elapsed_s > 0 else 0.0,
            latency=recorder.latencies.summary(),
            errors=dict(recorder.errors.most_common()),
            sent_bytes=recorder.sent_bytes,
            received_bytes=recorder.received_bytes,
            connections=recorder.connections,
            generator=outcome.generator,
            server_cpu_s=outcome.server_cpu_s,
            breakdown=break_down(recorder.samples),
            interrupted=outcome.interrupted,
            name=name or str(concurrency),
            percentiles=_percentiles(recorder.latencies),
            seconds=seconds_of(recorder, elapsed_s),
            sureness=sureness(recorder, elapsed_s),
            slo=_judged(slo, recorder, requests, elapsed_s),
            open=_open_figures(recorder, rate_per_s, arrivals) if rate_per_s else None,
            stream=_stream_figures(recorder, elapsed_s),
            targets=tuple(
                TargetFigures(name=called, latency=counts.latencies.summary(), errors=dict(counts.errors.most_common()))
                for called, counts in zip(targets, recorder.targets, strict=False)
            ),
        )


def _percentiles(latencies: DurationHistogram) -> tuple[tuple[float, float], ...]:
    if not latencies.count:
        return ()
    return tuple(
        (fraction, latencies.percentile_s(fraction) if fraction else latencies.min_s) for fraction in PERCENTILES
    )


def _judged(slo: Slo | None, recorder: Recorder, requests: int, elapsed_s: float) -> SloResult | None:
    if slo is None:
        return None
    goodput_per_s = recorder.within_slo / elapsed_s if elapsed_s > 0 else 0.0
    return SloResult(slo=slo, good=recorder.within_slo, of=requests, goodput_per_s=goodput_per_s)


def _open_figures(recorder: Recorder, rate_per_s: float, arrivals: str) -> OpenFigures:
    return OpenFigures(
        rate_per_s=rate_per_s,
        arrivals=arrivals,
        offered=recorder.offered,
        from_send=recorder.from_send.summary(),
        wait=recorder.waits.summary(),
        lag=recorder.lags.summary(),
        behind_s=recorder.behind_s,
    )


def _stream_figures(recorder: Recorder, elapsed_s: float) -> StreamFigures | None:
    stream = recorder.stream
    if not stream.items:
        return None
    threshold_s = max(STALL_S, STALL_FACTOR * stream.between.percentile_s(0.5))
    return StreamFigures(
        items=stream.items,
        items_per_s=stream.items / elapsed_s if elapsed_s > 0 else 0.0,
        first_item=stream.first_item.summary(),
        between=stream.between.summary(),
        stalls=stream.between.longer_than(threshold_s),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchReport:
    """All levels of one run of `trilith bench`.

    Attributes:
        url: the endpoint.
        method: HTTP method.
        bodies: what was sent: names of the files, "inline", "example" or nothing.
        conditions: the machine and the versions at the start.
        levels: in the order in which they ran.
        interrupted: whether the run was stopped before its time.
        seed: of the arrivals and of the choice among targets.
        slo: the promise that levels are judged by, or None.
        search: what the search for the highest rate found, or None when none was asked for.
    """

    url: str
    method: str
    bodies: tuple[str, ...]
    conditions: dict[str, str | int | float]
    levels: tuple[LevelResult, ...]
    interrupted: bool = False
    seed: int = 0
    slo: Slo | None = None
    search: RateFound | None = None

    @property
    def nothing_ended(self) -> bool:
        """Whether no request of any level was answered or failed."""
        return bool(self.levels) and all(level.nothing_ended for level in self.levels)

    @property
    def none_succeeded(self) -> bool:
        """Whether there is no figure: no request succeeded at any level."""
        return not any(level.latency.count for level in self.levels)
