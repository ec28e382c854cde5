"""A service's measured points: of the levels of a benchmark, or of the JSON that `trilith bench` wrote. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from trilith.errors import InvalidConfig
from trilith.measure.capacity.service_model import MeasuredPoint

_SCHEMA: Final = "trilith-bench/"
_SUMMARY: Final = {"min_s": 0.0, "p50_s": 0.5, "p90_s": 0.9, "p99_s": 0.99, "max_s": 1.0}


class _Summary(msgspec.Struct, frozen=True):
    count: int
    mean_s: float
    min_s: float
    p50_s: float
    p90_s: float
    p99_s: float
    max_s: float


class _Generator(msgspec.Struct, frozen=True):
    cpu_share: float = 0.0


class _Open(msgspec.Struct, frozen=True):
    rate_per_s: float


class _Level(msgspec.Struct, frozen=True):
    concurrency: int
    requests_per_s: float
    latency: _Summary
    generator: _Generator
    errors: dict[str, int] = {}
    percentiles: list[tuple[float, float]] = []
    open: _Open | None = None
    server_cpu_per_request_s: float | None = None
    spoiled: bool = False


class _Document(msgspec.Struct, frozen=True):
    schema: str
    levels: list[_Level]
    url: str = ""


def points_of_json(content: bytes, name: str) -> list[MeasuredPoint]:
    """The levels of a report that `trilith bench --json` wrote.

    Args:
        content: the file.
        name: how messages call it.

    Raises:
        InvalidConfig: it is no such report.
    """
    try:
        document = msgspec.json.decode(content, type=_Document)
    except msgspec.MsgspecError as error:
        raise InvalidConfig(f"{name}: expected a report of `trilith bench URL --json FILE`: {error}") from error
    if not document.schema.startswith(_SCHEMA):
        raise InvalidConfig(f"{name}: expected a report of `trilith bench`, got one of {document.schema!r}")
    return [_point(level) for level in document.levels]


def points_of_levels(levels: Sequence[Any]) -> list[MeasuredPoint]:
    """The same of `LevelResult`s."""
    found = []
    for level in levels:
        raw: Mapping[str, Any] = msgspec.to_builtins(level)
        raw = {**raw, "spoiled": level.spoiled, "server_cpu_per_request_s": level.server_cpu_per_request_s}
        found.append(_point(msgspec.convert(raw, _Level)))
    return found


def _point(level: _Level) -> MeasuredPoint:
    latency, failed = level.latency, sum(level.errors.values())
    quantiles = {fraction: getattr(latency, name) for name, fraction in _SUMMARY.items()}
    return MeasuredPoint(
        concurrency=level.concurrency,
        rate_per_s=level.open.rate_per_s if level.open is not None else None,
        answered_per_s=level.requests_per_s,
        latency={**quantiles, **dict(level.percentiles)},
        mean_s=latency.mean_s,
        answers=latency.count,
        failed_share=failed / max(1, failed + latency.count),
        cpu_per_request_s=level.server_cpu_per_request_s,
        spoiled=level.spoiled,
    )
