"""What was seen of a server under a ladder of loads: plain frozen values, which a verdict is made of. Pure.

Rule 1: a figure that could not be read is None, and `Evidence.unread` says why; it is never 0.
Rule 2: use of processors is in cores: 1.0 is one core for the whole level. `cpu` computed; `delay` was ready to and had
        no core. Their sum, `runnable`, says what the code wanted, whatever else ran on the machine.
"""

from __future__ import annotations

import msgspec

from trilith.measure.histogram import DurationSummary
from trilith.measure.laws import Scalability, fit_scalability

MODEL = "model "
SERVICE = "service "
GATEWAY = "gateway "


class ThreadUse(msgspec.Struct, frozen=True, kw_only=True):
    """One thread during a level, in cores."""

    thread_id: int
    name: str
    cpu: float
    delay: float


class ProcessUse(msgspec.Struct, frozen=True, kw_only=True):
    """One process during a level.

    Attributes:
        pid: its id.
        role: `gateway`, `agent`, `replica NAME`, `model NAME`, or `process`.
        cpu: cores that it used.
        delay: cores that it wanted beside those.
        threads: the busiest first, idle ones left out.
        lock_wait: threads that waited for the interpreter's lock, on average; None when not readable.
    """

    pid: int
    role: str
    cpu: float
    delay: float
    threads: tuple[ThreadUse, ...] = ()
    lock_wait: float | None = None

    @property
    def runnable(self) -> float:
        """Threads that computed or could have, on average."""
        return self.cpu + self.delay


class BatchPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Batches of one size: how many, and what one took in seconds."""

    size: float
    seconds: float
    count: int


class Station(msgspec.Struct, frozen=True, kw_only=True):
    """What requests wait for: the replicas of a service, or the instances of a model.

    Attributes:
        kind: `service` or `model`.
        name: its name.
        servers: replicas or instances.
        slots: calls (or batches) that all of them take at a time.
        calls: answered during the level, those of batches each.
        busy: slots that were taken, on average.
        calls_by_server: answered by each replica; empty when not told apart.
        busy_by_server: slots of each that were taken, on average.
        in_flight_by_server: calls that each held, on average; empty when not seen.
        batch_max: the largest batch, 0 when it takes single calls.
        batch_wait_s: how long a batch that is not full is held, in seconds; None when that is not fixed.
        batches: what batches of each size took.
        loads: how often it was loaded, or a replica started, during the level.
        pids: its processes; empty for a model in the gateway.
    """

    kind: str
    name: str
    servers: int
    slots: int
    calls: int
    busy: float
    calls_by_server: tuple[int, ...] = ()
    busy_by_server: tuple[float, ...] = ()
    in_flight_by_server: tuple[float, ...] = ()
    batch_max: int = 0
    batch_wait_s: float | None = None
    batches: tuple[BatchPoint, ...] = ()
    loads: int = 0
    pids: tuple[int, ...] = ()

    @property
    def utilisation(self) -> float:
        """Share of its slots that were taken."""
        return self.busy / self.slots if self.slots else 0.0

    @property
    def mean_batch(self) -> float:
        """Calls of a batch, on average; 1.0 without batches."""
        count = sum(point.count for point in self.batches)
        return sum(point.size * point.count for point in self.batches) / count if count else 1.0


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """One span of the timelines of a level, as a mean over its requests; see `trilith.measure.SpanTimes`."""

    floor: int
    name: str
    earlier: str
    later: str
    waiting: bool
    share: float
    mean_s: float
    calls: float
    per_call_s: float

    @property
    def label(self) -> str:
        """For a person."""
        return f"{self.name}: {self.earlier} -> {self.later}"


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """One load of the ladder.

    Attributes:
        load: requests in flight.
        requests_per_s: successful answers.
        latency: of these.
        failed: requests without a good answer.
        errors: their number by kind.
        generator_cpu: share of a core that the generator used.
        generator_wait: share of the time that it waited for one.
        server_cpu_s: CPU seconds of the server a request, or None.
        sent_bytes: of a request, head included.
        received_bytes: of an answer.
        stages: where the time went, or empty when the server does not say.
        stations: what the server says of its replicas and models.
        processes: the server's, or empty when they could not be read.
    """

    load: int
    requests_per_s: float
    latency: DurationSummary
    failed: int = 0
    errors: dict[str, int] = {}
    generator_cpu: float = 0.0
    generator_wait: float = 0.0
    server_cpu_s: float | None = None
    sent_bytes: float = 0.0
    received_bytes: float = 0.0
    stages: tuple[Stage, ...] = ()
    stations: tuple[Station, ...] = ()
    processes: tuple[ProcessUse, ...] = ()

    @property
    def runnable(self) -> float | None:
        """Cores that the server wanted; None when not readable."""
        return sum(process.runnable for process in self.processes) if self.processes else None

    def station(self, kind: str, name: str) -> Station | None:
        """One of its stations."""
        return next((each for each in self.stations if (each.kind, each.name) == (kind, name)), None)

    def of(self, station: Station) -> list[ProcessUse]:
        """The processes of a station; for a model in the gateway that is the gateway's."""
        roles = (f"{station.kind} {station.name}", f"replica {station.name}") if station.pids else ("gateway",)
        return [
            each for each in self.processes if each.pid in station.pids or (not station.pids and each.role in roles)
        ]


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """How steady the machine is.

    Attributes:
        spread: of equal pieces of work, how much longer the tenth of ten takes than the middle one: 0.5 is half as
            long again.
        stolen: share of the machine's time that its host gave to others.
        foreign: cores that other processes used before any load.
        waited: share of the time that the pieces were ready and had no core.
    """

    spread: float
    stolen: float
    foreign: float
    waited: float = 0.0

    @property
    def stretch(self) -> float:
        """How many times its processor time a piece of work takes beyond that: 0.0 on a quiet machine."""
        return self.waited / max(1e-3, 1 - self.waited)


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """What the server's memory is asked for.

    Attributes:
        touched_bytes: what a request passes over, at the least.
        copy_bytes_per_s: what a copy on this machine reads and writes in a second of its CPU time.
        cache_bytes: the largest cache.
    """

    touched_bytes: int
    copy_bytes_per_s: float
    cache_bytes: int

    def share(self, cpu_s: float) -> float:
        """The part of a request's CPU seconds that its memory alone accounts for; 0.0 when a cache can hold it all."""
        if self.touched_bytes < 2 * self.cache_bytes or cpu_s <= 0:
            return 0.0
        return self.touched_bytes / self.copy_bytes_per_s / cpu_s


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """All that was seen.

    Attributes:
        url: the endpoint.
        cores: of this machine.
        levels: of the ladder, by load.
        why_ended: why the ladder ended.
        noise: of the machine.
        first_s: seconds that the very first request took.
        content_type: of what was sent.
        tells_time: whether the server tells timelines.
        memory: whether memory is the bottleneck, or None when not measured.
        unread: what could not be read, and why.
        interrupted: whether the run was stopped before its time.
    """

    url: str
    cores: int
    levels: tuple[Level, ...]
    why_ended: str = ""
    noise: Noise | None = None
    first_s: float = 0.0
    content_type: str = ""
    tells_time: bool = False
    memory: Memory | None = None
    unread: tuple[str, ...] = ()
    interrupted: bool = False

    @property
    def scalability(self) -> Scalability | None:
        """The universal scalability law of the ladder."""
        return fit_scalability((level.load, level.requests_per_s) for level in self.levels)
