"""A comparison as JSON. Pure."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from trilith.measure.compare.results import METRICS, CompareReport, Round
from trilith.measure.results import LevelResult


def comparison_to_json(report: CompareReport) -> bytes:
    """The whole comparison, indented. Durations are in seconds; an interval's end that is not known is null."""
    raw = {
        "schema": "trilith-compare/1",
        "conditions": report.conditions,
        "concurrency": report.concurrency,
        "rate_per_s": report.rate_per_s,
        "round_s": report.round_s,
        "interrupted": report.interrupted,
        "targets": msgspec.to_builtins(report.standings),
        "comparisons": _finite(msgspec.to_builtins(report.comparisons)),
        "notes": report.notes,
        "rounds": [_round(each, report) for each in report.rounds],
    }
    return msgspec.json.format(msgspec.json.encode(raw), indent=2) + b"\n"


def _round(each: Round, report: CompareReport) -> dict[str, Any]:
    names = [standing.name for standing in report.standings]
    return {
        "order": [names[index] for index in each.order],
        **{name: _level(level) for name, level in zip(names, each.levels, strict=True)},
    }


def _level(level: LevelResult) -> dict[str, Any]:
    return {
        **{metric.key: metric.value(level) for metric in METRICS},
        "duration_s": level.duration_s,
        "answers": level.latency.count,
        "errors": level.errors,
        "received_bytes": level.received_bytes,
        "generator_cpu_share": level.generator.cpu_share,
        "generator_wait_share": level.generator.wait_share,
    }


def _finite(value: Any) -> Any:
    """JSON has no infinity."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: _finite(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_finite(inner) for inner in value]
    return value
