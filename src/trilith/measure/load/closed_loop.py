"""A closed loop: N requests in flight, each replaced by the next when its answer is complete.

Rule 1: an answer counts if it came between the end of the warm-up and the end of the level. What is in flight at the
        end counts as nothing, unless it is older than the timeout.
Rule 2: with one target a request takes the lane that has just fallen free; with several it waits for one to its own.
"""

from __future__ import annotations

import time

from trilith.measure.load.drive import Drive
from trilith.measure.load.lanes import Lane, Waiting


class ClosedLoop(Drive):
    """Runs one `LoadPlan` once, on the running event loop."""

    async def _begin(self) -> None:
        if self._several:
            for _ in range(self._plan.concurrency):
                self._next(time.perf_counter())

    def _release(self, lane: Lane, now: float) -> None:
        if not self._several:
            # The first latency of a connection includes the time to open it, as a caller would feel it.
            self._send(lane, self._picker.request(0), now, now)
            return
        answered = lane.sent_at > 0.0
        queue = self._queues[lane.station]
        if queue:
            waiting = queue.popleft()
            self._send(lane, waiting.request, waiting.due_at, now)
        else:
            self._idle[lane.station].append(lane)
        if answered:
            self._next(now)

    def _without_lane(self, lane: Lane, now: float) -> None:
        if self._several and self._running:
            self._next(now)

    def unreachable(self, station: int, slot: int, kind: str) -> None:
        """What waited for a lane fails, and other requests take its place after a moment."""
        lost = len(self._queues[station]) if self._several else 0
        super().unreachable(station, slot, kind)
        for _ in range(lost - len(self._queues[station]) if self._several else 0):
            self._next(time.perf_counter())

    def _next(self, now: float) -> None:
        station = self._picker.draw()
        request = self._picker.request(station)
        if self._idle[station]:
            self._send(self._idle[station].pop(), request, now, now)
        else:
            self._queues[station].append(Waiting(request, now, now))
