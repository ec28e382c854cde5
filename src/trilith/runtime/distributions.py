"""How long requests of one model took, phase by phase, and how large its batches were: histograms.

Rule: a request costs two observations, a batch five; whatever else is shown is added up when somebody asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from trilith.telemetry import BATCH_BOUNDS, LATENCY_BOUNDS_S, Buckets, Distribution

_MAX_PRIORITIES: Final = 32


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
    """

    total: Buckets
    compute_input: Buckets
    compute_infer: Buckets
    compute_output: Buckets
    queue: Mapping[int, Buckets]
    batch_rows: Buckets
    busy_s: tuple[float, ...]


class ModelDistributions:
    """Observes what one model version does.

    Attributes:
        total: takes how long a request took, when it was answered.
    """

    __slots__ = ("_busy_s", "_infer", "_input", "_output", "_queue", "_rows", "total")

    def __init__(self) -> None:
        self.total = Distribution(LATENCY_BOUNDS_S)
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
            queue = self._queue.setdefault(priority, Distribution(LATENCY_BOUNDS_S))
        return queue

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
            busy_s=tuple(self._busy_s.get(at, 0.0) for at in range(instances)),
        )
