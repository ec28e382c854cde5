"""One run of `trilith bench`: levels of load, one after the other, to a report."""

from __future__ import annotations

import asyncio
import random
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from trilith.errors import InvalidConfig, SetupError
from trilith.measure.conditions import read_conditions
from trilith.measure.levels import Arrivals, LevelPlan, closed_level, open_level
from trilith.measure.load import Body, ClosedLoop, LoadPlan, OpenLoop, Target, Traffic, prepare
from trilith.measure.load.http_station import HttpStation
from trilith.measure.load.outcome import LoadOutcome
from trilith.measure.load.probe import probe
from trilith.measure.process_tree import cpu_seconds
from trilith.measure.rate_search import RateFound, RateSearch
from trilith.measure.results import BenchReport, LevelResult
from trilith.measure.slo import Slo

MADE_BODY: Final = "by /openapi.json"
"""What the report calls a body that was made by the server's description."""

_FAILED: Final = (500, 501)  # those that say that it failed; 502 to 504 say that it may go better soon
_TRIES: Final = 3

LevelProgress = Callable[[LevelPlan, float, int], None]
"""Called with the level, the seconds since its start (warm-up included) and the answers so far."""

_PILOT_IN_FLIGHT: Final = 8
_PILOT_S: Final = 1.0
_HOPELESS_SHARE: Final = 0.25
_CLEARLY_BROKEN: Final = 0.5
_LOWEST_RATE_PER_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchPlan:
    """What to measure.

    Attributes:
        target: the endpoint.
        method: HTTP method.
        bodies: sent in turn; empty for requests without a body.
        headers: of every request.
        concurrency: the levels, in order.
        duration_s: seconds measured at each level.
        warmup_s: seconds of load before each level that are not measured.
        timeout_s: seconds after which a request counts as failed.
        server_pid: the process whose tree's CPU time is read, or None.
        body_names: what the report calls the bodies.
        rates_per_s: instead of `concurrency`: open loops of so many requests a second.
        arrivals: of these: `poisson` or `constant`.
        in_flight: of open loops: the most requests in flight, and so many connections over HTTP/1.1.
        recording: instead of rates: instants in seconds to replay.
        speed: of that; 2.0 is twice as fast.
        levels: instead of all these: any levels.
        traffic: instead of target, method, bodies and headers: targets of any kind, one or several.
        slo: the promise to judge by, or None.
        search: whether to look for the highest rate that meets `slo`, instead of running levels.
        precision: of that search: the share by which the rate may be too low.
        seed: of the arrivals and of the choice among targets.
        items: content type of answers that are streams of items; "" for answers that are one.
    """

    target: Target
    method: str
    bodies: tuple[Body, ...]
    headers: tuple[tuple[str, str], ...] = ()
    concurrency: tuple[int, ...] = (1, 8, 32)
    duration_s: float = 5.0
    warmup_s: float = 1.0
    timeout_s: float = 30.0
    server_pid: int | None = None
    body_names: tuple[str, ...] = ()
    rates_per_s: tuple[float, ...] = ()
    arrivals: Arrivals = "poisson"
    in_flight: int = 64
    recording: tuple[float, ...] = ()
    speed: float = 1.0
    levels: tuple[LevelPlan, ...] = ()
    traffic: tuple[Traffic, ...] = ()
    slo: Slo | None = None
    search: bool = False
    precision: float = 0.05
    seed: int = 0
    items: str = ""

    def level_plans(self) -> tuple[LevelPlan, ...]:
        """The levels, in order; those of a search are not known before."""
        if self.levels or self.search:
            return self.levels
        duration_s, warmup_s = self.duration_s, self.warmup_s
        if self.recording:
            replayed = LevelPlan(
                name="replay", concurrency=self.in_flight, duration_s=duration_s, warmup_s=warmup_s,
                arrivals="replay", recording=self.recording, speed=self.speed,
            )  # fmt: skip
            return (replayed,)
        if self.rates_per_s:
            return tuple(self.open_level(rate) for rate in self.rates_per_s)
        return tuple(closed_level(concurrency, duration_s, warmup_s) for concurrency in self.concurrency)

    def open_level(self, rate_per_s: float) -> LevelPlan:
        """An open loop of so many requests a second, in other respects like the plan's."""
        return open_level(rate_per_s, self.duration_s, self.warmup_s, arrivals=self.arrivals, in_flight=self.in_flight)


def preflight(plan: BenchPlan) -> bool:
    """Sends one request, a few when it fails. Returns whether the server tells its timeline.

    Raises:
        SetupError: there is no answer, or the answer says that the request itself is wrong, or that it always fails.
    """
    body = plan.bodies[0] if plan.bodies else None
    for _ in range(_TRIES):
        answer = probe(plan.target, plan.method, body, plan.headers, timeout_s=plan.timeout_s)
        if answer.status not in _FAILED:
            break
    else:
        made = plan.body_names == (MADE_BODY,)
        raise SetupError(
            f"{plan.method} {plan.target.url} is answered with status {answer.status}, {_TRIES} times in a row, and"
            f" how quickly something fails is not worth measuring: {answer.excerpt or 'no body'}. The server's log says"
            f" why{'; the body was made by what /openapi.json says, so give a real one by --data' if made else ''}"
        )
    if 400 <= answer.status < 500 and answer.status not in (408, 429):
        said = (answer.excerpt or "no body").rstrip(".")
        raise SetupError(
            f"{plan.method} {plan.target.url} is answered with status {answer.status}, and more of the same would be"
            f" too: {said}. Check path, --method, --data, --content-type and --header."
        )
    return answer.has_timeline


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
        ProcessLookupError: the server's process is gone.
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
        url=plan.target.url,
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
        self._traffic = plan.traffic or (_traffic(plan),)
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
        outcome = await self._loop.run()
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
        search.tell(met=result.slo.met, clearly=result.slo.good_share < _CLEARLY_BROKEN)
    return search.found


def _traffic(plan: BenchPlan) -> Traffic:
    bodies: Sequence[Body | None] = plan.bodies or (None,)
    return Traffic(
        make_station=lambda number: HttpStation(number, plan.target, timeout_s=plan.timeout_s, items=plan.items),
        requests=[prepare(plan.target, plan.method, body, plan.headers) for body in bodies],
        name=plan.target.url,
        timelines_at=plan.target,
    )


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
