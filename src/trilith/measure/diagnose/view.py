"""The evidence, asked the questions that findings ask. Pure.

Rule: what a question needs and nobody saw gives None or 0.0 with that meaning; a finding then stays silent.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

from trilith.measure.diagnose.evidence import GATEWAY, Evidence, Level, ProcessUse, Stage, Station
from trilith.measure.laws import in_system

_NEAR_BEST: Final = 0.9
_RISES: Final = 1.3
_SCALES: Final = 0.45
_SLOWED: Final = 1.5
_KEEPS_UP: Final = 0.75
_FAIR_WAIT: Final = 4.0
_LOCKED: Final = 0.5
_LEAST_WAIT_S: Final = 0.001


class View:
    """One evidence.

    Attributes:
        evidence: what was seen.
        alone: the level of one request in flight, or the least that was measured.
        best: the level of most throughput.
        full: the level at which waits are best seen: the largest load.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        answered = [level for level in evidence.levels if level.requests_per_s > 0]
        self.levels = answered or list(evidence.levels)
        self.alone = self.levels[0]
        self.best = max(self.levels, key=lambda level: level.requests_per_s)
        self.full = self.levels[-1]

    @cached_property
    def knee(self) -> Level:
        """The least load that gives nearly the most throughput."""
        return next(level for level in self.levels if level.requests_per_s >= _NEAR_BEST * self.best.requests_per_s)

    @cached_property
    def saturated(self) -> bool:
        """Whether more load gave no more.

        The largest load gave less than a third more than any before it, or less than half of what one request alone
        promises: the second because on a busy machine a level may come out well by luck.
        """
        if len(self.levels) < 2:
            return False
        *before, last = self.levels
        rises = last.requests_per_s >= _RISES * max(level.requests_per_s for level in before)
        return not rises or self.scaling < _SCALES

    @property
    def scaling(self) -> float:
        """Throughput at the largest load as a part of what as many requests alone would have; 1.0 is all of it."""
        promised = self.alone.requests_per_s * self.full.load / self.alone.load
        return self.full.requests_per_s / promised if promised > 0 else 0.0

    @property
    def slowed(self) -> bool:
        """Whether throughput still rises, and requests take far longer already: something begins to be full."""
        longer = self.full.latency.p50_s >= _SLOWED * self.alone.latency.p50_s
        return not self.saturated and longer and self.scaling < _KEEPS_UP

    @property
    def cores(self) -> int:
        """Of the machine."""
        return self.evidence.cores

    @cached_property
    def root(self) -> str:
        """The service that clients call, or "" when they call a model or something else."""
        for stage in self.alone.stages:
            if stage.floor == 3 and stage.name.startswith(GATEWAY):
                return service_of(stage)
        return ""

    def share(self, level: Level, *edges: tuple[str, str], service: str = "", floor: int = 0) -> float:
        """The part of a request's time in stages between these stamps; 0 to 1."""
        return sum(
            stage.share
            for stage in level.stages
            if (stage.earlier, stage.later) in edges
            and (not service or service_of(stage) == service)
            and (not floor or stage.floor == floor)
        )

    def seconds(self, level: Level, *edges: tuple[str, str], service: str = "", floor: int = 0) -> float:
        """The mean seconds of a request in stages between these stamps."""
        return sum(
            stage.mean_s
            for stage in level.stages
            if (stage.earlier, stage.later) in edges
            and (not service or service_of(stage) == service)
            and (not floor or stage.floor == floor)
        )

    def wait_before(self, level: Level, station: Station) -> float:
        """The part of a request's time that it waits for a replica, or for an instance; 0 to 1."""
        if station.kind == "model":
            return sum(
                stage.share
                for stage in level.stages
                if stage.waiting and stage.floor == 1 and stage.name == f"model {station.name}"
            )
        return self.share(level, ("queued", "sent"), service=station.name, floor=3)

    def waits_for_models(self, level: Level) -> float:
        """The part of a request's time that it waits in the queue of any model; 0 to 1."""
        return sum(stage.share for stage in level.stages if stage.waiting and stage.floor == 1)

    def wants(self, process: ProcessUse) -> float:
        """Cores that a process computes on, or would if others left them.

        What computes all the time gets its share, and waits so many times that as there are others: a process that
        waits for far longer than it runs only wakes up often, and finds the cores taken.
        """
        noise = self.evidence.noise
        most = max(_FAIR_WAIT, 3 * (1 + noise.stretch)) if noise is not None else _FAIR_WAIT
        return process.cpu + min(process.delay, most * process.cpu)

    def runnable_of(self, level: Level, station: Station) -> float | None:
        """Threads of a station that computed or could have, on average; None when not readable.

        Of a model that runs in the gateway all threads of the gateway but the first, which serves clients.
        """
        processes = level.of(station)
        if not processes:
            return None
        if station.kind == "model" and not station.pids:
            return sum(
                thread.cpu + thread.delay
                for process in processes
                for thread in process.threads
                if thread.thread_id != process.pid
            )
        return sum(self.wants(process) for process in processes)

    def computing(self, level: Level, station: Station) -> float:
        """Calls of a service in their method at a time, by Little's law; for one replica."""
        inside_s = sum(
            stage.per_call_s * stage.calls
            for stage in level.stages
            if stage.floor == 2 and service_of(stage) == station.name and not stage.waiting
        )
        return in_system(level.requests_per_s, inside_s) / max(1, station.servers)

    def lock_wait(self, level: Level, station: Station) -> float | None:
        """Threads of one process of a station that wait for the interpreter's lock; None when not readable."""
        waits = [process.lock_wait for process in level.of(station) if process.lock_wait is not None]
        return sum(waits) / len(waits) if waits and station.pids else None

    def locked(self, level: Level) -> dict[str, float]:
        """By service whose threads wait for the lock: from how many seconds on reading arguments is that wait."""
        found = {}
        for station in level.stations:
            if station.kind == "service" and (self.lock_wait(level, station) or 0.0) >= _LOCKED:
                alone_s = self.seconds(self.alone, ("started", "decoded"), service=station.name)
                calls = sum(
                    stage.calls
                    for stage in self.alone.stages
                    if stage.later == "decoded" and service_of(stage) == station.name
                )
                found[station.name] = 3 * alone_s / max(1.0, calls) + _LEAST_WAIT_S
        return found

    @cached_property
    def machine_full(self) -> bool:
        """Whether server and generator wanted all cores of the machine."""
        level = self.full
        if level.runnable is None:
            return False
        return level.runnable + level.generator_cpu + level.generator_wait >= 0.85 * self.cores

    @cached_property
    def cores_got(self) -> float:
        """The part of the cores that the server wanted and got, 0 to 1: other programs take the rest."""
        level = self.full
        used = sum(process.cpu for process in level.processes)
        return used / level.runnable if level.runnable else 1.0

    def more_processes(self, factor: float) -> float:
        """How many times the throughput so many times the processes give, as far as there are cores for them."""
        ceiling = self.cpu_ceiling()
        gain = factor if ceiling is None else min(factor, ceiling / max(1e-9, self.best.requests_per_s))
        return 1 + max(0.0, gain - 1) * self.cores_got

    def cpu_ceiling(self, cpu_factor: float = 1.0) -> float | None:
        """The most requests a second that the cores can give, generator included; None when not readable."""
        level = self.best
        if level.server_cpu_s is None or level.requests_per_s <= 0:
            return None
        generator_s = level.generator_cpu / level.requests_per_s
        need_s = level.server_cpu_s * cpu_factor + generator_s
        return self.cores / need_s if need_s > 0 else None


def service_of(stage: Stage) -> str:
    """The service, or the model, that a stage belongs to."""
    return stage.name.partition(" ")[2].rpartition(".")[0] if stage.floor > 1 else stage.name.partition(" ")[2]
