"""From the timeline of one request to where its time went, each instant counted once.

A request may make a hundred calls that run side by side: their durations add up to far more than the request took, and
most of it is waiting for one another. Therefore:

Rule 1: an instant counts for what computes at that instant, on the lowest floor first: a model before the service that
        called it, a service before the transport around it.
Rule 2: only when nothing computes it counts for what waits, on the lowest floor first.
Rule 3: what is equal by these two rules shares the instant equally, span by span.
Rule 4: so the parts add up to the request's duration; and a request that does one thing at a time gives each span the
        time between its two stamps, less what was called meanwhile.
Rule 5: pure: a timeline in, seconds out. n stamps cost O(n log n).
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from trilith.core.timeline import BATCHED, SENT, STARTED, Timeline

_ENDS_OF_WAITS: Final = frozenset({BATCHED, SENT, STARTED})
"""Until these stages nobody worked on the call: it lay in a queue, or was handed over and not yet begun."""


@dataclass(frozen=True, slots=True, order=True)
class SpanKey:
    """A span's place in a request.

    Attributes:
        floor: 1 runtime, 2 service, 3 orchestration.
        name: whose timeline it is in: `model ocr-rec`, `service Ocr.read`.
        earlier: the stage that it begins with.
        later: the stage that it ends with.
        waiting: whether the call lay there, and nobody worked on it.
    """

    floor: int
    name: str
    earlier: str
    later: str
    waiting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributedSpan:
    """What one span contributed to a request.

    Attributes:
        key: which.
        seconds: instants of the request that count for it. Those of all spans add up to the request's duration.
        calls_s: for each call that passed it, how long that took, whatever else went on meanwhile; without the time
            that the calls under it covered.
    """

    key: SpanKey
    seconds: float
    calls_s: tuple[float, ...]


_Piece = tuple[float, float, int]
"""From, to, and the number of a span: a stretch in which one call was itself at work, or waiting."""


def attribute(timeline: Timeline) -> list[AttributedSpan]:
    """Every span of a request and of the calls under it, in the order in which they first occur, callers first.

    Empty when the request itself has fewer than two stamps. A step back in time within a call counts as no time. What
    reaches beyond the request's own first and last stamp does not count, except in `calls_s`.

    Raises:
        ValueError: the request ends before it begins.
    """
    if len(timeline.stamps) < 2:
        return []
    if timeline.duration() < 0:
        raise ValueError(f"the last stamp is earlier than the first: {timeline!r}")
    numbers: dict[tuple[int, str, str, str], int] = {}
    calls_s: list[list[float]] = []
    pieces: list[_Piece] = []
    for call in _walk(timeline):
        starts, ends = _covered(call.children)
        for (earlier, start), (later, end) in itertools.pairwise(call.stamps):
            number = numbers.setdefault((call.floor, call.name, earlier, later), len(numbers))
            own = [(first, last, number) for first, last in _gaps(start, end, starts, ends)]
            pieces += own
            if number == len(calls_s):
                calls_s.append([])
            calls_s[number].append(sum(last - first for first, last, _ in own))
    keys = [SpanKey(*place, waiting=place[-1] in _ENDS_OF_WAITS) for place in numbers]
    shares_s = _sweep(pieces, keys, timeline.stamps[0][1], timeline.stamps[-1][1])
    return [
        AttributedSpan(key=key, seconds=seconds, calls_s=tuple(of_calls))
        for key, seconds, of_calls in zip(keys, shares_s, calls_s, strict=True)
    ]


def _walk(timeline: Timeline) -> Iterator[Timeline]:
    """The timeline and all under it, callers before their calls."""
    pending = [timeline]
    while pending:
        call = pending.pop()
        yield call
        pending.extend(reversed(call.children))


def _covered(calls: list[Timeline]) -> tuple[list[float], list[float]]:
    """Starts and ends of the stretches of time that calls cover: without overlaps, in order."""
    starts: list[float] = []
    ends: list[float] = []
    for start, end in sorted((call.stamps[0][1], call.stamps[-1][1]) for call in calls if call.stamps):
        if ends and start <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        elif end > start:
            starts.append(start)
            ends.append(end)
    return starts, ends


def _gaps(start: float, end: float, starts: list[float], ends: list[float]) -> Iterator[tuple[float, float]]:
    """What is left of the stretch from `start` to `end` without those from `starts` to `ends`."""
    for index in range(bisect_right(ends, start), len(ends)):
        if starts[index] >= end:
            break
        if starts[index] > start:
            yield start, starts[index]
        start = ends[index]
    if start < end:
        yield start, end


def _sweep(pieces: list[_Piece], keys: list[SpanKey], start: float, end: float) -> list[float]:
    """What each span gets of the time from `start` to `end`, in seconds.

    Each rank has a clock, as in processor sharing: while k pieces of the first occupied rank are active, its clock
    advances by a k-th of real time. A piece gets what its rank's clock advanced from its start to its end; so an edge
    costs the same however many pieces are active.
    """
    ranks = _ranks(keys)
    clocks = [0.0] * (max(ranks) + 1)
    active = [0] * len(clocks)
    entered = [0.0] * len(pieces)
    shares_s = [0.0] * len(keys)
    now = start
    for instant, number in _edges(pieces, start, end):
        if instant > now:
            for rank, count in enumerate(active):
                if count:
                    clocks[rank] += (instant - now) / count
                    break
            now = instant
        piece = max(number, ~number)
        span = pieces[piece][2]
        rank = ranks[span]
        if number == piece:
            active[rank] += 1
            entered[piece] = clocks[rank]
        else:
            active[rank] -= 1
            shares_s[span] += clocks[rank] - entered[piece]
    return shares_s


def _ranks(keys: list[SpanKey]) -> list[int]:
    """Each span's place in the order in which an instant is given away, 0 first; equals have the same."""
    order = {rank: place for place, rank in enumerate(sorted({(key.waiting, key.floor) for key in keys}))}
    return [order[key.waiting, key.floor] for key in keys]


def _edges(pieces: list[_Piece], start: float, end: float) -> list[tuple[float, int]]:
    """Where pieces begin (by their number) and end (by its complement) between `start` and `end`, in order of time."""
    edges = []
    for number, (first, last, _) in enumerate(pieces):
        first, last = max(first, start), min(last, end)
        if first < last:
            edges += [(first, number), (last, ~number)]
    edges.sort()
    return edges
