"""What models count, as metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from trilith.runtime.distributions import ModelBuckets
from trilith.runtime.protocol.triton_metrics import load_snapshot, triton_snapshots
from trilith.runtime.statistics import Duration, ModelStatistics
from trilith.telemetry import Buckets, Kind, Snapshot, Source

if TYPE_CHECKING:
    from trilith.runtime.protocol.port import RuntimePort

_LABELS: Final = ("model", "version")

_NUMBERS: Final[tuple[tuple[str, Kind, str, Callable[[ModelStatistics], float]], ...]] = (
    ("rows_total", "counter", "Rows inferred.", lambda found: found.inference_count),
    ("executions_total", "counter", "Batches executed.", lambda found: found.execution_count),
    ("retries_total", "counter", "Batches that failed and were tried again in halves.", lambda found: found.retries),
    ("waiting_requests", "gauge", "Requests in the queue.", lambda found: found.waiting.waiting_items),
    ("waiting_rows", "gauge", "Rows in the queue.", lambda found: found.waiting.waiting_rows),
    ("running_requests", "gauge", "Requests that execute.", lambda found: found.running),
    ("alive_instances", "gauge", "Instances that take batches.", lambda found: found.alive),
)
_OUTCOMES: Final[tuple[tuple[str, Callable[[ModelStatistics], int]], ...]] = (
    ("ok", lambda found: found.success.count),
    ("refused", lambda found: found.waiting.refused),
    ("expired", lambda found: found.expired),
    ("cancelled", lambda found: found.cancelled),
    ("failed", lambda found: max(0, found.fail.count - found.expired - found.waiting.refused)),
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


def model_source(runtime: RuntimePort) -> Source:
    """A source for `Metrics.add_source`: what the runtime's models have done, by model and version.

    trilith_model_requests_total{model, version, outcome}, trilith_model_seconds_total{model, version, phase},
    trilith_model_rows_total, ..._executions_total, ..._retries_total, ..._waiting_requests, ..._waiting_rows,
    ..._running_requests, ..._alive_instances, trilith_model_restarts_total{..., reason}; the histograms
    trilith_model_request_seconds{..., phase}, trilith_model_queue_seconds{..., priority} and trilith_model_batch_rows;
    trilith_model_busy_seconds_total{..., instance}.
    And Triton's names for what it counts too (`triton_metrics.py`), and what models count for themselves.
    """
    return lambda: [
        *model_snapshots(runtime.statistics()),
        load_snapshot(runtime.models()),
        *runtime.model_metrics(),
    ]


def model_snapshots(statistics: Sequence[ModelStatistics]) -> list[Snapshot]:
    """Statistics as metric families."""
    labelled = [((found.name, str(found.version)), found) for found in statistics]
    snapshots = [
        Snapshot(
            name=f"trilith_model_{name}",
            kind=kind,
            help=text,
            label_names=_LABELS,
            samples=[(labels, number(found)) for labels, found in labelled],
        )
        for name, kind, text, number in _NUMBERS
    ]
    snapshots.append(
        Snapshot(
            name="trilith_model_requests_total",
            kind="counter",
            help="Requests to a model, by how they ended.",
            label_names=(*_LABELS, "outcome"),
            samples=[((*labels, name), count(found)) for labels, found in labelled for name, count in _OUTCOMES],
        )
    )
    snapshots.append(
        Snapshot(
            name="trilith_model_seconds_total",
            kind="counter",
            help="Seconds that requests spent in a model, by phase; divide by the requests.",
            label_names=(*_LABELS, "phase"),
            samples=[((*labels, name), took(found).ns / 1e9) for labels, found in labelled for name, took in _PHASES],
        )
    )
    snapshots.append(
        Snapshot(
            name="trilith_model_restarts_total",
            kind="counter",
            help="Instances that were started again, by why.",
            label_names=(*_LABELS, "reason"),
            samples=[
                ((*labels, reason), times)
                for labels, found in labelled
                for reason, times in {"died": 0, **found.restarts}.items()  # an alert needs a series before the first
            ],
        )
    )
    snapshots.extend(_distributions(labelled))
    return snapshots + triton_snapshots(statistics)


def _distributions(labelled: Sequence[tuple[tuple[str, str], ModelStatistics]]) -> list[Snapshot]:
    kept = [(labels, found.distributions) for labels, found in labelled if found.distributions is not None]
    return [
        Snapshot(
            name="trilith_model_request_seconds",
            kind="histogram",
            help="Seconds that requests spent in a model, by phase.",
            label_names=(*_LABELS, "phase"),
            samples=[((*labels, name), buckets(found)) for labels, found in kept for name, buckets in _HISTOGRAMS],
        ),
        Snapshot(
            name="trilith_model_queue_seconds",
            kind="histogram",
            help="Seconds that requests waited for a model, by priority.",
            label_names=(*_LABELS, "priority"),
            samples=[
                ((*labels, str(priority)), buckets)
                for labels, found in kept
                for priority, buckets in found.queue.items()
            ],
        ),
        Snapshot(
            name="trilith_model_batch_rows",
            kind="histogram",
            help="Rows of the executed batches.",
            label_names=_LABELS,
            samples=[(labels, found.batch_rows) for labels, found in kept],
        ),
        Snapshot(
            name="trilith_model_busy_seconds_total",
            kind="counter",
            help="Seconds that an instance was at work.",
            label_names=(*_LABELS, "instance"),
            samples=[
                ((*labels, str(at)), seconds) for labels, found in kept for at, seconds in enumerate(found.busy_s)
            ],
        ),
    ]
