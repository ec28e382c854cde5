"""One run of `trilith bench`: levels of load, one after the other, to a report."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from trilith.errors import SetupError
from trilith.measure.conditions import read_conditions
from trilith.measure.load import Body, ClosedLoop, LoadPlan, Target, prepare
from trilith.measure.load.outcome import LoadOutcome
from trilith.measure.load.probe import probe
from trilith.measure.process_tree import cpu_seconds
from trilith.measure.results import BenchReport, LevelResult

MADE_BODY: Final = "by /openapi.json"
"""What the report calls a body that was made by the server's description."""

_FAILED: Final = (500, 501)  # those that say that it failed; 502 to 504 say that it may go better soon
_TRIES: Final = 3

LevelProgress = Callable[[int, float, int], None]
"""Called with the concurrency, the seconds since the level's start (warm-up included) and the answers so far."""


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
    bodies: Sequence[Body | None] = plan.bodies or (None,)
    requests = [prepare(plan.target, plan.method, body, plan.headers) for body in bodies]
    conditions = read_conditions()
    levels: list[LevelResult] = []
    interrupted = False
    for concurrency in plan.concurrency:
        loop = ClosedLoop(
            LoadPlan(
                target=plan.target,
                requests=requests,
                concurrency=concurrency,
                duration_s=plan.duration_s,
                warmup_s=plan.warmup_s,
                timeout_s=plan.timeout_s,
                sample_timelines=sample_timelines,
            ),
            server_cpu_s=_cpu_reader(plan.server_pid),
            on_progress=_for_level(on_progress, concurrency),
        )
        with _stopped_by_interrupt(loop):
            outcome = await loop.run()
        if on_outcome is not None:
            on_outcome(concurrency, outcome)
        level = LevelResult.of(outcome, concurrency)
        interrupted = outcome.interrupted
        if not interrupted or level.latency.count or level.failed:
            levels.append(level)
        if interrupted:
            break
    return BenchReport(
        url=plan.target.url,
        method=plan.method,
        bodies=plan.body_names,
        conditions=conditions,
        levels=tuple(levels),
        interrupted=interrupted,
    )


def _cpu_reader(pid: int | None) -> Callable[[], float] | None:
    return None if pid is None else lambda: cpu_seconds(pid)


def _for_level(on_progress: LevelProgress | None, concurrency: int) -> Callable[[float, int], None] | None:
    if on_progress is None:
        return None
    return lambda elapsed_s, answers: on_progress(concurrency, elapsed_s, answers)


@contextmanager
def _stopped_by_interrupt(loop: ClosedLoop) -> Iterator[None]:
    """While inside, SIGINT stops the level instead of raising in the middle of it."""
    running = asyncio.get_running_loop()
    running.add_signal_handler(signal.SIGINT, loop.stop)
    try:
        yield
    finally:
        running.remove_signal_handler(signal.SIGINT)
