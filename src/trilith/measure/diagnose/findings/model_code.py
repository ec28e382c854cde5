"""When the model itself takes the time: it computes, waits for memory, or its threads are in each other's way. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trilith.measure.diagnose.evidence import Station
from trilith.measure.diagnose.findings.finding import MODEL_FLOOR, Change, Finding, around, percent
from trilith.measure.diagnose.view import View
from trilith.measure.laws import Estimate
from trilith.measure.units import duration, size

_MEMORY: Final = 0.35
_CROWDED: Final = 1.6


def model_execution(view: View) -> Iterator[Finding]:
    """Instances are busy and want cores: computing, passing over memory, or crowding."""
    level = view.full
    for station in level.stations:
        wanted = view.runnable_of(level, station)
        if station.kind != "model" or wanted is None or not view.saturated:
            continue
        running = max(1.0, min(station.busy, float(station.servers)))
        if wanted < 0.55 * running or station.utilisation < 0.6:
            continue
        yield from _crowded(view, station, wanted / running)
        yield _computing(view, station, wanted)


def _crowded(view: View, station: Station, each: float) -> Iterator[Finding]:
    """Each run has several threads, and all of them together are more than there are cores."""
    level = view.full
    wanted = each * max(1.0, min(station.busy, float(station.servers)))
    if each < _CROWDED or wanted < 1.3 * view.cores:
        return
    threads = max(1, view.cores // station.servers)
    most = wanted / view.cores
    yield Finding(
        floor=MODEL_FLOOR,
        stage="threads-oversubscribed",
        where=station.name,
        sentence=f"{station.name} has more threads than there are cores: they take each other's time.",
        evidence=(
            f"At {level.load} in flight each of its runs wants {each:.1f} cores, all of them {wanted:.1f};"
            f" the machine has {view.cores}.",
        ),
        weight=0.85,
        sure=0.85,
        changes=(
            Change(
                what=f"Set session.intra_op_threads of {station.name} to {threads}, and spinning to false.",
                load=level.load,
                gain=Estimate(value=max(1.05, most**0.5), low=1.0, high=max(1.2, most)),
                settings={
                    f"models.{station.name}.session.intra_op_threads": threads,
                    f"models.{station.name}.session.spinning": False,
                },
                why="Between nothing and all of the cores that the threads want too many; no law says how much of that"
                " they lose.",
            ),
        ),
    )


def _computing(view: View, station: Station, wanted: float) -> Finding:
    level = view.full
    memory, cpu_s = view.evidence.memory, view.alone.server_cpu_s
    streams = memory.share(cpu_s) if memory is not None and cpu_s is not None else 0.0
    total = (level.runnable or wanted) + level.generator_cpu + level.generator_wait
    part = min(0.98, wanted / max(total, 1e-9))
    gain = around(1 / (1 - part / 2), below=0.25, above=0.15)
    evidence = [
        f"At {level.load} in flight its {station.servers} instances are busy"
        f" {percent(min(1.0, station.utilisation))} of the"
        f" time and want {wanted:.1f} cores of {view.cores}.",
    ]
    if streams >= _MEMORY and memory is not None:
        evidence.append(
            f"A request passes over at least {size(memory.touched_bytes)}, more than the cache of"
            f" {size(memory.cache_bytes)}:"
            f" copying as much takes {percent(streams)} of its processor time."
        )
        what = "Move fewer bytes: a narrower type (bf16, int8), a smaller model or input, a batch that uses"
        " weights for more"
        return Finding(
            floor=MODEL_FLOOR,
            stage="memory-bandwidth",
            where=station.name,
            sentence=f"{station.name} waits for memory: it passes over more than any cache holds.",
            evidence=tuple(evidence),
            weight=0.75,
            sure=0.8,
            changes=(
                Change(
                    what=f"{what} rows. More instances or threads give little.",
                    load=level.load,
                    gain=gain,
                    why=f"Predicted for half the bytes; {percent(part)} of the cores in use are the model's"
                    f" (Amdahl's law).",
                ),
            ),
        )
    room = view.cores / max(total, 1e-9)
    instances = Change(
        what=f"Set instances of {station.name} to {station.servers + 1}: there are cores left.",
        load=level.load,
        gain=around(min((station.servers + 1) / station.servers, room), below=0.2),
        settings={f"models.{station.name}.instances": station.servers + 1},
        why="Utilisation law, up to the cores that are free.",
    )
    if memory is not None:
        evidence.append(f"A request touches {size(memory.touched_bytes)}: no sign that memory is what it waits for.")
    return Finding(
        floor=MODEL_FLOOR,
        stage="model-compute",
        where=station.name,
        sentence=f"{station.name} itself is the bottleneck: its execution fills the cores that it may use.",
        evidence=tuple(evidence),
        weight=0.55,
        sure=0.85,
        changes=(
            *((instances,) if room > 1.25 else ()),
            Change(
                what="Make the model cheaper: another backend, a narrower type, a smaller model."
                f" A run takes {duration(view.seconds(view.alone, ('input', 'infer'), floor=1))} alone.",
                load=level.load,
                gain=gain,
                why=f"Predicted for half its processor time; {percent(part)} of the cores in use are the model's"
                f" (Amdahl's"
                " law).",
            ),
        ),
    )
