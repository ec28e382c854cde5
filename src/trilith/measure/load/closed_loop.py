"""A closed loop: N connections, each sends its next request when the answer to the last one is complete.

Rule 1: the load of one level is `LoadPlan` in, `LevelResult` out. Between them nothing is printed or decided.
Rule 2: an answer counts if it came between the end of the warm-up and the end of the level. What is in flight at the
        end counts as nothing, unless it is older than the timeout.
Rule 3: a connection that fails is opened again, after a growing pause while nothing listens there.
"""

from __future__ import annotations

import asyncio
import gc
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from trilith.measure.load.connection import REFUSED, RESET, TIMEOUT, HttpConnection
from trilith.measure.load.generator_meter import GeneratorMeter
from trilith.measure.load.kept_timelines import fetch
from trilith.measure.load.outcome import LoadOutcome
from trilith.measure.load.recorder import Recorder
from trilith.measure.load.target import PreparedRequest, Target

_SAMPLE_EVERY_S: Final = 0.01  # at most 100 timelines a second: they cost the server work
_SAMPLE_BURST_S: Final = 0.1  # what was not used of that may be caught up on: slow requests often begin together
_TICK_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
_SETTLE_S: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """One level of load.

    Attributes:
        target: the endpoint.
        requests: sent in turn (round robin); at least one.
        concurrency: connections, each with one request in flight.
        duration_s: seconds measured.
        warmup_s: seconds of the same load before that, not measured.
        timeout_s: seconds after which a request without an answer is an error.
        sample_timelines: whether some requests ask for their timeline.
    """

    target: Target
    requests: Sequence[PreparedRequest]
    concurrency: int
    duration_s: float
    warmup_s: float = 0.0
    timeout_s: float = 30.0
    sample_timelines: bool = False


