"""When requests wait although the machine has room: windows, cold starts, replicas and instances. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trilith.measure.diagnose.evidence import Station
from trilith.measure.diagnose.findings.finding import (
    LATENCY,
    SCALE_FLOOR,
    THROUGHPUT,
    Change,
    Finding,
    around,
    percent,
)
from trilith.measure.diagnose.view import View
from trilith.measure.laws import throughput_bound
from trilith.measure.units import duration

_HELD: Final = 0.35
_LEAST_LOADS: Final = 3
_UNLIKE: Final = 1.6
_TAKEN: Final = 0.75
_IDLE: Final = 0.55


def window_too_long(view: View) -> Iterator[Finding]:
    """One request alone waits in a queue: nothing is before it, so the batch's window holds it."""
    level = view.alone
    if level.load > 1:
        return
    for station in level.stations:
        waits = view.wait_before(level, station)
        if not station.batch_max or waits < _HELD or station.loads:
            continue
        held_s = waits * level.latency.mean_s
        fixed = f"; max_wait_ms holds a batch for {duration(station.batch_wait_s)}" if station.batch_wait_s else ""
        setting = (
            {"batching.max_wait_ms": 0}
            if station.kind == "model"
            else {f"{station.name}.{_method(view, station)}.max_wait_ms": 0}
        )
        yield Finding(
            floor=SCALE_FLOOR,
            stage="window-too-long",
            where=station.name,
            sentence=f"{station.name} holds batches that are not full for longer than they take: the window is"
            f" too long.",
            evidence=(
                f"One request alone, with nothing before it, waits {duration(held_s)} of"
                f" {duration(level.latency.mean_s)}"
                f" ({percent(waits)}) to be sent{fixed}.",
                f"Meanwhile {percent(1 - min(1.0, station.utilisation))} of {station.name} is idle.",
            ),
            weight=min(0.98, waits + 0.1),
            sure=0.95,
            changes=(
                Change(
                    what=f"Set max_wait_ms of {station.name} to 0: a batch then leaves when a replica or instance"
                    f" is free.",
                    metric=LATENCY,
                    load=level.load,
                    gain=around(1 / max(0.02, 1 - held_s / max(held_s, level.latency.p50_s))),
                    settings={f"models.{station.name}.{key}": value for key, value in setting.items()}
                    if station.kind == "model"
                    else setting,
                    why="Without the wait the rest of the request remains; at higher loads queues fill batches by"
                    " themselves.",
                ),
            ),
        )


def cold_starts(view: View) -> Iterator[Finding]:
    """Models are loaded, or replicas started, while requests come."""
    level = view.alone
    loads: dict[str, int] = {}
    for each in view.levels:
        for station in each.stations:
            loads[station.name] = loads.get(station.name, 0) + station.loads
    cold = [station for station in level.stations if station.loads]
    total = sum(loads.values())
    if not cold or total < _LEAST_LOADS:
        return
    waits = sum(view.wait_before(level, station) for station in level.stations if station.kind == "model")
    edges = (("received", "decoded"), ("received", "queued"), ("received", "admitted"), ("admitted", "queued"))
    waits = min(0.99, max(waits, view.waits_for_models(level)) + view.share(level, *edges, floor=3))
    names = ", ".join(station.name for station in cold)
    yield Finding(
        floor=SCALE_FLOOR,
        stage="cold-starts",
        where=names,
        sentence=f"Requests wait for what is not loaded: {names} came and went: {total} loads during the measurement.",
        evidence=(
            f"With one request in flight there were {sum(each.loads for each in cold)} loads for"
            f" {level.latency.count} answers.",
            f"A request spent {percent(waits)} of its {duration(level.latency.mean_s)} waiting for them.",
        ),
        weight=max(0.7, waits),
        sure=0.95,
        changes=(
            Change(
                what="Keep them loaded: raise --max-loaded-models (memory allowing), or load them at the start.",
                metric=THROUGHPUT,
                load=level.load,
                gain=around(1 / max(0.005, 1 - waits), below=0.3, above=0.3) if waits > 0.1 else None,
                why="What is left of a request when nothing is loaded for it.",
            ),
        ),
    )


