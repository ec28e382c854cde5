"""What a closed and an open loop share: warm-up, measurement, timeouts, counting.

Rule 1: the load of one level is `LoadPlan` in, `LoadOutcome` out. Between them nothing is printed or decided.
Rule 2: what is counted is measured from the instant at which a request was due. When that is, and what becomes of a
        lane that falls free, is all in which the two loops differ.
Rule 3: requests that were due in the warm-up count for nothing, save that their answers are traffic like any other.
"""

from __future__ import annotations

import asyncio
import gc
import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from trilith.measure.load.cpu_window import CpuWindow
from trilith.measure.load.generator_meter import GeneratorMeter
from trilith.measure.load.kept_timelines import fetch
from trilith.measure.load.lanes import MALFORMED, TIMEOUT, Lane, Request, Waiting
from trilith.measure.load.outcome import GeneratorLoad, LoadOutcome
from trilith.measure.load.plan import LoadPlan, Picker, Traffic, http_traffic
from trilith.measure.load.recorder import KeptTimeline, Recorder, TargetCounts, slice_length_s

_SAMPLE_EVERY_S: Final = 0.01  # at most 100 timelines a second: they cost the server work
_SAMPLE_BURST_S: Final = 0.1  # what was not used of that may be caught up on: slow requests often begin together
_TICK_S: Final = 0.05
_SETTLE_S: Final = 0.01


