"""Measures a service for a capacity plan, and replays a planned rate against it.

Rule 1: loads are those of `trilith bench`: a closed ladder from one request in flight until more give no more, then
        open loops at shares of what that gave.
Rule 2: an interrupt leaves what was measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from trilith.measure.bench import BenchPlan, run_bench
from trilith.measure.results import LevelResult

_STEPS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_NO_GAIN: Final = 1.05
_SHARES: Final = (0.5, 0.8)

OnLevel = Callable[[str], None]
"""Called with words for each level that begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Levels, and whether the measurement was stopped before its end."""

    levels: tuple[LevelResult, ...]
    interrupted: bool


async def measure_service(plan: BenchPlan, on_level: OnLevel | None = None) -> Measured:
    """Climbs until the throughput no longer grows, then sends requests at random instants.

    Args:
        plan: target, body and times; its levels are chosen here.
        on_level: hears of each level.

    Raises:
        ProcessLookupError: the server's process is gone.
    """
    levels: list[LevelResult] = []
    best, idle_steps = 0.0, 0
    for concurrency in _STEPS:
        if on_level is not None:
            on_level(f"{concurrency} in flight")
        report = await run_bench(replace(plan, concurrency=(concurrency,)), sample_timelines=False)
        levels.extend(report.levels)
        if report.interrupted:
            return Measured(levels=tuple(levels), interrupted=True)
        rate_per_s = report.levels[-1].requests_per_s if report.levels else 0.0
        idle_steps = 0 if rate_per_s > _NO_GAIN * best else idle_steps + 1
        best = max(best, rate_per_s)
        if idle_steps == 2:
            break
    for share in _SHARES if best else ():
        if on_level is not None:
            on_level(f"{share * best:,.0f} a second")
        report = await run_bench(replace(plan, rates_per_s=(share * best,)), sample_timelines=False)
        levels.extend(report.levels)
        if report.interrupted:
            return Measured(levels=tuple(levels), interrupted=True)
    return Measured(levels=tuple(levels), interrupted=False)


async def replay_rate(plan: BenchPlan, rate_per_s: float) -> LevelResult | None:
    """The running service under requests that come at random, so many a second; None when it was interrupted.

    Raises:
        ProcessLookupError: the server's process is gone.
    """
    report = await run_bench(replace(plan, rates_per_s=(rate_per_s,)), sample_timelines=False)
    return None if report.interrupted or not report.levels else report.levels[0]
