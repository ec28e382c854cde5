"""Metrics: one owner, plain numbers on the request path, Prometheus text at scrape. And how timelines reach clients."""

from trilith.telemetry.data_log import DataLog
from trilith.telemetry.deltas import FamilyDelta
from trilith.telemetry.families import BATCH_BOUNDS, LATENCY_BOUNDS_S, Buckets, Distribution, Kind, Number, Snapshot
from trilith.telemetry.host import HostMetrics
from trilith.telemetry.instruments import Counter, Gauge, Histogram, Instruments, instruments
from trilith.telemetry.metrics import Metrics, Source
from trilith.telemetry.programs import ProgramMetrics
from trilith.telemetry.quantiles import Quantiles, SlidingQuantiles
from trilith.telemetry.readings import Reading, snapshots
from trilith.telemetry.requests import RequestMetrics
from trilith.telemetry.spans import TRACEPARENT, RequestTracer, Sampler, Span
from trilith.telemetry.timelines import TIMELINES_PATH, TimelineShelf

__all__ = [
    "LATENCY_BOUNDS_S",
    "BATCH_BOUNDS",
    "Buckets",
    "Counter",
    "DataLog",
    "Distribution",
    "FamilyDelta",
    "Gauge",
    "Histogram",
    "HostMetrics",
    "Instruments",
    "Kind",
    "Metrics",
    "Number",
    "ProgramMetrics",
    "Quantiles",
    "Reading",
    "RequestMetrics",
    "RequestTracer",
    "Sampler",
    "SlidingQuantiles",
    "Snapshot",
    "Source",
    "Span",
    "TIMELINES_PATH",
    "TRACEPARENT",
    "TimelineShelf",
    "instruments",
    "snapshots",
]
