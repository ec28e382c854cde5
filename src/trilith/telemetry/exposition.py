"""Metrics as Prometheus text. The one file that imports prometheus-client, and only when someone scrapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from trilith.telemetry.families import Buckets, Snapshot
from trilith.telemetry.metrics import Metrics
from trilith.telemetry.quantiles import Quantiles

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_TRITONS: Final = "nv_"
CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"
"""The media type of what `render` writes."""


def render(metrics: Metrics) -> bytes:
    """All metrics in the Prometheus text format 0.0.4.

    Triton's names, and those of counters that models make, stay as they are, and their whole numbers are written as
    Triton writes them: `... 3`.
    """
    from prometheus_client import CollectorRegistry, generate_latest

    snapshots = metrics.collect()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector([each for each in snapshots if not _is_bare(each)]))
    return generate_latest(registry) + "".join(_bare_text(each) for each in snapshots if _is_bare(each)).encode()


class _Collector:
    """What prometheus-client asks at scrape."""

    def __init__(self, snapshots: Sequence[Snapshot]) -> None:
        self._snapshots = snapshots

    def collect(self) -> Iterator[Metric]:
        return map(_metric, self._snapshots)


def _metric(snapshot: Snapshot) -> Metric:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    names = snapshot.label_names
    if snapshot.kind == "histogram":
        histogram = HistogramMetricFamily(snapshot.name, snapshot.help, labels=names)
        for labels, value in snapshot.samples:
            if isinstance(value, Buckets):
                histogram.add_metric(labels, buckets=_bucket_texts(value), sum_value=value.total)
        if snapshot.name.startswith(_TRITONS):
            histogram.samples = [sample._replace(labels=_said(sample.labels)) for sample in histogram.samples]
        return histogram
    make = CounterMetricFamily if snapshot.kind == "counter" else GaugeMetricFamily
    family = make(snapshot.name, snapshot.help, labels=names)
    for labels, value in snapshot.samples:
        if not isinstance(value, Buckets | Quantiles):
            family.add_metric(labels, value)
    return family


def _bucket_texts(buckets: Buckets) -> list[tuple[str, float]]:
    bounds = [*map(str, buckets.bounds), "+Inf"]
    return [(bound, float(count)) for bound, count in zip(bounds, buckets.cumulative, strict=True)]


def _is_bare(snapshot: Snapshot) -> bool:
    """Whether it has a name of Triton's, or of a model's own; prometheus-client would give a counter another one."""
    if snapshot.kind == "counter" and not snapshot.name.endswith("_total"):
        return True
    return snapshot.kind != "histogram" and snapshot.name.startswith(_TRITONS)


def _said(labels: dict[str, str]) -> dict[str, str]:
    """The labels that a series has; an empty one is, to Prometheus, one that is not there."""
    return {name: text for name, text in labels.items() if text}


def _bare_text(snapshot: Snapshot) -> str:
    lines = [f"# HELP {snapshot.name} {_on_one_line(snapshot.help)}\n# TYPE {snapshot.name} {snapshot.kind}\n"]
    for values, value in snapshot.samples:
        given = dict(sorted(zip(snapshot.label_names, values, strict=True)))
        said = _said(given) if snapshot.name.startswith(_TRITONS) else given
        labels = ",".join(f'{name}="{_escaped(text)}"' for name, text in said.items())
        if isinstance(value, Quantiles):
            lines.extend(_summary_lines(snapshot.name, labels, value))
            continue
        lines.append(f"{snapshot.name}{{{labels}}} {value}\n" if labels else f"{snapshot.name} {value}\n")
    return "".join(lines)


def _summary_lines(name: str, labels: str, found: Quantiles) -> Iterator[str]:
    before = f"{labels}," if labels else ""
    for quantile, value in found.values:
        yield f'{name}{{{before}quantile="{_escaped(quantile)}"}} {"Nan" if value != value else value}\n'
    yield f"{name}_sum{{{labels}}} {found.total}\n"
    yield f"{name}_count{{{labels}}} {found.count}\n"


def _escaped(text: str) -> str:
    return _on_one_line(text).replace('"', r"\"")


def _on_one_line(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")