def hot_replica(view: View) -> Iterator[Finding]:
    """Replicas of one service get through very different numbers of calls."""
    level = view.full
    for station in level.stations:
        calls = station.calls_by_server
        if len(calls) < 2 or sum(calls) < 8 * len(calls) or station.utilisation < 0.6:
            continue
        most, least = max(calls), min(calls)
        each_s = [busy / max(1, done) for busy, done in zip(station.busy_by_server, calls, strict=True)]
        if most < _UNLIKE * max(1, least) or max(each_s) < _UNLIKE * min(each_s):
            continue
        gain = len(calls) * most / sum(calls)
        slow = calls.index(least)
        yield Finding(
            floor=SCALE_FLOOR,
            stage="hot-replica",
            where=station.name,
            sentence=f"One replica of {station.name} is much slower than the others, and requests wait for it.",
            evidence=(
                f"At {level.load} in flight the replicas answered {', '.join(map(str, sorted(calls)))} calls,"
                f" and each of them was busy all the time or nearly.",
                f"A call takes {each_s[slow] / min(each_s):.1f} times as long in the slowest (process"
                f" {station.pids[slow]}).",
            ),
            weight=min(0.95, 0.3 + 1 - 1 / gain),
            sure=0.9,
            changes=(
                Change(
                    what=f"Find out what is different about process {station.pids[slow]} (its core, its data, its"
                    " neighbours), and replace it.",
                    load=level.load,
                    gain=around(gain),
                    why=f"All {len(calls)} replicas as fast as the fastest.",
                ),
            ),
        )


def too_few(view: View) -> Iterator[Finding]:
    """All replicas, or all instances, are taken, and the processors are not."""
    level = view.full
    for station in level.stations:
        waits = view.wait_before(level, station)
        if station.utilisation < _TAKEN or waits < 0.25:
            continue
        wanted = view.runnable_of(level, station)
        locked = (view.lock_wait(level, station) or 0.0) * station.servers
        each = None if wanted is None else (wanted + locked) / max(station.busy, 0.1)
        if each is not None and each > _IDLE:
            continue
        yield _more(view, station, waits, each)


def _more(view: View, station: Station, waits: float, each: float | None) -> Finding:
    level = view.full
    model = station.kind == "model"
    servers = "instances" if model else "replicas"
    one_s = min(station.busy, station.slots) / max(1e-9, level.requests_per_s)
    more = 2 * station.servers
    beyond_s = max(0.0, level.latency.mean_s * (1 - waits))
    bound = throughput_bound(level.load, max(beyond_s, one_s), one_s, more * station.slots / station.servers)
    gain = min(2.0, max(1.0, bound / max(1e-9, level.requests_per_s)))
    path = f"models.{station.name}.instances" if model else f"{station.name}.replicas"
    threads = (
        ()
        if model or station.batch_max
        else (
            Change(
                what=f"Or set threads of {station.name} to {2 * station.slots // station.servers}: its calls wait"
                f" more than"
                " they compute, so one process can have more of them.",
                load=level.load,
                gain=around(gain, below=0.25, above=0.15),
                settings={f"{station.name}.threads": 2 * station.slots // station.servers},
                why="As above; threads of one process share the interpreter's lock, which what waits does not hold.",
            ),
        )
    )
    idle = "" if each is None else f", and uses {percent(min(1.0, each))} of a core while it is"
    return Finding(
        floor=SCALE_FLOOR,
        stage="too-few-instances" if model else "too-few-replicas",
        where=station.name,
        sentence=f"{station.name} has too few {servers}: requests wait for one to be free while processors idle.",
        evidence=(
            f"At {level.load} in flight {percent(waits)} of a request's time is waiting for {station.name}.",
            f"Each of its {station.slots} {'instances' if model else 'places'} is taken"
            f" {percent(min(1.0, station.utilisation))} of the time{idle}.",
        ),
        weight=0.4 * min(1.0, waits + 0.1),
        sure=0.9 if each is not None else 0.6,
        changes=(
            Change(
                what=f"Set {servers} of {station.name} to {more}.",
                metric=THROUGHPUT,
                load=level.load,
                gain=around(gain, below=0.15, above=0.1),
                settings={path: more},
                why=f"Utilisation law: {more} {servers} bound throughput at {bound:,.0f} a second, as long as"
                f" none of them"
                " wants a core.",
            ),
            *threads,
        ),
    )


def _method(view: View, station: Station) -> str:
    """The method of a service whose calls were measured."""
    for stage in view.alone.stages:
        service, _, method = stage.name.partition(" ")[2].rpartition(".")
        if service == station.name:
            return method
    return ""
