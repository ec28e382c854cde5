"""From the timelines of some requests to: which floor, which part, which stage took the time.

Rule 1: pure: samples in, `Breakdown` out.
Rule 2: a span is two neighbouring stamps of one timeline. Its *own* time excludes what its timeline's children covered
        meanwhile, so that the spans of one request add up to its duration when nothing ran in parallel.
Rule 3: what a request did several times (120 crops of a page) is added up before percentiles are taken over requests.
Rule 4: a timeline that cannot be read is counted, never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from trilith.core.timeline import Timeline
from trilith.measure.histogram import DurationHistogram, DurationSummary
from trilith.measure.load import TimelineSample

OUTSIDE: Final = 0
"""The 'floor' of what the client saw and the server did not: network, kernel, the generator."""

FLOOR_NAMES: Final = {OUTSIDE: "outside", 1: "runtime", 2: "service", 3: "orchestration"}


@dataclass(frozen=True, slots=True, order=True)
class SpanKey:
    """A span's place: the floor, the part's name, and the stages it lies between."""

    floor: int
    name: str
    earlier: str
    later: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanTimes:
    """How long one span took.

    Attributes:
        key: which.
        own: own seconds a request, over the requests that had it.
        calls_per_request: how often it occurred in a request that had it.
    """

    key: SpanKey
    own: DurationSummary
    calls_per_request: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorTimes:
    """How long one floor took: own seconds a request, and its share of the mean latency (0 to 1)."""

    floor: int
    own: DurationSummary
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """Where the sampled requests spent their time.

    Attributes:
        requests: timelines read.
        unreadable: timelines that could not be read.
        floors: in order of their mean, the slowest first.
        spans: in order of floor (3 to 0) and time.
    """

    requests: int
    unreadable: int
    floors: tuple[FloorTimes, ...]
    spans: tuple[SpanTimes, ...]


@dataclass(slots=True)
class _Tally:
    times: DurationHistogram = field(default_factory=DurationHistogram)
    calls: int = 0


def break_down(samples: Iterable[TimelineSample]) -> Breakdown | None:
    """Aggregates timelines; None when there is none that could be read."""
    spans: dict[SpanKey, _Tally] = {}
    floors: dict[int, _Tally] = {}
    requests = unreadable = 0
    latency_s = 0.0
    for sample in samples:
        try:
            timeline = Timeline.from_builtins(msgspec.json.decode(sample.header))
        except (ValueError, RecursionError):
            unreadable += 1
            continue
        requests += 1
        latency_s += sample.latency_s
        _add(list(_own_times(timeline)), sample.latency_s - timeline.duration(), spans, floors)
    if not requests:
        return None
    return Breakdown(
        requests=requests, unreadable=unreadable, floors=_floor_times(floors, latency_s), spans=_span_times(spans)
    )


def _add(
    own_times: list[tuple[SpanKey, float]],
    outside_s: float,
    spans: dict[SpanKey, _Tally],
    floors: dict[int, _Tally],
) -> None:
    """Adds one request to the tallies."""
    own_times.append((SpanKey(OUTSIDE, "network, client", "sent", "read"), outside_s))
    by_key: dict[SpanKey, float] = {}
    by_floor: dict[int, float] = {}
    for key, own_s in own_times:
        by_key[key] = by_key.get(key, 0.0) + own_s
        by_floor[key.floor] = by_floor.get(key.floor, 0.0) + own_s
        spans.setdefault(key, _Tally()).calls += 1
    for key, own_s in by_key.items():
        spans[key].times.record(max(0.0, own_s))
    for floor, own_s in by_floor.items():
        floors.setdefault(floor, _Tally()).times.record(max(0.0, own_s))


def _own_times(timeline: Timeline) -> Iterator[tuple[SpanKey, float]]:
    """Each span of a timeline and of those under it, with its own seconds."""
    covered = _union(
        [(nested.stamps[0][1], nested.stamps[-1][1]) for nested in timeline.children if len(nested.stamps) > 1]
    )
    for (earlier, start), (later, end) in zip(timeline.stamps, timeline.stamps[1:], strict=False):
        inside = sum(max(0.0, min(end, last) - max(start, first)) for first, last in covered)
        yield SpanKey(timeline.floor, timeline.name, earlier, later), end - start - inside
    for nested in timeline.children:
        yield from _own_times(nested)


def _union(intervals: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The same stretches of time without overlaps, in order."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _floor_times(floors: dict[int, _Tally], latency_s: float) -> tuple[FloorTimes, ...]:
    times = [
        FloorTimes(
            floor=floor, own=tally.times.summary(), share=tally.times.sum_s / latency_s if latency_s > 0 else 0.0
        )
        for floor, tally in floors.items()
    ]
    return tuple(sorted(times, key=lambda entry: (-entry.share, entry.floor)))


def _span_times(spans: dict[SpanKey, _Tally]) -> tuple[SpanTimes, ...]:
    # In the order in which the spans first occurred, which is the order in time; floors from the edge inwards.
    ordered = sorted(spans.items(), key=lambda item: -item[0].floor)
    return tuple(
        SpanTimes(key=key, own=tally.times.summary(), calls_per_request=tally.calls / tally.times.count)
        for key, tally in ordered
    )