class Drive(ABC):
    """Runs one `LoadPlan` once, on the running event loop."""

    def __init__(
        self,
        plan: LoadPlan,
        *,
        server_cpu_s: Callable[[], float] | None = None,
        on_progress: Callable[[float, int], None] | None = None,
    ) -> None:
        """Only assigns.

        Args:
            plan: what to do.
            server_cpu_s: reads the server's CPU seconds so far.
            on_progress: called often with the seconds since the start, warm-up included, and the answers measured.
        """
        self._plan = plan
        self._server_cpu_s = server_cpu_s
        self._on_progress = on_progress
        self._traffic: Sequence[Traffic] = plan.traffic or (http_traffic(plan),)
        self._stations = [each.make_station(number) for number, each in enumerate(self._traffic)]
        self._several = len(self._stations) > 1
        self._picker = Picker(self._traffic, plan.uniform)
        self._idle: list[list[Lane]] = [[] for _ in self._stations]
        self._queues: list[deque[Waiting]] = [deque() for _ in self._stations]
        self._next_sample_at = 0.0
        self._kept: list[list[KeptTimeline]] = [[] for _ in self._stations]
        self._running = False
        self._recorder = Recorder.of_warm_up(self._no_counts())
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Ends the level now; `run` returns what was measured so far."""
        self._stop.set()

    async def run(self) -> LoadOutcome:
        """Runs the level.

        Raises:
            ProcessLookupError: `server_cpu_s` finds its process no more.
        """
        plan = self._plan
        self._running = True
        gc.collect()  # its long pause comes before any request; then it looks only at what the level allocates
        gc.freeze()
        try:
            began_at = time.perf_counter()
            for station in self._stations:
                station.open(self, plan.concurrency)
            await self._begin()
            await self._pass_time(time.perf_counter(), plan.warmup_s, began_at)
            server_cpu = CpuWindow(self._server_cpu_s) if self._server_cpu_s is not None else None
            await asyncio.sleep(_SETTLE_S)  # reading it stalled the loop: what was in flight is answered before
            generator, elapsed_s = await self._measure(began_at)
            server_cpu_s = server_cpu.used_s(elapsed_s) if server_cpu is not None else None
            interrupted = self._stop.is_set()
            await self._drain()
            self._running = False
        finally:
            gc.unfreeze()
            self._end()
            await self._close()
        for each, kept in zip(self._traffic, self._kept, strict=True):
            if each.timelines_at is not None and kept:
                for sample in await asyncio.to_thread(fetch, each.timelines_at, kept):
                    self._recorder.sample(sample.header, sample.latency_s)
        return LoadOutcome(
            recorder=self._recorder,
            elapsed_s=elapsed_s,
            generator=generator,
            server_cpu_s=server_cpu_s,
            interrupted=interrupted,
        )

    async def _measure(self, began_at: float) -> tuple[GeneratorLoad, float]:
        plan = self._plan
        read_before, opened_before = self._totals()
        meter = GeneratorMeter()
        measured_from = time.perf_counter()
        recorder = self._recorder = Recorder(
            started_at=measured_from,
            slice_s=slice_length_s(plan.duration_s),
            ended_at=math.inf if plan.due is None else measured_from + plan.duration_s,
            due_until=measured_from + plan.duration_s,
            slo_s=plan.slo_s,
            targets=self._no_counts(),
        )
        await self._pass_time(measured_from, plan.duration_s, began_at)
        recorder.ended_at = min(recorder.ended_at, time.perf_counter())
        elapsed_s = recorder.ended_at - measured_from
        read_bytes, opened = self._totals()
        recorder.received_bytes, recorder.connections = read_bytes - read_before, opened - opened_before
        return meter.stop(spun=self._spins), elapsed_s

    def _no_counts(self) -> list[TargetCounts]:
        return [TargetCounts() for _ in self._stations] if self._several else []

    # ---- what the two loops do in their own way ----

    _spins = False  # whether the loop turns without sleep, so that its CPU time says nothing

    async def _begin(self) -> None:  # noqa: B027  most loops have nothing to do
        """Before the warm-up."""

    async def _drain(self) -> None:  # noqa: B027
        """After the measurement, while the lanes still live."""

    def _end(self) -> None:  # noqa: B027
        """Whatever happened: nothing is sent any more, and no timer runs. May be called twice."""

    @abstractmethod
    def _release(self, lane: Lane, now: float) -> None:
        """A lane fell free."""

    # ---- what lanes and stations tell ----

    def opened(self, lane: Lane, asked_at: float) -> None:
        """A lane is open."""
        if self._running:
            self._release(lane, asked_at)

    def ended(self, lane: Lane, error: str) -> None:
        """Counts an answer."""
        now = time.perf_counter()
        self._count(lane, error, now)
        if not self._running:
            return
        if lane.reusable:
            self._release(lane, now)
        else:
            self._stations[lane.station].drop(lane)
            self._without_lane(lane, now)

    def items(self, lane: Lane, number: int) -> None:
        """Counts items of an answer of several. Those that arrive together came without time between them."""
        now = time.perf_counter()
        recorder, last_at = self._recorder, lane.last_item_at
        stream = recorder.stream
        lane.last_item_at = now
        if now < recorder.ended_at:
            stream.items += number
        if last_at:
            if last_at >= recorder.started_at:
                stream.between.record(now - last_at)
        elif self._plan.due is None or recorder.was_due(lane.due_at):
            stream.first_item.record(now - lane.due_at)
        for _ in range(number - 1):
            stream.between.record(0.0)

    def failed(self, lane: Lane, kind: str) -> None:
        """Counts a failure; an idle lane that was closed is none."""
        if not self._running:
            return
        now = time.perf_counter()
        if lane.waiting:
            self._count(lane, kind, now)
        elif kind == MALFORMED:
            self._recorder.error(kind, now)
        if not lane.waiting and lane in self._idle[lane.station]:
            self._idle[lane.station].remove(lane)
        else:
            self._without_lane(lane, now)

    def unreachable(self, station: int, slot: int, kind: str) -> None:
        """Where no lane is open, what waits for one fails."""
        now = time.perf_counter()
        queue = self._queues[station]
        if not self._several and self._plan.due is None:
            self._recorder.error(kind, now)
        elif not self._stations[station].open_lanes:
            for waiting in tuple(queue):
                self._error(station, waiting.due_at, kind, now)
            queue.clear()

    def _without_lane(self, lane: Lane, now: float) -> None:  # noqa: B027
        """A request ended, and its lane is of no more use."""

    # ---- sending ----

    def _send(self, lane: Lane, request: Request, due_at: float, now: float) -> None:
        self._recorder.sent_bytes += request.size_bytes
        lane.due_at = due_at
        lane.sent_at = now
        if self._plan.sample_timelines and now >= self._next_sample_at:
            self._next_sample_at = max(self._next_sample_at, now - _SAMPLE_BURST_S) + _SAMPLE_EVERY_S
            lane.send(request, sampled=True)
        else:
            lane.send(request, sampled=False)

    # ---- counting ----

    def _count(self, lane: Lane, error: str, now: float) -> None:
        """One request has ended."""
        due_at = lane.due_at
        if error:
            self._error(lane.station, due_at, error, now)
            return
        recorder = self._recorder
        latency_s = now - due_at
        if self._plan.due is None or recorder.was_due(due_at):
            recorder.success(latency_s, now)
            if self._several:
                recorder.targets[lane.station].latencies.record(latency_s)
            if lane.sampled:
                self._sample(lane, latency_s)
        elif now < recorder.ended_at:
            recorder.slice_at(now).latencies.record(latency_s)

    def _error(self, station: int, due_at: float, kind: str, now: float) -> None:
        recorder = self._recorder
        if self._plan.due is None or recorder.was_due(due_at):
            recorder.error(kind, now)
            if self._several:
                recorder.targets[station].errors[kind] += 1

    def _sample(self, lane: Lane, latency_s: float) -> None:
        if lane.timeline is not None:
            self._recorder.sample(lane.timeline, latency_s)
            lane.timeline = None
        elif lane.timeline_place is not None:
            self._kept[lane.station].append(KeptTimeline(lane.timeline_place.decode("latin-1"), latency_s))
            lane.timeline_place = None

    # ---- time ----

    async def _pass_time(self, start: float, length_s: float, began_at: float) -> None:
        """Waits until `length_s` after `start`, or for `stop`; enforces timeouts and tells the progress."""
        while not self._stop.is_set():
            now = time.perf_counter()
            left_s = start + length_s - now
            if left_s <= 0 or self._hopeless():
                return
            if self._on_progress is not None:
                self._on_progress(now - began_at, self._recorder.latencies.count)
            self._expire(now)
            try:
                async with asyncio.timeout(min(_TICK_S, left_s)):
                    await self._stop.wait()
            except TimeoutError:
                continue

    def _hopeless(self) -> bool:
        """Whether the end of the level is known already."""
        return False

    def _expire(self, now: float) -> None:
        oldest_allowed = now - self._plan.timeout_s
        for station in self._stations:
            for lane in station.waiting_lanes():
                if lane.sent_at < oldest_allowed:
                    self._count(lane, TIMEOUT, now)
                    station.drop(lane)
                    self._without_lane(lane, now)
        for number, queue in enumerate(self._queues):
            while queue and queue[0].due_at < oldest_allowed:
                self._error(number, queue.popleft().due_at, TIMEOUT, now)

    def _totals(self) -> tuple[int, int]:
        stations = self._stations
        return sum(each.received_bytes for each in stations), sum(each.connections_opened for each in stations)

    async def _close(self) -> None:
        self._running = False
        for station in self._stations:
            await station.close()
        await asyncio.sleep(0)  # so that the sockets are really closed when the next level opens its own
