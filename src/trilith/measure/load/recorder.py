"""What came of the requests of one level of load. Pure: durations and outcomes are arguments.

Rule 1: latency runs from the instant at which a request was due. In a closed loop that is when it was sent; in an open
        one the time from the actual sending is kept beside it, and so is what the request waited for a connection.
Rule 2: time is cut into slices of one length. An answer belongs to the slice in which it came.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from trilith.measure.histogram import DurationHistogram

MAX_SAMPLES: Final = 5_000
"""Timelines kept of one level; what is beyond would not change a percentile."""

MAX_SAMPLES_BYTES: Final = 64 << 20
"""Their size in all: the timeline of a request that made hundreds of calls is long."""

UNANSWERED: Final = "no answer by the end"

_SLICES: Final = 20
_SLICE_LENGTHS_S: Final = (1.0, 0.5, 0.25, 0.1, 0.05)
_MOST_SLICES: Final = 600


@dataclass(frozen=True, slots=True)
class TimelineSample:
    """The timeline of one request as the server sent it, and the latency in seconds that the client saw."""

    header: bytes
    latency_s: float


@dataclass(frozen=True, slots=True)
class KeptTimeline:
    """Where the server keeps a timeline that was too long for a header, and the latency in seconds of its request."""

    path: str
    latency_s: float


@dataclass(slots=True)
class Slice:
    """What came in one slice of time: latencies of good answers, and the number of failures."""

    latencies: DurationHistogram = field(default_factory=DurationHistogram)
    failures: int = 0


@dataclass(slots=True)
class StreamCounts:
    """What answers of several items were like.

    Attributes:
        first_item: from when a request was due to its first item.
        between: from one item to the next of the same answer.
        items: number of them.
    """

    first_item: DurationHistogram = field(default_factory=DurationHistogram)
    between: DurationHistogram = field(default_factory=DurationHistogram)
    items: int = 0


@dataclass(slots=True)
class TargetCounts:
    """The requests to one of several targets."""

    latencies: DurationHistogram = field(default_factory=DurationHistogram)
    errors: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Recorder:
    """Counts outcomes.

    Attributes:
        started_at: the instant from which slices are counted.
        slice_s: their length in seconds.
        ended_at: what comes from this instant on belongs to no slice.
        due_until: requests that were due from this instant on, or before `started_at`, do not count in an open loop.
        slo_s: an answer later than this is a good one that came too late.
        latencies: of answers that are a success (status 2xx).
        from_send: the same from the actual sending; empty in a closed loop.
        waits: from when the generator took up a request until there was a connection for it; empty in a closed loop.
        lags: how late the generator took up requests; empty in a closed loop.
        offered: requests that were due and taken up.
        behind_s: how far the generator of an open loop was behind its schedule at the end, in seconds: what was due in
            that time was never sent.
        within_slo: good answers within `slo_s`.
        errors: number of failed requests by kind; an answer of another status is `status N`.
        sent_bytes: size of the requests that were answered.
        received_bytes: what was read, heads included.
        connections: connections opened.
        slices: in order.
        stream: of answers of several items.
        targets: where there are several.
        samples: timelines that were asked for and came, within the bounds above.
        samples_bytes: their size.
        kept: timelines that the server keeps, to be fetched after the load.
    """

    started_at: float = 0.0
    slice_s: float = 1.0
    ended_at: float = math.inf
    due_until: float = math.inf
    slo_s: float = math.inf
    latencies: DurationHistogram = field(default_factory=DurationHistogram)
    from_send: DurationHistogram = field(default_factory=DurationHistogram)
    waits: DurationHistogram = field(default_factory=DurationHistogram)
    lags: DurationHistogram = field(default_factory=DurationHistogram)
    offered: int = 0
    behind_s: float = 0.0
    within_slo: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    sent_bytes: int = 0
    received_bytes: int = 0
    connections: int = 0
    slices: list[Slice] = field(default_factory=list)
    stream: StreamCounts = field(default_factory=StreamCounts)
    targets: list[TargetCounts] = field(default_factory=list)
    samples: list[TimelineSample] = field(default_factory=list)
    samples_bytes: int = 0
    kept: list[KeptTimeline] = field(default_factory=list)

    @classmethod
    def of_warm_up(cls, targets: list[TargetCounts]) -> Recorder:
        """One in which no request was due and no answer belongs to a slice."""
        return cls(started_at=math.inf, ended_at=-math.inf, targets=targets)

    def answer(self, status: int, latency_s: float, now: float = 0.0) -> None:
        """A whole HTTP answer came after `latency_s` seconds, at the instant `now`."""
        if 200 <= status < 300:
            self.success(latency_s, now)
        else:
            self.error(f"status {status}", now)

    def success(self, latency_s: float, now: float) -> None:
        """A good answer came after `latency_s` seconds, at the instant `now`."""
        self.latencies.record(latency_s)
        if latency_s <= self.slo_s:
            self.within_slo += 1
        if now < self.ended_at:
            self.slice_at(now).latencies.record(latency_s)

    def error(self, kind: str, now: float = 0.0) -> None:
        """A request got no answer, or one that is none."""
        self.errors[kind] += 1
        if now < self.ended_at:
            self.slice_at(now).failures += 1

    @property
    def answered(self) -> int:
        """Good answers that came within the slices."""
        return sum(piece.latencies.count for piece in self.slices)

    def was_due(self, due_at: float) -> bool:
        """Whether a request of an open loop counts, by the instant at which it was due."""
        return self.started_at <= due_at < self.due_until

    def slice_at(self, now: float) -> Slice:
        """The slice of an instant; one before the start belongs to the first."""
        index = int((now - self.started_at) / self.slice_s)
        slices = self.slices
        if index >= len(slices):
            slices.extend(Slice() for _ in range(index + 1 - len(slices)))
        return slices[index if index > 0 else 0]

    def sample(self, header: bytes, latency_s: float) -> None:
        """A timeline came with an answer."""
        if len(self.samples) < MAX_SAMPLES and self.samples_bytes + len(header) <= MAX_SAMPLES_BYTES:
            self.samples_bytes += len(header)
            self.samples.append(TimelineSample(header, latency_s))

    def sample_kept(self, path: str, latency_s: float) -> None:
        """An answer said where its timeline is."""
        if len(self.kept) < MAX_SAMPLES:
            self.kept.append(KeptTimeline(path, latency_s))


def slice_length_s(duration_s: float) -> float:
    """The longest of the usual lengths of which a level has at least twenty; longer ones for a very long level."""
    if duration_s > _MOST_SLICES:
        return float(-(-duration_s // _MOST_SLICES))
    return next((length for length in _SLICE_LENGTHS_S if duration_s / length >= _SLICES), _SLICE_LENGTHS_S[-1])