class ClosedLoop:
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
            on_progress: called several times a second with the seconds since the start, warm-up included, and the
                number of answers measured so far.
        """
        self._plan = plan
        self._server_cpu_s = server_cpu_s
        self._on_progress = on_progress
        self._recorder = Recorder()
        self._connections: dict[int, HttpConnection] = {}
        self._opening: set[asyncio.Task[None]] = set()
        self._pauses_s = [0.0] * plan.concurrency
        self._closed_bytes = 0
        self._next_request = 0
        self._next_sample_at = 0.0
        self._running = False
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
        # The collector's long pause comes before any request; afterwards it looks only at what the level allocates.
        gc.collect()
        gc.freeze()
        began_at = time.perf_counter()
        for slot in range(plan.concurrency):
            self._open(slot)
        await self._pass_time(began_at, plan.warmup_s)
        server_cpu = _CpuWindow(self._server_cpu_s) if self._server_cpu_s is not None else None
        # Reading the CPU time stalled the loop: what was in flight meanwhile is answered before the measurement begins.
        await asyncio.sleep(_SETTLE_S)
        recorder = self._recorder = Recorder()
        meter = GeneratorMeter()
        read_before = self._read_bytes()
        measured_from = time.perf_counter()
        await self._pass_time(measured_from, plan.duration_s, began_at)
        elapsed_s = time.perf_counter() - measured_from
        generator = meter.stop()
        server_cpu_s = server_cpu.used_s(elapsed_s) if server_cpu is not None else None
        self._running = False
        gc.unfreeze()
        recorder.received_bytes = self._read_bytes() - read_before
        await self._close()
        for sample in await asyncio.to_thread(fetch, plan.target, recorder.kept):
            recorder.sample(sample.header, sample.latency_s)
        return LoadOutcome(
            recorder=recorder,
            elapsed_s=elapsed_s,
            generator=generator,
            server_cpu_s=server_cpu_s,
            interrupted=self._stop.is_set(),
        )

    # ---- answers and failures, called by the connections ----

    def answered(self, connection: HttpConnection, status: int) -> None:
        """Counts an answer and sends the next request."""
        now = time.perf_counter()
        latency_s = now - connection.sent_at
        recorder = self._recorder
        recorder.answer(status, latency_s)
        if connection.sampled and connection.timeline is not None:
            recorder.sample(connection.timeline, latency_s)
            connection.timeline = None
        elif connection.sampled and connection.timeline_place is not None:
            recorder.sample_kept(connection.timeline_place.decode("latin-1"), latency_s)
            connection.timeline_place = None
        self._pauses_s[connection.slot] = 0.0
        if not self._running:
            return
        if connection.reusable:
            self._send(connection, now)
        else:
            self._reopen(connection)

    def failed(self, connection: HttpConnection, kind: str) -> None:
        """Counts a failure and opens another connection."""
        if not self._running:
            return
        self._recorder.error(kind)
        self._lengthen_pause(connection.slot)
        self._reopen(connection)

    # ---- the loop ----

    def _send(self, connection: HttpConnection, now: float) -> None:
        plan = self._plan
        index = self._next_request
        request = plan.requests[index]
        self._next_request = index + 1 if index + 1 < len(plan.requests) else 0
        self._recorder.sent_bytes += request.size_bytes
        connection.sent_at = now
        if plan.sample_timelines and now >= self._next_sample_at:
            self._next_sample_at = max(self._next_sample_at, now - _SAMPLE_BURST_S) + _SAMPLE_EVERY_S
            connection.send(request.sampled, sampled=True)
        else:
            connection.send(request.plain, sampled=False)

    def _open(self, slot: int) -> None:
        task = asyncio.get_running_loop().create_task(self._connect(slot))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    def _lengthen_pause(self, slot: int) -> None:
        self._pauses_s[slot] = min(_LONGEST_PAUSE_S, max(0.01, self._pauses_s[slot] * 2))

    def _reopen(self, connection: HttpConnection) -> None:
        self._closed_bytes += connection.received_bytes
        connection.received_bytes = 0
        self._connections.pop(connection.slot, None)
        connection.abort()
        self._open(connection.slot)

    async def _connect(self, slot: int) -> None:
        plan = self._plan
        context = ssl.create_default_context() if plan.target.tls else None
        while self._running:
            if self._pauses_s[slot]:
                await asyncio.sleep(self._pauses_s[slot])
            connection = HttpConnection(self, slot)
            asked_at = time.perf_counter()
            try:
                async with asyncio.timeout(plan.timeout_s):
                    await asyncio.get_running_loop().create_connection(
                        lambda made=connection: made, plan.target.host, plan.target.port, ssl=context
                    )
            except (OSError, TimeoutError) as error:
                self._recorder.error(_connect_error(error))
                self._lengthen_pause(slot)
                continue
            if not connection.reusable or not self._running:
                connection.abort()
                continue
            self._recorder.connections += 1
            self._connections[slot] = connection
            # The first latency of a connection includes the time to open it, as a caller would feel it.
            self._send(connection, asked_at)
            return

    async def _pass_time(self, start: float, length_s: float, began_at: float | None = None) -> None:
        """Waits until `length_s` after `start`, or for `stop`; enforces timeouts and tells the progress."""
        began_at = start if began_at is None else began_at
        while not self._stop.is_set():
            now = time.perf_counter()
            left_s = start + length_s - now
            if left_s <= 0:
                return
            if self._on_progress is not None:
                self._on_progress(now - began_at, self._recorder.latencies.count)
            self._expire(now)
            try:
                async with asyncio.timeout(min(_TICK_S, left_s)):
                    await self._stop.wait()
            except TimeoutError:
                continue

    def _expire(self, now: float) -> None:
        oldest_allowed = now - self._plan.timeout_s
        for connection in list(self._connections.values()):
            if connection.waiting and connection.sent_at < oldest_allowed:
                self._recorder.error(TIMEOUT)
                self._reopen(connection)

    def _read_bytes(self) -> int:
        return self._closed_bytes + sum(connection.received_bytes for connection in self._connections.values())

    async def _close(self) -> None:
        for task in list(self._opening):
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        for connection in self._connections.values():
            connection.abort()
        # One turn, so that the sockets are really closed when the next level opens its own.
        await asyncio.sleep(0)


class _CpuWindow:
    """The server's CPU time from creation on."""

    def __init__(self, read_s: Callable[[], float]) -> None:
        self._read_s = read_s
        self._before_s = read_s()
        self._from = time.perf_counter()

    def used_s(self, elapsed_s: float) -> float:
        """CPU seconds used, scaled to the `elapsed_s` seconds that were measured within the window."""
        window_s = time.perf_counter() - self._from
        return (self._read_s() - self._before_s) * elapsed_s / window_s


def _connect_error(error: OSError | TimeoutError) -> str:
    """The word for a connection that could not be opened."""
    if isinstance(error, ConnectionRefusedError):
        return REFUSED
    if isinstance(error, ConnectionResetError):
        return RESET
    if isinstance(error, TimeoutError):
        return TIMEOUT
    if isinstance(error, ssl.SSLError):
        return "TLS handshake failed"
    return f"cannot connect ({error.strerror or error})"
