"""One request as bars in time: the median one and a slow one of those that told their timeline. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from trilith.core.timeline import BATCHED, DECODED, SENT, STARTED, Timeline
from trilith.measure.load.recorder import TimelineSample

_MOST_BARS: Final = 24
_LEAST_SHARE: Final = 0.005
_SERVICE_FLOOR: Final = 2
_WAITS: Final = frozenset({BATCHED, SENT, STARTED})


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One span of one call.

    Attributes:
        label: whose, and between which stamps.
        depth: 0 for the request itself, 1 for a call that it made ...
        floor: 1 to 3, 0 for outside of the server.
        waiting: whether nobody worked on it.
        start_s: seconds from the first stamp of the request.
        end_s: the same.
    """

    label: str
    depth: int
    floor: int
    waiting: bool
    start_s: float
    end_s: float


class Waterfall(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `left_out`: spans that are too short to show."""

    title: str
    latency_s: float
    bars: tuple[Bar, ...]
    left_out: int


def waterfalls(
    samples: Sequence[TimelineSample], locked: Mapping[str, float] = MappingProxyType({})
) -> tuple[Waterfall, ...]:
    """Of the median request and of that at p99; empty when none told its timeline.

    Args:
        samples: requests that told it.
        locked: by service whose threads wait for the interpreter's lock: the seconds from which on its `started ->
            decoded` is that wait, and no work.
    """
    ordered = sorted(samples, key=lambda sample: sample.latency_s)
    found = []
    for title, fraction in (("the median request", 0.5), ("a request at p99", 0.99)):
        if not ordered:
            break
        sample = ordered[min(len(ordered) - 1, round(fraction * (len(ordered) - 1)))]
        try:
            timeline = Timeline.from_builtins(msgspec.json.decode(sample.header))
        except (ValueError, RecursionError):
            continue
        if len(timeline.stamps) > 1:
            found.append(_waterfall(title, timeline, sample.latency_s, locked))
    return tuple(found)


def _waterfall(title: str, timeline: Timeline, latency_s: float, locked: Mapping[str, float]) -> Waterfall:
    start = timeline.stamps[0][1]
    bars = list(_bars(timeline, start, 0, locked))
    outside_s = max(0.0, latency_s - timeline.duration())
    bars.append(
        Bar(
            label="network, sockets, client",
            depth=0,
            floor=0,
            waiting=True,
            start_s=timeline.duration(),
            end_s=timeline.duration() + outside_s,
        )
    )
    shown = [bar for bar in bars if bar.end_s - bar.start_s >= _LEAST_SHARE * latency_s]
    longest = sorted(shown, key=lambda bar: bar.start_s - bar.end_s)[:_MOST_BARS]
    kept = [bar for bar in shown if bar in longest]
    return Waterfall(title=title, latency_s=latency_s, bars=tuple(kept), left_out=len(bars) - len(kept))


def _bars(timeline: Timeline, start: float, depth: int, locked: Mapping[str, float]) -> Iterable[Bar]:
    """Spans of a call, each followed by the calls that began in it."""
    children = sorted((child for child in timeline.children if child.stamps), key=lambda child: child.stamps[0][1])
    service = timeline.name.partition(" ")[2].rpartition(".")[0] if timeline.floor == _SERVICE_FLOOR else ""
    for (earlier, begins), (later, ends) in itertools.pairwise(timeline.stamps):
        in_lock = later == DECODED and ends - begins > locked.get(service, math.inf)
        yield Bar(
            label=f"{timeline.name}: {earlier} -> {later}" + (" (the lock)" if in_lock else ""),
            depth=depth,
            floor=timeline.floor,
            waiting=later in _WAITS or in_lock,
            start_s=max(0.0, begins - start),
            end_s=max(0.0, ends - start),
        )
        while children and children[0].stamps[0][1] < ends:
            yield from _bars(children.pop(0), start, depth + 1, locked)
    for child in children:
        yield from _bars(child, start, depth + 1, locked)
