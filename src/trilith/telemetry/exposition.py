"""Metrics as Prometheus text. The one file that imports prometheus-client, and only when someone scrapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from trilith.telemetry.families import Buckets, Snapshot
from trilith.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"
"""The media type of what `render` writes."""


def render(metrics: Metrics) -> bytes:
    """All metrics in the Prometheus text format 0.0.4."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(metrics))
    return generate_latest(registry)


class _Collector:
    """What prometheus-client asks at scrape."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        for snapshot in self._metrics.collect():
            yield _metric(snapshot)


def _metric(snapshot: Snapshot) -> Metric:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    names = snapshot.label_names
    if snapshot.kind == "histogram":
        histogram = HistogramMetricFamily(snapshot.name, snapshot.help, labels=names)
        for labels, value in snapshot.samples:
            if isinstance(value, Buckets):
                histogram.add_metric(labels, buckets=_bucket_texts(value), sum_value=value.total)
        return histogram
    make = CounterMetricFamily if snapshot.kind == "counter" else GaugeMetricFamily
    family = make(snapshot.name, snapshot.help, labels=names)
    for labels, value in snapshot.samples:
        if not isinstance(value, Buckets):
            family.add_metric(labels, value)
    return family


def _bucket_texts(buckets: Buckets) -> list[tuple[str, float]]:
    bounds = [*map(str, buckets.bounds), "+Inf"]
    return [(bound, float(count)) for bound, count in zip(bounds, buckets.cumulative, strict=True)]
