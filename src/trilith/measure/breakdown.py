"""From the timelines of some requests to: which floor, which part, which stage took the time.

Rule 1: pure: samples in, `Breakdown` out.
Rule 2: each instant of a request counts once (see `attribution`); what the client saw beyond it is `outside`. The
        floors therefore add up to the client's latency, and so do the spans.
Rule 3: figures are per request, over all requests: one that did not pass a span spent no time there.
Rule 4: a timeline that cannot be read is counted, never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from trilith.core.timeline import Timeline
from trilith.measure.attribution import AttributedSpan, SpanKey, attribute
from trilith.measure.histogram import DurationHistogram, DurationSummary
from trilith.measure.load.recorder import TimelineSample

_ROUNDED: Final = 1.02  # clocks of two machines run apart by far less
_ROUNDED_S: Final = 0.001

OUTSIDE: Final = 0
"""The 'floor' of what the client saw and the server did not stamp."""

OUTSIDE_SPAN: Final = SpanKey(OUTSIDE, "network, sockets, client", "sent", "read")
"""Before the server had read the request and after it wrote the answer: network, both kernels, the client itself; and
the time that a request lies in the server's socket because its gateway is busy."""

FLOOR_NAMES: Final = {OUTSIDE: "outside", 1: "runtime", 2: "service", 3: "orchestration"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanTimes:
    """What one span took.

    Attributes:
        key: which.
        share: of the latency of all requests, 0 to 1; those of all spans add up to 1.
        attributed: seconds a request that count for it.
        calls_per_request: how often a request passed it.
        per_call: how long one call took there, whatever else went on meanwhile.
    """

    key: SpanKey
    share: float
    attributed: DurationSummary
    calls_per_request: float
    per_call: DurationSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorTimes:
    """What one floor took: seconds a request that count for it, and their share of the latency (0 to 1)."""

    floor: int
    share: float
    attributed: DurationSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """Where the sampled requests spent their time.

    Attributes:
        requests: timelines read.
        unreadable: timelines that could not be read, or tell of more time than the request took.
        latency: what the client saw of these requests.
        floors: in order of their share, the largest first.
        spans: floor by floor from the edge inwards (3, 2, 1, then outside), in a floor as they first occur.
    """

    requests: int
    unreadable: int
    latency: DurationSummary
    floors: tuple[FloorTimes, ...]
    spans: tuple[SpanTimes, ...]


@dataclass(slots=True)
class _Tally:
    attributed_s: list[float] = field(default_factory=list)
    per_call: DurationHistogram = field(default_factory=DurationHistogram)


def break_down(samples: Iterable[TimelineSample]) -> Breakdown | None:
    """Aggregates timelines; None when there is none that could be read."""
    spans: dict[SpanKey, _Tally] = {}
    floors: dict[int, list[float]] = {}
    latencies: list[float] = []
    unreadable = 0
    for sample in samples:
        try:
            timeline = Timeline.from_builtins(msgspec.json.decode(sample.header))
            found = attribute(timeline)
        except (ValueError, RecursionError):
            unreadable += 1
            continue
        if timeline.duration() > _ROUNDED * sample.latency_s + _ROUNDED_S:
            unreadable += 1  # no request is under way for longer than its caller waited
            continue
        latency_s = max(sample.latency_s, timeline.duration())
        outside_s = latency_s - timeline.duration()
        latencies.append(latency_s)
        _add([*found, AttributedSpan(key=OUTSIDE_SPAN, seconds=outside_s, calls_s=(outside_s,))], spans, floors)
    if not latencies:
        return None
    return Breakdown(
        requests=len(latencies),
        unreadable=unreadable,
        latency=_summary(latencies, len(latencies)),
        floors=_floor_times(floors, latencies),
        spans=_span_times(spans, latencies),
    )


def _add(found: Sequence[AttributedSpan], spans: dict[SpanKey, _Tally], floors: dict[int, list[float]]) -> None:
    """Adds one request to the tallies."""
    by_floor: dict[int, float] = {}
    for span in found:
        tally = spans.setdefault(span.key, _Tally())
        tally.attributed_s.append(span.seconds)
        for call_s in span.calls_s:
            tally.per_call.record(call_s)
        by_floor[span.key.floor] = by_floor.get(span.key.floor, 0.0) + span.seconds
    for floor, seconds in by_floor.items():
        floors.setdefault(floor, []).append(seconds)


def _floor_times(floors: dict[int, list[float]], latencies: list[float]) -> tuple[FloorTimes, ...]:
    times = [
        FloorTimes(floor=floor, share=_share(seconds, latencies), attributed=_summary(seconds, len(latencies)))
        for floor, seconds in floors.items()
    ]
    return tuple(sorted(times, key=lambda entry: (-entry.share, entry.floor)))


def _span_times(spans: dict[SpanKey, _Tally], latencies: list[float]) -> tuple[SpanTimes, ...]:
    times = [
        SpanTimes(
            key=key,
            share=_share(tally.attributed_s, latencies),
            attributed=_summary(tally.attributed_s, len(latencies)),
            calls_per_request=tally.per_call.count / len(latencies),
            per_call=tally.per_call.summary(),
        )
        for key, tally in spans.items()
    ]
    return tuple(sorted(times, key=lambda entry: -entry.key.floor))


def _share(seconds: list[float], latencies: list[float]) -> float:
    whole_s = sum(latencies)
    return sum(seconds) / whole_s if whole_s > 0 else 0.0


def _summary(seconds: list[float], requests: int) -> DurationSummary:
    """Of all requests: those that are not in `seconds` spent none."""
    histogram = DurationHistogram()
    for value in seconds:
        histogram.record(value)
    for _ in range(requests - len(seconds)):
        histogram.record(0.0)
    return histogram.summary()
