"""Metrics: one owner, plain numbers on the request path, Prometheus text at scrape."""

from trilith.telemetry.families import LATENCY_BOUNDS_S, Buckets, Distribution, Kind, Number, Snapshot
from trilith.telemetry.host import HostMetrics
from trilith.telemetry.metrics import Metrics, Source
from trilith.telemetry.requests import RequestMetrics

__all__ = [
    "LATENCY_BOUNDS_S",
    "Buckets",
    "Distribution",
    "HostMetrics",
    "Kind",
    "Metrics",
    "Number",
    "RequestMetrics",
    "Snapshot",
    "Source",
]
