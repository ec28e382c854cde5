"""How long requests of one model took, phase by phase, and how large its batches were: histograms.

Rule: a request costs two observations, a batch five; whatever else is shown is added up when somebody asks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trilith.telemetry import BATCH_BOUNDS, LATENCY_BOUNDS_S, Buckets, Distribution, SlidingQuantiles

_MAX_PRIORITIES: Final = 32
SUMMARIES: Final = ("request", "queue", "compute_input", "compute_infer", "compute_output")
"""Phases that have summaries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelBuckets:
    """A snapshot of one model version's histograms.

    Attributes:
        total: seconds from entering the queue to the answer, of requests that succeeded.
        compute_input: seconds until the batch was assembled, once for each of its requests.
        compute_infer: seconds in the model, likewise.
        compute_output: seconds until the batch was split, likewise.
        queue: seconds in the queue, by priority.
        batch_rows: rows of the executed batches.
        busy_s: seconds that each instance was at work.
        first_response: milliseconds of requests that succeeded, in buckets that the model's configuration chose; None
            where it chose none.
    """

    total: Buckets
    compute_input: Buckets
    compute_infer: Buckets
    compute_output: Buckets
    queue: Mapping[int, Buckets]
    batch_rows: Buckets
    busy_s: tuple[float, ...]
    first_response: Buckets | None = None


class _AlsoTold(Distribution):
    """A distribution as it was, of which others are told too."""

    __slots__ = ("_main", "_others")

    def __init__(self, main: Distribution, others: Sequence[Callable[[float, int], None]]) -> None:
        super().__init__(())
        self._main = main
        self._others = others

    def observe(self, value: float, times: int = 1) -> None:
        """See `Distribution.observe`."""
        self._main.observe(value, times)
        for other in self._others:
            other(value, times)

    def buckets(self) -> Buckets:
        """See `Distribution.buckets`."""
        return self._main.buckets()


class ModelDistributions:
    """Observes what one model version does.

    Attributes:
        total: takes how long a request took, when it was answered.
        summaries: seconds by phase (`request`, `queue`, `compute_input` ...) of the last minute; empty where they are
            not kept.
    """

    __slots__ = (
        *("_bounds_ms", "_busy_s", "_clock", "_first", "_infer", "_input", "_output", "_queue", "_rows", "_total"),
        *("summaries", "total"),
    )

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._total = self.total = Distribution(LATENCY_BOUNDS_S)
        self._bounds_ms: tuple[float, ...] = ()
        self._first: Distribution | None = None
        self.summaries: dict[str, SlidingQuantiles] = {}
        self._input = Distribution(LATENCY_BOUNDS_S)
        self._infer = Distribution(LATENCY_BOUNDS_S)
        self._output = Distribution(LATENCY_BOUNDS_S)
        self._rows = Distribution(BATCH_BOUNDS)
        self._queue: dict[int, Distribution] = {}
        self._busy_s: dict[int, float] = {}

    def queue(self, priority: int) -> Distribution:
        """Takes how long a request of this priority waited, when its batch succeeded."""
        queue = self._queue.get(priority)
        if queue is None:
            # Models tell few priorities apart; should one tell many, the lowest share a histogram.
            priority = priority if len(self._queue) < _MAX_PRIORITIES else max(self._queue)
            queue = self._queue.setdefault(priority, self._told("queue", Distribution(LATENCY_BOUNDS_S)))
        return queue

    def keep(self, *, summaries: bool, first_response_bounds_ms: tuple[float, ...]) -> None:
        """Keeps more, from now on. What is kept already goes on, but for buckets that are others now.

        Args:
            summaries: whether there are summaries.
            first_response_bounds_ms: buckets of the time to the first response; empty for the usual ones.
        """
        if summaries and not self.summaries:
            self.summaries = {phase: SlidingQuantiles() for phase in SUMMARIES}
            self._input = self._told("compute_input", self._input)
            self._infer = self._told("compute_infer", self._infer)
            self._output = self._told("compute_output", self._output)
            self._queue = {priority: self._told("queue", queue) for priority, queue in self._queue.items()}
            self._total = self._told("request", self._total)
        if first_response_bounds_ms != self._bounds_ms:
            self._bounds_ms = first_response_bounds_ms
            self._first = Distribution(first_response_bounds_ms) if first_response_bounds_ms else None
        self.total = self._total
        if (first := self._first) is not None:
            self.total = _AlsoTold(self._total, [lambda seconds, times: first.observe(seconds * 1e3, times)])

    def _told(self, phase: str, distribution: Distribution) -> Distribution:
        summary = self.summaries.get(phase)
        if summary is None:
            return distribution
        return _AlsoTold(distribution, [lambda seconds, times: summary.observe(seconds, times, self._clock())])

    def executed(self, *, requests: int, rows: int, input_s: float, infer_s: float, output_s: float) -> None:
        """A batch succeeded."""
        self._rows.observe(rows)
        self._input.observe(input_s, requests)
        self._infer.observe(infer_s, requests)
        self._output.observe(output_s, requests)

    def busy(self, instance: int, seconds: float) -> None:
        """An instance was at work."""
        self._busy_s[instance] = self._busy_s.get(instance, 0.0) + seconds

    def snapshot(self) -> ModelBuckets:
        """What was observed until now."""
        instances = max(self._busy_s, default=-1) + 1
        return ModelBuckets(
            total=self.total.buckets(),
            compute_input=self._input.buckets(),
            compute_infer=self._infer.buckets(),
            compute_output=self._output.buckets(),
            queue={priority: queue.buckets() for priority, queue in sorted(self._queue.items())},
            batch_rows=self._rows.buckets(),
            first_response=self._first.buckets() if self._first is not None else None,
            busy_s=tuple(self._busy_s.get(at, 0.0) for at in range(instances)),
        )
