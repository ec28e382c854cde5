"""A report as JSON (everything) and as CSV (one line a level). Pure."""

from __future__ import annotations

import csv
import io

import msgspec

from trilith.measure.results import BenchReport, LevelResult

_COLUMNS = (
    "url",
    "concurrency",
    "duration_s",
    "requests",
    "failed",
    "requests_per_s",
    "mean_ms",
    "p50_ms",
    "p90_ms",
    "p99_ms",
    "max_ms",
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
    return {
        "concurrency": level.concurrency,
        "duration_s": round(level.duration_s, 3),
        "requests": latency.count,
        "failed": level.failed,
        "requests_per_s": round(level.requests_per_s, 1),
        "mean_ms": round(latency.mean_s * 1e3, 4),
        "p50_ms": round(latency.p50_s * 1e3, 4),
        "p90_ms": round(latency.p90_s * 1e3, 4),
        "p99_ms": round(latency.p99_s * 1e3, 4),
        "max_ms": round(latency.max_s * 1e3, 4),
        "sent_bytes": level.sent_bytes,
        "received_bytes": level.received_bytes,
        "generator_cpu_share": round(level.generator.cpu_share, 3),
        "server_cpu_us_per_request": "" if cpu_s is None else round(cpu_s * 1e6, 2),
        "spoiled": int(level.spoiled),
    }
