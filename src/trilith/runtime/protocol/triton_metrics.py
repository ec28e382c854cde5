"""What models count under the names that Triton's dashboards ask for.

Rule: names, labels and units are Triton's, so a counter's name has no `_total`. Every series of a model exists at 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trilith.core.metrics_config import MetricsConfig
from trilith.runtime.distributions import SUMMARIES
from trilith.runtime.protocol.model_families import MODEL_LABELS, ByModel, per_model
from trilith.runtime.statistics import Duration, ModelStatistics
from trilith.telemetry import LATENCY_BOUNDS_S, Buckets, Quantiles, Reading, Snapshot

if TYPE_CHECKING:
    from trilith.runtime.protocol.port import ModelPort

_FIRST_RESPONSE_BOUNDS_S: Final = (0.1, 0.5, 2.0, 5.0)


def _us(duration: Duration) -> int:
    return duration.ns // 1000


_REASONS: Final[tuple[tuple[str, Callable[[ModelStatistics], int]], ...]] = (
    ("BACKEND", lambda found: max(0, found.fail.count - found.expired - found.refused)),
    ("CANCELED", lambda found: found.cancelled),
    ("OTHER", lambda found: 0),
    ("REJECTED", lambda found: found.expired + found.refused),
)


def _first_response(total: Buckets) -> Buckets:
    """A model here gives one response, so the first is the whole answer."""
    chosen = [total.cumulative[LATENCY_BOUNDS_S.index(bound)] for bound in _FIRST_RESPONSE_BOUNDS_S]
    return Buckets(
        bounds=tuple(bound * 1e3 for bound in _FIRST_RESPONSE_BOUNDS_S),
        cumulative=(*chosen, total.cumulative[-1]),
        total=total.total * 1e3,
    )


TRITON_FAMILIES: Final[tuple[Reading[ByModel], ...]] = (
    per_model(
        "nv_inference_request_success",
        "counter",
        "Number of successful inference requests, all batch sizes",
        lambda found: found.success.count,
    ),
    per_model(
        "nv_inference_count",
        "counter",
        "Number of inferences performed (does not include cached requests)",
        lambda found: found.inference_count,
    ),
    per_model(
        "nv_inference_exec_count",
        "counter",
        "Number of model executions performed (does not include cached requests)",
        lambda found: found.execution_count,
    ),
    per_model(
        "nv_inference_request_duration_us",
        "counter",
        "Cumulative inference request duration in microseconds (includes cached requests)",
        lambda found: _us(found.success),
    ),
    per_model(
        "nv_inference_queue_duration_us",
        "counter",
        "Cumulative inference queuing duration in microseconds (includes cached requests)",
        lambda found: _us(found.queue),
    ),
    per_model(
        "nv_inference_compute_input_duration_us",
        "counter",
        "Cumulative compute input duration in microseconds (does not include cached requests)",
        lambda found: _us(found.compute_input),
    ),
    per_model(
        "nv_inference_compute_infer_duration_us",
        "counter",
        "Cumulative compute inference duration in microseconds (does not include cached requests)",
        lambda found: _us(found.compute_infer),
    ),
    per_model(
        "nv_inference_compute_output_duration_us",
        "counter",
        "Cumulative inference compute output duration in microseconds (does not include cached requests)",
        lambda found: _us(found.compute_output),
    ),
    per_model(
        "nv_inference_pending_request_count",
        "gauge",
        "Instantaneous number of pending requests awaiting execution per-model.",
        lambda found: found.waiting.waiting_items,
    ),
    Reading(
        "nv_inference_request_failure",
        "counter",
        "Number of failed inference requests, all batch sizes",
        ("model", "reason", "version"),
        lambda counted: (
            ((model, reason, version), count(found))
            for (model, version), found in counted
            for reason, count in _REASONS
        ),
    ),
    Reading(
        "nv_inference_first_response_histogram_ms",
        "histogram",
        "Duration from request to first response in milliseconds",
        MODEL_LABELS,
        lambda counted: (
            (at, found.distributions.first_response or _first_response(found.distributions.total))
            for at, found in counted
            if found.distributions is not None
        ),
    ),
)


def shown_families(config: MetricsConfig, now: float) -> Iterator[Reading[ByModel]]:
    """The families that a configuration wants, at an instant in seconds."""
    for family in TRITON_FAMILIES:
        if family.name.endswith("_duration_us") and not config.counter_latencies:
            continue
        if family.kind == "histogram" and not config.histogram_latencies:
            continue
        yield family
    if config.summary_latencies:
        for phase in SUMMARIES:
            yield _summary(phase, config.summary_quantiles, now)


def _summary(phase: str, quantiles: Sequence[tuple[str, float]], now: float) -> Reading[ByModel]:
    def read(counted: ByModel) -> Iterator[tuple[tuple[str, ...], Quantiles]]:
        for at, found in counted:
            kept = found.summaries.get(phase)
            if kept is not None:
                values = kept.values([number for _, number in quantiles], now)
                texts = [text for text, _ in quantiles]
                yield (
                    at,
                    Quantiles(tuple(zip(texts, (v * 1e6 for v in values), strict=True)), kept.count, kept.total * 1e6),
                )

    return Reading(
        f"nv_inference_{phase}_summary_us",
        "summary",
        f"Summary of {_SUMMARY_HELP[phase]} duration in microseconds",
        MODEL_LABELS,
        read,
    )


_SUMMARY_HELP: Final = {
    "request": "inference request",
    "queue": "inference queuing",
    "compute_input": "compute input",
    "compute_infer": "compute inference",
    "compute_output": "inference compute output",
}


def tag_names(models: Sequence[ModelPort]) -> tuple[str, ...]:
    """The further labels (`metric_tags`) that models have."""
    return tuple(sorted({name for model in models for name in model.metric_tags}))


def with_tags(families: Sequence[Snapshot], models: Sequence[ModelPort], names: Sequence[str]) -> list[Snapshot]:
    """The families with these further labels; "" for models that do not have them."""
    tags = {(model.name, model.version): model.metric_tags for model in models if model.metric_tags}
    return [_widened(family, tuple(names), tags) for family in families] if names else list(families)


def _widened(family: Snapshot, names: tuple[str, ...], tags: Mapping[tuple[str, str], Mapping[str, str]]) -> Snapshot:
    model, version = (family.label_names.index(label) for label in MODEL_LABELS)

    def further(labels: tuple[str, ...]) -> tuple[str, ...]:
        found = tags.get((labels[model], labels[version]), {})
        return tuple(found.get(name, "") for name in names)

    samples = [((*labels, *further(labels)), value) for labels, value in family.samples]
    return replace(family, label_names=(*family.label_names, *names), samples=samples)


def load_snapshot(models: Sequence[ModelPort]) -> Snapshot:
    """How long loading took, of the models that are loaded."""
    return Snapshot(
        name="nv_model_load_duration_secs",
        kind="gauge",
        help="Model load time in seconds",
        label_names=MODEL_LABELS,
        samples=[((model.name, model.version), model.load_s) for model in models if model.load_s is not None],
    )
