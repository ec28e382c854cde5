"""What came of the requests of one level of load. Pure: durations and outcomes are arguments."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from trilith.measure.histogram import DurationHistogram

MAX_SAMPLES: Final = 5_000
"""Timelines kept of one level; what is beyond would not change a percentile."""

MAX_SAMPLES_BYTES: Final = 64 << 20
"""Their size in all: the timeline of a request that made hundreds of calls is long."""


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
class Recorder:
    """Counts outcomes.

    Attributes:
        latencies: of answers that are a success (status 2xx).
        errors: number of failed requests by kind; an answer of another status is `status N`.
        sent_bytes: size of the requests that were answered.
        received_bytes: what was read, heads included.
        connections: connections opened.
        samples: timelines that were asked for and came, within the bounds above.
        samples_bytes: their size.
        kept: timelines that the server keeps, to be fetched after the load.
    """

    latencies: DurationHistogram = field(default_factory=DurationHistogram)
    errors: Counter[str] = field(default_factory=Counter)
    sent_bytes: int = 0
    received_bytes: int = 0
    connections: int = 0
    samples: list[TimelineSample] = field(default_factory=list)
    samples_bytes: int = 0
    kept: list[KeptTimeline] = field(default_factory=list)

    def answer(self, status: int, latency_s: float) -> None:
        """A whole answer came after `latency_s` seconds."""
        if 200 <= status < 300:
            self.latencies.record(latency_s)
        else:
            self.errors[f"status {status}"] += 1

    def error(self, kind: str) -> None:
        """A request got no answer."""
        self.errors[kind] += 1

    def sample(self, header: bytes, latency_s: float) -> None:
        """A timeline came with an answer."""
        if len(self.samples) < MAX_SAMPLES and self.samples_bytes + len(header) <= MAX_SAMPLES_BYTES:
            self.samples_bytes += len(header)
            self.samples.append(TimelineSample(header, latency_s))

    def sample_kept(self, path: str, latency_s: float) -> None:
        """An answer said where its timeline is."""
        if len(self.kept) < MAX_SAMPLES:
            self.kept.append(KeptTimeline(path, latency_s))
