"""A level second by second, and how sure its figures are: from slices of time. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trilith.measure.batch_means import Interval, batches, interval, percentile_interval
from trilith.measure.histogram import DurationHistogram
from trilith.measure.load.recorder import Recorder, Slice
from trilith.measure.stability import Stability, stability


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondFigures:
    """What came in one second of a level.

    Attributes:
        at_s: its beginning, in seconds from the beginning of the measurement.
        length_s: its length; that of a very long level has more than one second, and its last may have less.
        requests_per_s: good answers a second.
        failed: failed requests.
        p50_s: latency that half of the good answers did not exceed, seconds; 0 when there was none.
        p99_s: the same for 99 in a hundred.
        max_s: the longest.
    """

    at_s: float
    length_s: float
    requests_per_s: float
    failed: int
    p50_s: float
    p99_s: float
    max_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sureness:
    """95 % confidence intervals of a level's figures, and whether it stood still.

    Attributes:
        requests_per_s: of the throughput; None, like the others, of a level of too few slices or answers.
        mean_s: of the mean latency, seconds.
        p99_s: of the latency that 99 in a hundred do not exceed, seconds; None below a thousand answers.
        stability: None of a level of too few slices.
    """

    requests_per_s: Interval | None = None
    mean_s: Interval | None = None
    p99_s: Interval | None = None
    stability: Stability | None = None


_SLIVER: Final = 0.05
"""What is left of a second, when a level took a moment longer than it should, is none of its own."""

NOT_SURE: Final = Sureness()
"""Nothing is known: the level is too short."""


def seconds_of(recorder: Recorder, elapsed_s: float) -> tuple[SecondFigures, ...]:
    """The slices put together to seconds."""
    per_second = max(1, round(1.0 / recorder.slice_s))
    length_s = per_second * recorder.slice_s
    found = []
    for index in range(max(1, math.ceil(elapsed_s / length_s - _SLIVER)) if elapsed_s > 0 else 0):
        pieces = recorder.slices[index * per_second : (index + 1) * per_second]
        merged = _merged(pieces)
        own_s = min(length_s, elapsed_s - index * length_s)
        found.append(
            SecondFigures(
                at_s=index * length_s,
                length_s=own_s,
                requests_per_s=merged.count / own_s,
                failed=sum(piece.failures for piece in pieces),
                p50_s=merged.percentile_s(0.50),
                p99_s=merged.percentile_s(0.99),
                max_s=merged.max_s,
            )
        )
    return tuple(found)


def sureness(recorder: Recorder, elapsed_s: float) -> Sureness:
    """Intervals by batch means over the whole slices of a level, and its stability."""
    whole = int(elapsed_s / recorder.slice_s + 1e-6)
    slices = list(recorder.slices[:whole])
    slices += [Slice() for _ in range(whole - len(slices))]
    counts = [piece.latencies.count / recorder.slice_s for piece in slices]
    means = [piece.latencies.sum_s / piece.latencies.count for piece in slices if piece.latencies.count]
    groups = [_merged(group) for group in batches(slices)]
    filled = groups if all(group.count for group in groups) else []
    overall = recorder.latencies
    return Sureness(
        requests_per_s=interval([sum(group) / len(group) for group in batches(counts)]),
        mean_s=interval(
            [group.sum_s / group.count for group in filled], overall.sum_s / overall.count if overall.count else None
        ),
        p99_s=percentile_interval(groups, 0.99),
        stability=stability(counts, means),
    )


def _merged(pieces: Sequence[Slice]) -> DurationHistogram:
    if len(pieces) == 1:
        return pieces[0].latencies
    merged = DurationHistogram()
    for piece in pieces:
        if piece.latencies.count:
            merged.merge(piece.latencies)
    return merged
