"""What models count, as metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from trilith.core.metrics_config import MetricsConfig
from trilith.runtime.distributions import ModelBuckets
from trilith.runtime.load_threads import LoadStatistics
from trilith.runtime.protocol.model_families import MODEL_LABELS, ByModel, by_model, per_model
from trilith.runtime.protocol.namespaced import in_namespaces
from trilith.runtime.protocol.triton_metrics import load_snapshot, shown_families, with_tags
from trilith.runtime.statistics import Duration, ModelStatistics
from trilith.telemetry import Buckets, Reading, Snapshot, Source, snapshots

if TYPE_CHECKING:
    from trilith.runtime.protocol.port import ModelPort, RuntimePort


_OUTCOMES: Final[tuple[tuple[str, Callable[[ModelStatistics], int]], ...]] = (
    ("ok", lambda found: found.success.count),
    ("refused", lambda found: found.refused),
    ("expired", lambda found: found.expired),
    ("cancelled", lambda found: found.cancelled),
    ("failed", lambda found: max(0, found.fail.count - found.expired - found.refused)),
)
_PHASES: Final[tuple[tuple[str, Callable[[ModelStatistics], Duration]], ...]] = (
    ("total", lambda found: found.success),
    ("queue", lambda found: found.queue),
    ("input", lambda found: found.compute_input),
    ("compute", lambda found: found.compute_infer),
    ("output", lambda found: found.compute_output),
)
_HISTOGRAMS: Final[tuple[tuple[str, Callable[[ModelBuckets], Buckets]], ...]] = (
    ("total", lambda found: found.total),
    ("input", lambda found: found.compute_input),
    ("compute", lambda found: found.compute_infer),
    ("output", lambda found: found.compute_output),
)


def model_source(runtime: RuntimePort, config: MetricsConfig | None = None) -> Source:
    """A source for `Metrics.add_source`: what the runtime's models have done, by model and version.

    trilith_model_requests_total{model, version, outcome}, trilith_model_seconds_total{model, version, phase},
    trilith_model_rows_total, ..._executions_total, ..._retries_total, ..._waiting_requests, ..._waiting_rows,
    ..._running_requests, ..._generation, ..._alive_instances, trilith_model_restarts_total{..., reason}; the histograms
    trilith_model_request_seconds{..., phase}, trilith_model_queue_seconds{..., priority} and trilith_model_batch_rows;
    trilith_model_busy_seconds_total{..., instance}; and trilith_model_loads{state}.
    And Triton's names for what it counts too (`triton_metrics.py`), those that `config` wants, and what models count
    for themselves. Where repositories are namespaces, each of a model's series has the label `namespace` too.
    """

    wanted = config or MetricsConfig()

    def families(
        counted: Sequence[ModelStatistics], models: Sequence[ModelPort], tags: Sequence[str]
    ) -> list[Snapshot]:
        of_models = by_model(counted)
        triton = [*snapshots(shown_families(wanted, time.monotonic()), of_models), load_snapshot(models)]
        return [*snapshots(_FAMILIES, of_models), *with_tags(triton, models, tags)]

    def collect() -> list[Snapshot]:
        counted, models = runtime.statistics(), runtime.models()
        return [
            *in_namespaces(counted, models, families),
            _loads(runtime.load_statistics()),
            *runtime.model_metrics(),
        ]

    return collect


def _loads(found: LoadStatistics) -> Snapshot:
    return Snapshot(
        name="trilith_model_loads",
        kind="gauge",
        help="Loads of models, by what they do now.",
        label_names=("state",),
        samples=[
            (("waiting",), found.waiting),
            (("running",), found.running),
            (("left_behind",), found.left_behind),
        ],
    )


def _kept(counted: ByModel) -> Iterator[tuple[tuple[str, str], ModelBuckets]]:
    return ((at, found.distributions) for at, found in counted if found.distributions is not None)


_FAMILIES: Final[tuple[Reading[ByModel], ...]] = (
    per_model("trilith_model_rows_total", "counter", "Rows inferred.", lambda found: found.inference_count),
    per_model("trilith_model_executions_total", "counter", "Batches executed.", lambda found: found.execution_count),
    per_model(
        "trilith_model_retries_total",
        "counter",
        "Batches that failed and were tried again in halves.",
        lambda found: found.retries,
    ),
    per_model(
        "trilith_model_waiting_requests", "gauge", "Requests in the queue.", lambda found: found.waiting.waiting_items
    ),
    per_model("trilith_model_waiting_rows", "gauge", "Rows in the queue.", lambda found: found.waiting.waiting_rows),
    per_model("trilith_model_running_requests", "gauge", "Requests that execute.", lambda found: found.running),
    per_model("trilith_model_generation", "gauge", "How often the version was loaded.", lambda found: found.generation),
    per_model("trilith_model_alive_instances", "gauge", "Instances that take batches.", lambda found: found.alive),
    Reading(
        "trilith_model_requests_total",
        "counter",
        "Requests to a model, by how they ended.",
        (*MODEL_LABELS, "outcome"),
        lambda counted: (((*at, name), count(found)) for at, found in counted for name, count in _OUTCOMES),
    ),
    Reading(
        "trilith_model_seconds_total",
        "counter",
        "Seconds that requests spent in a model, by phase; divide by the requests.",
        (*MODEL_LABELS, "phase"),
        lambda counted: (((*at, name), took(found).ns / 1e9) for at, found in counted for name, took in _PHASES),
    ),
    Reading(
        "trilith_model_restarts_total",
        "counter",
        "Instances that were started again, by why.",
        (*MODEL_LABELS, "reason"),
        lambda counted: (
            ((*at, reason), times)
            for at, found in counted
            for reason, times in {"died": 0, **found.restarts}.items()  # an alert needs a series before the first
        ),
    ),
    Reading(
        "trilith_model_request_seconds",
        "histogram",
        "Seconds that requests spent in a model, by phase.",
        (*MODEL_LABELS, "phase"),
        lambda counted: (((*at, name), of(found)) for at, found in _kept(counted) for name, of in _HISTOGRAMS),
    ),
    Reading(
        "trilith_model_queue_seconds",
        "histogram",
        "Seconds that requests waited for a model, by priority.",
        (*MODEL_LABELS, "priority"),
        lambda counted: (
            ((*at, str(priority)), buckets) for at, found in _kept(counted) for priority, buckets in found.queue.items()
        ),
    ),
    Reading(
        "trilith_model_batch_rows",
        "histogram",
        "Rows of the executed batches.",
        MODEL_LABELS,
        lambda counted: ((at, found.batch_rows) for at, found in _kept(counted)),
    ),
    Reading(
        "trilith_model_busy_seconds_total",
        "counter",
        "Seconds that an instance was at work.",
        (*MODEL_LABELS, "instance"),
        lambda counted: (
            ((*at, str(instance)), seconds)
            for at, found in _kept(counted)
            for instance, seconds in enumerate(found.busy_s)
        ),
    ),
)
