"""Drives the ladder and joins what it shows: client figures, timelines, processes, the server's own counters. Doer."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Callable, Iterator

import msgspec
import uvloop

from trilith.measure.bench import BenchPlan, preflight, run_bench
from trilith.measure.breakdown import Breakdown
from trilith.measure.diagnose.evidence import Evidence, Level, Memory, Noise, Stage
from trilith.measure.diagnose.ladder import level_seconds, next_load
from trilith.measure.diagnose.memory import cache_bytes, copy_bytes_per_s, touched_bytes
from trilith.measure.diagnose.noise import joined, read_noise
from trilith.measure.diagnose.server_view import read_snapshot, roles_of, server_at, stations_between, watched
from trilith.measure.diagnose.threads import can_read, interpreter_data, read_threads, use_between, waits_for_lock
from trilith.measure.load.outcome import LoadOutcome
from trilith.measure.load.recorder import TimelineSample
from trilith.measure.process_tree import process_tree
from trilith.measure.results import LevelResult

_LOOK_S = 0.05
_FIRST_LEVEL_S = 0.3


@dataclasses.dataclass(slots=True, kw_only=True)
class Collected:
    """The evidence, and the timelines of each level, which are too many for a report."""

    evidence: Evidence
    samples: dict[int, list[TimelineSample]]


class Watch:
    """Looks at the server's processes while a level runs, in a thread: who waits for the interpreter's lock?"""

    def __init__(self, pids: tuple[int, ...]) -> None:
        """Only assigns.

        Args:
            pids: processes to look at.
        """
        self._pids = pids
        self._seen: dict[int, list[int]] = {pid: [] for pid in pids}
        self._stop = threading.Event()

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """Looks, within."""
        thread = threading.Thread(target=self._look, name="diagnose-watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def lock_waits(self) -> dict[int, float]:
        """For each process that could be read: threads that waited, on average."""
        return {pid: sum(seen) / len(seen) for pid, seen in self._seen.items() if seen}

    def _look(self) -> None:
        places = {pid: interpreter_data(pid) for pid in self._pids}
        while not self._stop.wait(_LOOK_S):
            for pid, data in places.items():
                waiting = waits_for_lock(pid, data)
                if waiting is not None:
                    self._seen[pid].append(waiting)


Progress = Callable[[str], None]
"""Hears what is done now, in a few words."""


def collect(
    plan: BenchPlan, *, largest: int, tells_time: bool | None = None, on_progress: Progress | None = None
) -> Collected:
    """Measures. SIGINT ends the ladder; what was measured until then is there.

    Args:
        plan: the endpoint and what to send. `concurrency` is not used, `duration_s` is that of each level at least,
            `server_pid` that of a server that is not Trilith's.
        largest: the largest load.
        tells_time: whether answers tell timelines, of a plan whose traffic has been tried; None: one request is sent.
        on_progress: hears what is done.

    Raises:
        SetupError: the target does not answer, or says that the request is wrong.
        KeyboardInterrupt: it was stopped before anything was measured.
        ProcessLookupError: the server's process is gone.
    """
    tell = on_progress or (lambda _: None)
    tell("looking at the machine")
    noise = read_noise()
    started = time.perf_counter()
    if tells_time is None:
        tells_time = preflight(plan)
    first_s = time.perf_counter() - started
    report = server_at(plan.target)
    pid = plan.server_pid if plan.server_pid is not None else report.record.pid if report is not None else None
    plan = dataclasses.replace(plan, server_pid=pid)
    run = _Ladder(plan, tells_time, noise, first_s)
    with contextlib.suppress(KeyboardInterrupt):
        run.climb(largest, tell)
    if not run.levels:
        raise KeyboardInterrupt
    return Collected(
        evidence=Evidence(
            url=plan.url or plan.target.url,
            cores=len(os.sched_getaffinity(0)),
            levels=tuple(run.levels),
            why_ended=run.why_ended,
            noise=joined(run.looks),
            first_s=first_s,
            content_type=plan.bodies[0].content_type if plan.bodies else "grpc or tensors" if plan.traffic else "",
            tells_time=tells_time,
            memory=run.memory,
            unread=tuple(run.unread()),
            interrupted=run.interrupted,
        ),
        samples=run.samples,
    )


class _Ladder:
    """The levels so far."""

    def __init__(self, plan: BenchPlan, tells_time: bool, noise: Noise, first_s: float) -> None:
        self.first_s = first_s
        self.plan = plan
        self.tells_time = tells_time
        self.looks = [noise]
        self.levels: list[Level] = []
        self.samples: dict[int, list[TimelineSample]] = {}
        self.memory: Memory | None = None
        self.why_ended = ""
        self.interrupted = False
        self._readable = plan.server_pid is not None and can_read(plan.server_pid)
        self._has_view = read_snapshot(plan.target) is not None
        self._lock_readable = False

    def climb(self, largest: int, tell: Progress) -> None:
        """Measures level after level."""
        latency_s = self._first_look(tell)
        while True:
            load, self.why_ended = next_load(
                [level.load for level in self.levels],
                [level.requests_per_s for level in self.levels],
                [level.latency.p99_s for level in self.levels],
                largest=largest,
            )
            if load is None:
                break
            tell(f"{load} in flight")
            duration_s = level_seconds(self.plan.duration_s, latency_s, load)
            level = self._level(load, duration_s, self.plan.warmup_s)
            self.levels.append(level)
            latency_s = level.latency.mean_s or latency_s
            self.looks.append(read_noise())
            if self.interrupted:
                self.why_ended = "stopped by hand"
                return
        if self.levels:
            tell("looking at the memory")
            self._look_at_memory()

    def unread(self) -> Iterator[str]:
        """What could not be read, and why."""
        if not self.tells_time:
            yield "timelines: these answers do not say where their time went; only Trilith's do"
        if self.plan.server_pid is None:
            yield "processes: no Trilith server of this user listens there; --pid names one of another kind"
        elif not self._readable:
            yield "processors: this system does not tell how long threads ran and waited (/proc/PID/schedstat)"
        elif not self._lock_readable:
            yield "waits for the interpreter's lock: the system does not let this user see them"
        if self._readable and not self._has_view:
            yield self._why_no_view()
        yield "GPU: no counter of one was read"

    def _why_no_view(self) -> str:
        if server_at(self.plan.target) is None:
            return "replicas and batches: only a Trilith server tells of them"
        return (
            "replicas, batches and which process is what: the server tells by its metrics port, which is off"
            " (--metrics-port)"
        )

    def _first_look(self, tell: Progress) -> float:
        tell("the first requests")
        return self._level(1, _FIRST_LEVEL_S, 0.0).latency.mean_s or self.first_s

    def _level(self, load: int, duration_s: float, warmup_s: float) -> Level:
        plan = dataclasses.replace(self.plan, concurrency=(load,), duration_s=duration_s, warmup_s=warmup_s)
        before = read_snapshot(plan.target) if self._has_view else None
        pid = plan.server_pid
        watch = Watch(watched(before, pid))
        threads_before = read_threads((pid,)) if self._readable and pid is not None else {}
        outcomes: list[LoadOutcome] = []
        with watch.looking():
            report = uvloop.run(
                run_bench(
                    plan, sample_timelines=self.tells_time, on_outcome=lambda _, outcome: outcomes.append(outcome)
                )
            )
        threads_after = read_threads((pid,)) if self._readable and pid is not None else {}
        after = read_snapshot(plan.target) if before is not None else None
        self.interrupted = report.interrupted
        self.samples[load] = list(outcomes[0].recorder.samples) if outcomes else []
        lock_waits = watch.lock_waits()
        self._lock_readable = self._lock_readable or bool(lock_waits)
        if not report.levels:
            raise KeyboardInterrupt
        loaded_s = warmup_s + report.levels[0].duration_s  # what came before and after it was no load
        roles = roles_of(after, pid)
        level = _of_result(report.levels[0])
        return msgspec.structs.replace(
            level,
            processes=use_between(threads_before, threads_after, loaded_s, roles, lock_waits) if threads_after else (),
            stations=stations_between(before, after, loaded_s) if before is not None and after is not None else (),
        )

    def _look_at_memory(self) -> None:
        """One request after the other once more: which memory does one pass over?"""
        if self.plan.server_pid is None:
            return
        pids = tuple(sample.pid for sample in process_tree(self.plan.server_pid))
        alone_s = self.levels[0].latency.mean_s
        look_s = max(0.25, 3 * alone_s)  # of several requests: on a busy machine one may stand still for a while
        plan = dataclasses.replace(self.plan, concurrency=(1,), duration_s=2 * look_s + 0.3, warmup_s=0.0)
        found: list[int | None] = []

        def look() -> None:
            time.sleep(0.2)
            found.extend(touched_bytes(pids, look_s) for _ in range(2))

        thread = threading.Thread(target=look, name="diagnose-memory", daemon=True)
        thread.start()
        uvloop.run(run_bench(plan, sample_timelines=False))
        thread.join()
        seen = [each for each in found if each is not None]
        if seen:
            self.memory = Memory(
                touched_bytes=max(seen), copy_bytes_per_s=copy_bytes_per_s(), cache_bytes=cache_bytes()
            )


def _of_result(result: LevelResult) -> Level:
    requests = max(1, result.latency.count + result.failed)
    return Level(
        load=result.concurrency,
        requests_per_s=result.requests_per_s,
        latency=result.latency,
        failed=result.failed,
        errors=dict(result.errors),
        generator_cpu=result.generator.cpu_share,
        generator_wait=result.generator.wait_share,
        server_cpu_s=result.server_cpu_per_request_s,
        sent_bytes=result.sent_bytes / requests,
        received_bytes=result.received_bytes / requests,
        stages=_stages(result.breakdown),
    )


def _stages(breakdown: Breakdown | None) -> tuple[Stage, ...]:
    if breakdown is None:
        return ()
    return tuple(
        Stage(
            floor=span.key.floor,
            name=span.key.name,
            earlier=span.key.earlier,
            later=span.key.later,
            waiting=span.key.waiting,
            share=span.share,
            mean_s=span.attributed.mean_s,
            calls=span.calls_per_request,
            per_call_s=span.per_call.mean_s,
        )
        for span in breakdown.spans
    )
