"""When the Python around the model is slow: the interpreter's lock, encodings, the event loop. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trilith.measure.diagnose.evidence import Station
from trilith.measure.diagnose.findings.finding import (
    LATENCY,
    PYTHON_FLOOR,
    Change,
    Finding,
    around,
    percent,
)
from trilith.measure.diagnose.view import View
from trilith.measure.laws import in_system
from trilith.measure.units import duration, size

_CODING: Final = (("started", "decoded"), ("infer", "encoded"))
_AROUND: Final = (
    ("sent", "started"),
    ("received", "started"),
    ("started", "decoded"),
    ("infer", "encoded"),
    ("infer", "answered"),
)
_LARGE_BYTES: Final = 20_000
_ENCODED: Final = 0.3
_BINARY_COST: Final = 0.06
"""Reading an `.npy` beside reading the same array as JSON."""


def interpreter_lock(view: View) -> Iterator[Finding]:
    """A process has several calls in its methods and computes on one core."""
    level = view.full
    for station in level.stations:
        if station.kind != "service" or station.batch_max or not view.saturated:
            continue
        wanted = view.runnable_of(level, station)
        together = view.computing(level, station)
        if wanted is None or together < 1.6:
            continue
        each = wanted / max(1, station.servers)
        locked = view.lock_wait(level, station)
        if locked is None:  # then one core for all calls stands for the lock
            if not 0.7 <= each <= min(1.6, 0.75 * together):
                continue
        elif locked < max(0.5, 0.3 * (together - 1)) or each < 0.5:
            continue
        coding = view.share(view.alone, *_CODING, service=station.name)
        method = view.share(view.alone, ("decoded", "infer"), service=station.name, floor=2)
        part = method / (coding + method) if coding + method > 0 else 1.0
        seen = (
            "Who waits for the lock could not be read."
            if locked is None
            else f"On average {locked:.1f} threads of a process wait for the lock."
        )
        ceiling = view.cpu_ceiling()
        more = max(2, station.servers * 2)
        bound = view.more_processes(more / station.servers)
        yield Finding(
            floor=PYTHON_FLOOR,
            stage="interpreter-lock",
            where=station.name,
            sentence=f"Python code of {station.name} holds the interpreter's lock: its threads take turns on one core.",
            evidence=(
                f"At {level.load} in flight {together:.1f} calls are in its method at a time, and its process wants"
                f" {each:.2f} cores ({view.cores} are there).",
                seen,
            ),
            weight=min(0.95, 0.75 * part + (0.15 if locked is not None else 0.0)),
            sure=0.9 if locked is not None else 0.75,
            changes=(
                Change(
                    what=f"Set replicas of {station.name} to {more}: each process has a lock of its own.",
                    load=level.load,
                    gain=around(max(1.0, bound), below=0.25, above=0.1),
                    settings={f"{station.name}.replicas": more},
                    why="Twice the processes give twice the throughput, until the cores are full"
                    + (f", which is at {ceiling:,.0f} requests a second." if ceiling else "."),
                ),
                Change(
                    what="Or move that code into a service of its own, or into a library that lets go of the lock"
                    " (numpy,"
                    " OpenCV), so that it runs beside the rest.",
                    load=level.load,
                    gain=around(max(1.0, bound), below=0.4, above=0.2),
                    why="The same bound: it is the lock that the threads wait for.",
                ),
            ),
        )


def encoding(view: View) -> Iterator[Finding]:
    """Reading arguments and writing results takes a large part of a request that is large."""
    level = view.alone
    bytes_both = level.sent_bytes + level.received_bytes
    coding = view.share(level, *_CODING, floor=2) + view.share(level, ("received", "decoded"), ("decoded", "encoded"))
    if coding < _ENCODED or bytes_both < _LARGE_BYTES:
        return
    json = "json" in view.evidence.content_type
    coding_s = coding * level.latency.mean_s
    yield Finding(
        floor=PYTHON_FLOOR,
        stage="encoding",
        where=view.root,
        sentence="Reading arguments and writing results takes the time"
        + (": large arrays travel as JSON text." if json else "."),
        evidence=(
            f"One request alone spends {duration(coding_s)} of {duration(level.latency.mean_s)}"
            f" ({percent(coding)}) on it.",
            f"It is {size(int(level.sent_bytes))} of {view.evidence.content_type or 'no type'}, and its answer"
            f" {size(int(level.received_bytes))}.",
        ),
        weight=min(0.97, coding + 0.1),
        sure=0.95,
        changes=(
            Change(
                what="Send and ask for arrays as application/x-npy (or a picture as itself) instead of JSON."
                if json
                else "Send fewer bytes: a smaller picture, a narrower type.",
                metric=LATENCY,
                load=level.load,
                gain=around(1 / max(0.02, 1 - coding * (1 - _BINARY_COST)), below=0.2, above=0.25) if json else None,
                why=f"Reading an array from .npy costs about {percent(_BINARY_COST)} of reading it from JSON; the"
                f" rest of"
                " the request stays.",
            ),
        ),
    )


def blocked_loop(view: View) -> Iterator[Finding]:
    """Calls are in a replica and wait there, one in its method at a time: its event loop is held."""
    level = view.full
    for station in level.stations:
        if station.kind != "service" or station.batch_max:
            continue
        # What takes longer than alone, before and after the method, is the wait for a loop that others hold.
        alone_s = view.seconds(view.alone, *_AROUND, service=station.name)
        waits_s = max(0.0, view.seconds(level, *_AROUND, service=station.name) - alone_s)
        waits = waits_s / level.latency.mean_s if level.latency.mean_s > 0 else 0.0
        method_s = view.seconds(level, ("decoded", "infer"), service=station.name, floor=2)
        together = in_system(level.requests_per_s, method_s) / max(1, station.servers)
        inside = together + in_system(level.requests_per_s, waits_s) / max(1, station.servers)
        if waits < 0.35 or together > 1.5 or inside < 2.5 * max(1.0, together):
            continue
        wanted = view.runnable_of(level, station)
        each = None if wanted is None else wanted / max(1, station.servers)
        computes = each is not None and each > 0.7
        threads = min(8, level.load)
        parallel = 1.0 if computes else threads / max(1.0, together)
        yield Finding(
            floor=PYTHON_FLOOR,
            stage="blocking-async",
            where=station.name,
            sentence=f"An async method of {station.name} {'computes' if computes else 'blocks'} on the event loop: all"
            " other calls stand still meanwhile.",
            evidence=(
                f"At {level.load} in flight {inside:.1f} calls are in a replica, but {together:.1f} in the method: the"
                f" others wait inside ({percent(waits)} of a request's time).",
                "Its processor use could not be read."
                if each is None
                else f"The process wants {percent(each)} of a core meanwhile: it "
                + ("computes." if computes else "waits for something else than a core."),
            ),
            weight=min(0.95, waits + 0.1),
            sure=0.95 if each is not None else 0.7,
            changes=(
                Change(
                    what=f"Write it as a plain `def`: it then runs in threads (threads={threads}); or await a"
                    f" library that"
                    " does not block.",
                    load=level.load,
                    gain=around(max(1.0, parallel)),
                    why=f"{threads} calls of {duration(method_s)} at a time instead of one.",
                )
                if not computes
                else Change(
                    what=f"Give {station.name} more replicas: its method computes in Python, which threads do not"
                    f" speed up.",
                    load=level.load,
                    gain=around(view.more_processes(2.0), below=0.25),
                    settings={f"{station.name}.replicas": 2 * station.servers},
                    why="A second process has a loop of its own.",
                ),
            ),
        )


def full_of_python(view: View) -> Iterator[Finding]:
    """The machine is full, and it is a service's own method that fills it."""
    level = view.full
    if not view.machine_full or not view.saturated:
        return
    services = [station for station in level.stations if station.kind == "service"]
    wanted = {station.name: view.runnable_of(level, station) or 0.0 for station in services}
    total = sum(process.runnable for process in level.processes) or 1.0
    for station in services:
        part = wanted[station.name] / total
        if part < 0.5:
            continue
        yield _full(view, station, part)


def _full(view: View, station: Station, part: float) -> Finding:
    level = view.full
    return Finding(
        floor=PYTHON_FLOOR,
        stage="python-compute",
        where=station.name,
        sentence=f"The methods of {station.name} fill the machine's cores.",
        evidence=(
            f"At {level.load} in flight server and generator want"
            f" {(level.runnable or 0.0) + level.generator_cpu + level.generator_wait:.1f} of {view.cores} cores,"
            f" {percent(part)} of the server's in {station.name}.",
        ),
        weight=0.45 * part,
        sure=0.8,
        changes=(
            Change(
                what=f"Make the code of {station.name} cheaper, or add cores: more replicas on this machine give"
                f" nothing.",
                load=level.load,
                gain=around(1 / max(0.1, 1 - part / 2), below=0.25),
                why="Predicted for half the processor time in these methods (Amdahl's law).",
            ),
        ),
    )
