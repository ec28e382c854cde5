"""An open loop: requests are due at instants that no answer changes, and wait in the client when no lane is free.

Rule 1: latency runs from the instant at which a request was due. A server that stalls is charged for every request that
        it kept waiting, sent or not (no coordinated omission).
Rule 2: the requests that were due while it was measured are the ones that count. After the end no more are sent; those
        in flight may take as long again to end, at most the timeout, and what then has no answer has failed.
Rule 3: how late the generator itself took up requests is measured like everything else.
Rule 4: a timer of the system wakes the loop when a request is due (`FineTimer`). Above a thousand requests a second the
        loop turns without sleep instead, which costs a core.
Rule 5: a turn takes up a few requests, however many are due, so that answers, the end of the level and a signal are
        heard at any rate. How far the loop was behind its schedule at the end is told (`Recorder.behind_s`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Final

from trilith.measure.load.drive import Drive
from trilith.measure.load.fine_timer import FineTimer, fine_timer
from trilith.measure.load.lanes import BACKLOG, Lane, Waiting
from trilith.measure.load.recorder import UNANSWERED

SPIN_ABOVE_PER_S: Final = 1000.0
_SPIN_WITHIN_S: Final = 0.0015
_OPEN_WITHIN_S: Final = 3.0
_SHORTEST_DRAIN_S: Final = 1.0
_DRAIN_TICK_S: Final = 0.01
_MOST_A_TURN: Final = 32
_CATCH_UP_S: Final = 0.1


class OpenLoop(Drive):
    """Runs one `LoadPlan` that has `due` once, on the running event loop."""

    _due: Iterator[float]
    _next_due = 0.0
    _started_at = 0.0
    _arriving = False
    _timer: asyncio.Handle | None = None
    _fine_timer: FineTimer | None = None

    async def _begin(self) -> None:
        plan = self._plan
        if plan.due is None:
            raise ValueError("an open loop needs to know when requests are due")
        self._spins = plan.rate_per_s > SPIN_ABOVE_PER_S
        # The lanes are open before the first request is due. Opened on demand, a stall of the server would be met with
        # hundreds of connections, which overflow its backlog.
        deadline = time.perf_counter() + min(plan.timeout_s, _OPEN_WITHIN_S)
        while time.perf_counter() < deadline and not self._stop.is_set():
            if all(station.open_lanes >= plan.concurrency for station in self._stations):
                break
            await asyncio.sleep(_DRAIN_TICK_S)
        self._fine_timer = fine_timer(self._turn)
        self._due = plan.due()
        self._started_at = time.perf_counter()
        self._next_due = self._started_at + next(self._due)
        self._arriving = True
        self._turn()

    def _turn(self) -> None:
        """Takes up what is due, and comes again when the next is."""
        if not self._arriving or self._stop.is_set():
            return
        now = time.perf_counter()
        taken = 0
        while self._next_due <= now and taken < _MOST_A_TURN:
            if self._next_due >= self._recorder.due_until:
                return  # what is due after the end is never sent
            self._take_up(self._next_due, now)
            self._next_due = self._started_at + next(self._due)
            now = time.perf_counter()
            taken += 1
        left_s = self._next_due - now
        if left_s <= 0 or (self._spins and left_s < _SPIN_WITHIN_S):
            self._timer = asyncio.get_running_loop().call_soon(self._turn)
        elif self._fine_timer is not None:
            self._fine_timer.set(left_s)
        else:
            self._timer = asyncio.get_running_loop().call_later(left_s, self._turn)

    def _take_up(self, due_at: float, now: float) -> None:
        recorder = self._recorder
        if recorder.was_due(due_at):
            recorder.offered += 1
            recorder.lags.record(now - due_at)
        station = self._picker.draw()
        request = self._picker.request(station)
        idle = self._idle[station]
        if idle:
            self._send_due(idle.pop(), request, due_at, now, now)
        elif len(self._queues[station]) < self._plan.most_waiting:
            self._queues[station].append(Waiting(request, due_at, now))
        else:
            self._error(station, due_at, BACKLOG, now)

    def _send_due(self, lane: Lane, request: object, due_at: float, taken_up_at: float, now: float) -> None:
        if self._recorder.was_due(due_at):
            self._recorder.waits.record(now - taken_up_at)
        self._send(lane, request, due_at, now)

    def _release(self, lane: Lane, now: float) -> None:
        queue = self._queues[lane.station]
        if queue:
            waiting = queue.popleft()
            self._send_due(lane, waiting.request, waiting.due_at, waiting.taken_up_at, time.perf_counter())
        else:
            self._idle[lane.station].append(lane)

    def _count(self, lane: Lane, error: str, now: float) -> None:
        super()._count(lane, error, now)
        if not error and self._recorder.was_due(lane.due_at):
            self._recorder.from_send.record(now - lane.sent_at)

    def _hopeless(self) -> bool:
        plan, recorder = self._plan, self._recorder
        if plan.hopeless_share is None or not recorder.offered:
            return False
        expected = plan.rate_per_s * plan.duration_s
        missed = recorder.latencies.count - recorder.within_slo + recorder.errors.total()
        too_late = time.perf_counter() - plan.slo_s
        missed += sum(lane.due_at < too_late for station in self._stations for lane in station.waiting_lanes())
        missed += sum(waiting.due_at < too_late for queue in self._queues for waiting in queue)
        return missed > max(1.0, plan.hopeless_share * expected)

    def _unanswered(self) -> int:
        recorder = self._recorder
        return recorder.offered - recorder.latencies.count - recorder.errors.total()

    def _end(self) -> None:
        self._arriving = False
        if self._timer is not None:
            self._timer.cancel()
        if self._fine_timer is not None:
            self._fine_timer.close()

    async def _drain(self) -> None:
        recorder = self._recorder
        caught_up_by = time.perf_counter() + _CATCH_UP_S
        while self._next_due < recorder.ended_at and not self._stop.is_set():
            if time.perf_counter() >= caught_up_by:
                break
            await asyncio.sleep(0)  # the last that were due are taken up
        self._end()
        recorder.behind_s = max(0.0, recorder.ended_at - self._next_due)
        if self._stop.is_set():
            return
        plan = self._plan
        patience_s = 0.0 if self._hopeless() else min(plan.timeout_s, max(_SHORTEST_DRAIN_S, plan.duration_s))
        deadline = time.perf_counter() + patience_s
        while self._unanswered() > 0 and not self._stop.is_set():
            now = time.perf_counter()
            if now >= deadline:
                break
            self._expire(now)
            await asyncio.sleep(_DRAIN_TICK_S)
        unanswered = self._unanswered()
        if unanswered > 0 and not self._stop.is_set():
            recorder.errors[UNANSWERED] += unanswered
