"""One run of `trilith bench`: levels of load, one after the other, to a report."""

from __future__ import annotations

import asyncio
import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from trilith.errors import InvalidConfig
from trilith.measure.bench_plan import BenchPlan
from trilith.measure.conditions import read_conditions
from trilith.measure.levels import LevelPlan, closed_level
from trilith.measure.load import ClosedLoop, LoadPlan, OpenLoop
from trilith.measure.load.outcome import LoadOutcome
from trilith.measure.preflight import MADE_BODY, http_traffic, preflight
from trilith.measure.process_tree import cpu_seconds
from trilith.measure.rate_search import RateFound, RateSearch
from trilith.measure.results import BenchReport, LevelResult

__all__ = ["MADE_BODY", "BenchPlan", "LevelProgress", "preflight", "run_bench"]

LevelProgress = Callable[[LevelPlan, float, int], None]
"""Called with the level, the seconds since its start (warm-up included) and the answers so far."""

_PILOT_IN_FLIGHT: Final = 8
_PILOT_S: Final = 1.0
_HOPELESS_SHARE: Final = 0.25
_CLEARLY_BROKEN: Final = 0.5
_LOWEST_RATE_PER_S: Final = 0.1


async def run_bench(
    plan: BenchPlan,
    *,
    sample_timelines: bool,
    on_progress: LevelProgress | None = None,
    on_outcome: Callable[[int, LoadOutcome], None] | None = None,
) -> BenchReport:
    """Runs all levels. SIGINT ends the run at once; the report then has what was measured so far.

    Args:
        plan: what to measure.
        sample_timelines: whether some requests ask the server for their timeline (see `preflight`).
        on_progress: hears several times a second how far a level is.
        on_outcome: gets the concurrency and the raw outcome of each level, timelines included.

    Raises:
        ProcessLookupError: the server's process was gone before anything was measured.
    """
    run = _Run(plan, sample_timelines=sample_timelines, on_progress=on_progress, on_outcome=on_outcome)
    conditions = read_conditions()
    found: RateFound | None = None
    with _told_of_signals(run.stop):
        if plan.search:
            found = await _search(run, plan)
        else:
            for level in plan.level_plans():
                if not run.interrupted:
                    await run.level(level)
    return BenchReport(
        url=plan.url or plan.target.url,
        method=plan.method,
        bodies=plan.body_names,
        conditions=conditions,
        levels=tuple(run.results),
        interrupted=run.interrupted,
        seed=plan.seed,
        slo=plan.slo,
        search=found,
    )


class _Run:
    """The levels of one run, and what they have given so far."""

    def __init__(
        self,
        plan: BenchPlan,
        *,
        sample_timelines: bool,
        on_progress: LevelProgress | None,
        on_outcome: Callable[[int, LoadOutcome], None] | None,
    ) -> None:
        self._plan = plan
        self._on_outcome = on_outcome
        self._traffic = plan.traffic or (http_traffic(plan),)
        self._sample_timelines = sample_timelines
        self._on_progress = on_progress
        self._loop: ClosedLoop | OpenLoop | None = None
        self.results: list[LevelResult] = []
        self.interrupted = False

    def stop(self) -> None:
        """Ends the level that runs, and the run with it."""
        self.interrupted = True
        if self._loop is not None:
            self._loop.stop()

    async def level(self, level: LevelPlan, *, hopeless_share: float | None = None) -> LevelResult | None:
        """Runs one level; None when it was stopped before it had anything to tell."""
        plan, progress = self._plan, self._on_progress
        load = LoadPlan(
            traffic=self._traffic,
            concurrency=level.concurrency,
            duration_s=level.duration_s,
            warmup_s=level.warmup_s,
            timeout_s=plan.timeout_s,
            sample_timelines=self._sample_timelines,
            due=level.due(plan.seed),
            rate_per_s=level.mean_rate_per_s,
            slo_s=plan.slo.limit_s if plan.slo is not None else float("inf"),
            hopeless_share=hopeless_share,
            uniform=random.Random(plan.seed + 1).random,
        )
        loop_type = ClosedLoop if load.due is None else OpenLoop
        self._loop = loop_type(
            load,
            server_cpu_s=_cpu_reader(plan.server_pid),
            on_progress=(lambda elapsed_s, answers: progress(level, elapsed_s, answers)) if progress else None,
        )
        try:
            outcome = await self._loop.run()
        except ProcessLookupError:
            if not self.results:
                raise
            self.interrupted = True  # the server's process is gone; what was measured before is worth telling
            return None
        self._loop = None
        if self._on_outcome is not None:
            self._on_outcome(level.concurrency, outcome)
        result = LevelResult.of(
            outcome,
            level.concurrency,
            name=level.name,
            slo=plan.slo,
            rate_per_s=level.mean_rate_per_s,
            arrivals=level.arrivals,
            targets=[each.name for each in self._traffic],
        )
        if outcome.interrupted and not result.latency.count and not result.failed:
            return None
        self.results.append(result)
        return result


async def _search(run: _Run, plan: BenchPlan) -> RateFound | None:
    """The highest rate that meets the promise. A short closed loop says where to begin."""
    slo = plan.slo
    if slo is None:
        raise InvalidConfig("a search needs a promise to search by: give --slo, like --slo 80ms")
    pilot = await run.level(closed_level(_PILOT_IN_FLIGHT, min(_PILOT_S, plan.duration_s), plan.warmup_s))
    if pilot is None or run.interrupted:
        return None
    first = max(pilot.requests_per_s / 2, _LOWEST_RATE_PER_S)
    search = RateSearch(first=first, lowest=_LOWEST_RATE_PER_S, precision=plan.precision)
    while (rate := search.next_rate()) is not None and not run.interrupted:
        result = await run.level(
            plan.open_level(round(rate, 2)), hopeless_share=max(2 * (1 - slo.share), _HOPELESS_SHARE)
        )
        if result is None or result.slo is None or run.interrupted:
            break
        # What the generator could not send was not kept, however well the rest was answered.
        kept = result.slo.met and not result.fell_behind
        # A stall makes many misses at once: a broken promise is clear only where most was missed.
        clearly = result.slo.clear if kept else result.fell_behind or result.slo.good_share < _CLEARLY_BROKEN
        search.tell(met=kept, clearly=clearly)
    return search.found


def _cpu_reader(pid: int | None) -> Callable[[], float] | None:
    return None if pid is None else lambda: cpu_seconds(pid)


@contextmanager
def _told_of_signals(stop: Callable[[], None]) -> Iterator[None]:
    """While inside, SIGINT and SIGTERM stop the run instead of raising in the middle of it."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals go to the main thread, which is somebody else's
        return
    running = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        running.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            running.remove_signal_handler(number)
