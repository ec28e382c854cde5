"""What a model has done, in Triton's terms and in Trilith's.

Rule 1: the semantics are those of Triton's statistics extension. Counts under `inference_stats` count requests, and
    each request of a batch is charged the batch's whole time; `batch_stats` count executions by their size.
Rule 2: everything is counted on the loop's thread, so nothing is locked.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from trilith.runtime.distributions import ModelBuckets, ModelDistributions
from trilith.runtime.schedule import QueueStatistics
from trilith.telemetry import SlidingQuantiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration:
    """How often, and how long in all.

    Attributes:
        count: times.
        ns: nanoseconds in all.
    """

    count: int
    ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStatistics:
    """Executions of one size.

    Attributes:
        batch_size: rows of the executed batch.
        compute_input: assembling inputs.
        compute_infer: the model itself.
        compute_output: splitting outputs.
    """

    batch_size: int
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStatistics:
    """A snapshot of one model version since it was loaded.

    Attributes:
        name: the model's name.
        version: the version.
        last_inference_ms: when it last executed, in milliseconds since the epoch; 0 for never.
        inference_count: rows inferred, successful ones only.
        execution_count: executions, successful ones only.
        success: requests answered, from entering the queue to the answer.
        fail: requests that failed: refused by the queue, expired, or failed by the model.
        queue: requests that were executed, and how long they waited.
        compute_input: assembling inputs.
        compute_infer: the model itself.
        compute_output: splitting outputs.
        batches: by size, ascending.
        cancelled: requests that their callers took back, while waiting or running.
        expired: requests whose deadline passed, while waiting or running; they are among the failed.
        refused: requests that were not let in, because the queue was full or draining; they are among the failed.
        retries: executions that failed and were tried again in halves.
        running: requests that execute now.
        waiting: what waits now, and the queue's own counts.
        distributions: histograms, or None where nobody kept them.
        summaries: what quantiles are computed from, by phase, when somebody asks; empty where nobody kept them.
        alive: instances that take batches.
        restarts: how often an instance was started again, by why.
        generation: how often the version was loaded. All that is counted here goes on when it is loaded again.
        namespace: the repository that the model is of, where those are namespaces; else "".
    """

    name: str
    version: str
    last_inference_ms: int
    inference_count: int
    execution_count: int
    success: Duration
    fail: Duration
    queue: Duration
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration
    batches: tuple[BatchStatistics, ...]
    cancelled: int
    expired: int
    retries: int
    running: int
    waiting: QueueStatistics
    distributions: ModelBuckets | None = None
    summaries: Mapping[str, SlidingQuantiles] = field(default_factory=dict)
    alive: int = 1
    restarts: Mapping[str, int] = field(default_factory=dict)
    refused: int = 0
    generation: int = 1
    namespace: str = ""


class _BatchSums:
    """Sums over the executions of one size, in seconds."""

    __slots__ = ("executions", "infer_s", "input_s", "output_s")

    def __init__(self) -> None:
        self.executions = 0
        self.input_s = self.infer_s = self.output_s = 0.0


class StatisticsCollector:
    """Counts for one model version, however often it is loaded. Seconds inside, nanoseconds outside.

    Attributes:
        generation: how often it was loaded.
        restarts: of instances of earlier generations.
    """

    def __init__(self, name: str, version: str, *, namespace: str = "") -> None:
        self._name = name
        self._namespace = namespace
        self._version = version
        self._last_inference_s = 0.0
        self._successes = self._failures = self._executed = 0
        self._success_s = self._failure_s = self._queue_s = 0.0
        self._input_s = self._infer_s = self._output_s = 0.0
        self._rows = self._executions = 0
        self._by_size: dict[int, _BatchSums] = {}
        self.cancelled = 0
        self.expired = 0
        self.refused = 0
        self.retries = 0
        self.generation = 1
        self.restarts: Counter[str] = Counter()
        self.distributions = ModelDistributions()

    def executed(
        self, *, requests: int, rows: int, queue_s: float, input_s: float, infer_s: float, output_s: float
    ) -> None:
        """Counts one successful execution.

        Args:
            requests: those that were still awaited when it ended.
            rows: of all of them.
            queue_s: the sum over the requests that were awaited, in seconds; the others are the execution's.
            input_s, infer_s, output_s: its phases.
        """
        self._last_inference_s = time.time()
        self._executed += requests
        self._executions += 1
        self._rows += rows
        self._queue_s += queue_s
        self._input_s += requests * input_s
        self._infer_s += requests * infer_s
        self._output_s += requests * output_s
        sums = self._by_size.get(rows)
        if sums is None:
            sums = self._by_size[rows] = _BatchSums()
        sums.executions += 1
        sums.input_s += input_s
        sums.infer_s += infer_s
        sums.output_s += output_s
        self.distributions.executed(requests=requests, rows=rows, input_s=input_s, infer_s=infer_s, output_s=output_s)

    def succeeded(self, requests: int, seconds: float) -> None:
        """Counts answered requests and their time in the runtime, in all."""
        self._successes += requests
        self._success_s += seconds

    def failed(self, seconds: float) -> None:
        """Counts a failed request and its time in the runtime."""
        self._failures += 1
        self._failure_s += seconds

    def snapshot(
        self,
        waiting: QueueStatistics,
        running: int,
        *,
        alive: int = 1,
        restarts: Mapping[str, int] | None = None,
    ) -> ModelStatistics:
        """What was counted until now."""
        return ModelStatistics(
            name=self._name,
            version=self._version,
            last_inference_ms=int(self._last_inference_s * 1e3),
            inference_count=self._rows,
            execution_count=self._executions,
            success=_duration(self._successes, self._success_s),
            fail=_duration(self._failures, self._failure_s),
            queue=_duration(self._executed, self._queue_s),
            compute_input=_duration(self._executed, self._input_s),
            compute_infer=_duration(self._executed, self._infer_s),
            compute_output=_duration(self._executed, self._output_s),
            batches=tuple(
                BatchStatistics(
                    batch_size=size,
                    compute_input=_duration(sums.executions, sums.input_s),
                    compute_infer=_duration(sums.executions, sums.infer_s),
                    compute_output=_duration(sums.executions, sums.output_s),
                )
                for size, sums in sorted(self._by_size.items())
            ),
            cancelled=self.cancelled,
            expired=self.expired,
            refused=self.refused,
            retries=self.retries,
            running=running,
            waiting=waiting,
            distributions=self.distributions.snapshot(),
            summaries=self.distributions.summaries,
            alive=alive,
            restarts=self.restarts + Counter(restarts or {}),
            generation=self.generation,
            namespace=self._namespace,
        )


def _duration(count: int, seconds: float) -> Duration:
    return Duration(count=count, ns=int(seconds * 1e9))
