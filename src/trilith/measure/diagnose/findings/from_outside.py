"""What can be said of a server that tells nothing of itself: by its processes and by how it takes the load. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trilith.measure.diagnose.findings.finding import (
    MODEL_FLOOR,
    PYTHON_FLOOR,
    SCALE_FLOOR,
    Change,
    Finding,
    around,
)
from trilith.measure.diagnose.view import View
from trilith.measure.laws import in_system
from trilith.measure.units import duration

_QUIET: Final = 0.5
_ONE_PLACE: Final = 1.5


def seen_from_outside(view: View) -> Iterator[Finding]:
    """Full processors, one full core, or neither: which of them, at the load from which throughput is flat."""
    level = view.full
    if view.evidence.tells_time or not view.saturated:
        return
    if not level.processes:
        yield Finding(
            floor=SCALE_FLOOR,
            stage="unknown",
            sentence="The server is full, and nothing of it can be seen from here but its answers.",
            evidence=(
                f"Throughput is flat from {view.knee.load} in flight on, at {view.best.requests_per_s:,.0f} a second.",
            ),
            weight=0.3,
            sure=0.2,
            changes=(Change(what="Give --pid of the server on this machine, and ask again.", load=level.load),),
        )
        return
    wanted = sum(view.wants(process) for process in level.processes)
    busiest = max(level.processes, key=view.wants)
    own = view.wants(busiest)
    # Little's law: what the most that is answered a second takes alone is how many are worked on at a time.
    places = max(1.0, in_system(view.best.requests_per_s, view.alone.latency.mean_s))
    if view.machine_full and wanted > 1.5:
        yield _outside(
            MODEL_FLOOR,
            "model-compute",
            "The server's processors are full: what it computes is the bottleneck.",
            f"At {level.load} in flight it wants {wanted:.1f} of {view.cores} cores.",
            0.5,
            Change(what="Make what it computes cheaper, or add cores; more processes give nothing.", load=level.load),
        )
    elif 0.75 <= own <= 1.4 and own > 0.6 * wanted:
        gain = view.more_processes(2.0)
        waits = (
            f", and {busiest.lock_wait:.1f} of its threads wait for the interpreter's lock" if busiest.lock_wait else ""
        )
        yield _outside(
            PYTHON_FLOOR,
            "interpreter-lock",
            "One core of one process is full, and the others are not used: a lock, or a single thread.",
            f"At {level.load} in flight process {busiest.pid} wants {own:.2f} cores of {view.cores}{waits}.",
            0.6,
            Change(
                what="Start a second process of it behind the same address.",
                load=level.load,
                gain=around(gain, below=0.3),
                why="Twice the processes, until the cores are full.",
            ),
        )
    elif wanted < _QUIET * view.cores:
        seen = (
            f"At {level.load} in flight it wants {wanted:.1f} of {view.cores} cores, and answers"
            f" {view.best.requests_per_s:,.0f} a second at most. One request alone takes"
            f" {duration(view.alone.latency.mean_s)}: about {places:.1f} are worked on at a time (Little's law)."
        )
        one = places < _ONE_PLACE
        if one:
            yield _one_at_a_time(view, seen)
        yield _outside(
            SCALE_FLOOR,
            "too-few-replicas",
            "The server is full, and its processors are not: requests wait for workers, threads or something else.",
            seen,
            0.4 if one else 0.5,
            Change(
                what="Give it more workers or threads; if that changes nothing, look at what it calls.",
                load=level.load,
                gain=around(2.0, below=0.5, above=0.0),
                why="Utilisation law: twice the places, twice the throughput, unless something behind them is full.",
            ),
        )


def _one_at_a_time(view: View, seen: str) -> Finding:
    """One place and an idle processor: above all an event loop that a call holds."""
    threads = min(8, view.full.load)
    return _outside(
        PYTHON_FLOOR,
        "blocking-async",
        "The server works on one request at a time and computes little meanwhile: a call that blocks its event loop, or"
        " a single worker.",
        seen,
        0.6,
        Change(
            what="If the handler is an `async def`, write it as a plain `def`, which a framework runs in threads, or"
            " await a library that does not block.",
            load=view.full.load,
            gain=around(float(threads), below=0.75, above=0.15),
            why=f"Up to {threads} at a time instead of one, unless something behind them is full.",
        ),
    )


def _outside(floor: str, stage: str, sentence: str, evidence: str, weight: float, change: Change) -> Finding:
    return Finding(
        floor=floor, stage=stage, sentence=sentence, evidence=(evidence,), weight=weight, sure=0.6, changes=(change,)
    )
