"""A report as JSON (everything) and as CSV (one line a level). Pure."""

from __future__ import annotations

import csv
import io

import msgspec

from trilith.measure.results import BenchReport, LevelResult

_COLUMNS = (
    "url",
    "name",
    "concurrency",
    "rate_per_s",
    "duration_s",
    "requests",
    "failed",
    "requests_per_s",
    "mean_ms",
    "p50_ms",
    "p90_ms",
    "p95_ms",
    "p99_ms",
    "p999_ms",
    "max_ms",
    "requests_per_s_low",
    "requests_per_s_high",
    "stable",
    "good_share",
    "goodput_per_s",
    "lag_p99_ms",
    "sent_bytes",
    "received_bytes",
    "generator_cpu_share",
    "server_cpu_us_per_request",
    "spoiled",
)


def to_json(report: BenchReport) -> bytes:
    """The whole report, indented. Durations are in seconds."""
    raw = msgspec.to_builtins(report)
    raw["schema"] = "trilith-bench/1"
    for level, entry in zip(report.levels, raw["levels"], strict=True):
        entry["spoiled"] = level.spoiled
        entry["server_cpu_per_request_s"] = level.server_cpu_per_request_s
        stable = level.sureness.stability
        entry["stable"] = None if stable is None else stable.stable
        if level.slo is not None:
            entry["slo"] |= {"good_share": level.slo.good_share, "met": level.slo.met}
    return msgspec.json.format(msgspec.json.encode(raw), indent=2) + b"\n"


def to_csv(report: BenchReport) -> str:
    """One line a level, in the order in which they ran, after a line of column names."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for level in report.levels:
        writer.writerow({"url": report.url, **_row(level)})
    return text.getvalue()


def _row(level: LevelResult) -> dict[str, str | int | float]:
    latency, cpu_s = level.latency, level.server_cpu_per_request_s
    at, sureness = dict(level.percentiles), level.sureness
    throughput, stable = sureness.requests_per_s, sureness.stability
    return {
        "name": level.name,
        "rate_per_s": "" if level.open is None else round(level.open.rate_per_s, 3),
        "concurrency": level.concurrency,
        "duration_s": round(level.duration_s, 3),
        "requests": latency.count,
        "failed": level.failed,
        "requests_per_s": round(level.requests_per_s, 1),
        "mean_ms": round(latency.mean_s * 1e3, 4),
        "p50_ms": round(latency.p50_s * 1e3, 4),
        "p90_ms": round(latency.p90_s * 1e3, 4),
        "p95_ms": round(at.get(0.95, 0.0) * 1e3, 4),
        "p999_ms": round(at.get(0.999, 0.0) * 1e3, 4),
        "requests_per_s_low": "" if throughput is None else round(throughput.low, 1),
        "requests_per_s_high": "" if throughput is None else round(throughput.high, 1),
        "stable": "" if stable is None else int(stable.stable),
        "good_share": "" if level.slo is None else round(level.slo.good_share, 5),
        "goodput_per_s": "" if level.slo is None else round(level.slo.goodput_per_s, 1),
        "lag_p99_ms": "" if level.open is None else round(level.open.lag.p99_s * 1e3, 4),
        "p99_ms": round(latency.p99_s * 1e3, 4),
        "max_ms": round(latency.max_s * 1e3, 4),
        "sent_bytes": level.sent_bytes,
        "received_bytes": level.received_bytes,
        "generator_cpu_share": round(level.generator.cpu_share, 3),
        "server_cpu_us_per_request": "" if cpu_s is None else round(cpu_s * 1e6, 2),
        "spoiled": int(level.spoiled),
    }
