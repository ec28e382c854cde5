"""From the timeline of one request to where its time went, floor by floor.

A page makes a hundred calls that run side by side, so their durations add up to far more than the request took. Here
each instant of the request is counted once: for whatever computes at that instant, on the lowest floor first; when
nothing computes, for whatever waits. The shares therefore add up to the whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from trilith.core.timeline import ADMITTED, BATCHED, QUEUED, SENT, STARTED, Timeline

FLOOR_NAMES: Final = {1: "runtime", 2: "service", 3: "orchestration"}
_WAITS: Final = frozenset({ADMITTED, QUEUED, BATCHED, SENT, STARTED})  # a span that ends in one of these is a wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Time that one part spent itself, not in the calls that it made. `call` tells its timeline from others."""

    floor: int
    part: str
    call: int
    waiting: bool
    start: float
    end: float

    @property
    def rank(self) -> tuple[bool, int]:
        """What counts first at an instant: computing before waiting, models before services before transport."""
        return self.waiting or self.floor == 3, self.floor


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one part of the request cost.

    Attributes:
        floor: 1 runtime, 2 service, 3 orchestration.
        name: `model ocr-rec`, `Ocr.read` ...; with `, waiting` when it did not compute.
        calls: how many calls spent time there.
        seconds: instants that were counted for it.
    """

    floor: int
    name: str
    calls: int
    seconds: float


def own_spans(timeline: Timeline) -> Iterator[Span]:
    """The spans of a timeline and of all under it, without what their children covered."""
    covered = sorted((nested.stamps[0][1], nested.stamps[-1][1]) for nested in timeline.children if nested.stamps)
    for (_, start), (stage, end) in itertools.pairwise(timeline.stamps):
        for first, last in _gaps(start, end, covered):
            yield Span(
                floor=timeline.floor,
                part=timeline.name,
                call=id(timeline),
                waiting=stage in _WAITS,
                start=first,
                end=last,
            )
    for nested in timeline.children:
        yield from own_spans(nested)


def _gaps(start: float, end: float, covered: list[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """What is left of the stretch from `start` to `end` without the covered stretches, which are in order."""
    for first, last in covered:
        if first > start:
            yield start, min(first, end)
        start = max(start, last)
        if start >= end:
            return
    yield start, end


def parts(timeline: Timeline) -> list[Part]:
    """Every part of the request, floor by floor, the dearest first within a floor."""
    spans = [span for span in own_spans(timeline) if span.end > span.start]
    edges = sorted({edge for span in spans for edge in (span.start, span.end)})
    position = {edge: number for number, edge in enumerate(edges)}
    active: list[list[Span]] = [[] for _ in edges]
    for span in spans:
        for number in range(position[span.start], position[span.end]):
            active[number].append(span)
    seconds: dict[tuple[int, str], float] = {}
    for number, (start, end) in enumerate(itertools.pairwise(edges)):
        if not active[number]:
            continue
        best = min(span.rank for span in active[number])
        counted = [span for span in active[number] if span.rank == best]
        for span in counted:
            seconds[_key(span)] = seconds.get(_key(span), 0.0) + (end - start) / len(counted)
    calls: dict[tuple[int, str], set[int]] = {}
    for span in spans:
        calls.setdefault(_key(span), set()).add(span.call)
    found = [Part(floor=key[0], name=key[1], calls=len(calls[key]), seconds=spent) for key, spent in seconds.items()]
    return sorted(found, key=lambda part: (part.floor, -part.seconds))


def _key(span: Span) -> tuple[int, str]:
    return span.floor, f"{span.part}, waiting" if span.waiting else span.part
