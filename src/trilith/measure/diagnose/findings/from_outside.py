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
    percent,
)
from trilith.measure.diagnose.view import View

_QUIET: Final = 0.5


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
    wanted = level.runnable or 0.0
    busiest = level.processes[0]
    if view.machine_full and wanted > 1.5:
        yield _outside(
            MODEL_FLOOR,
            "model-compute",
            "The server's processors are full: what it computes is the bottleneck.",
            f"At {level.load} in flight it wants {wanted:.1f} of {view.cores} cores.",
            0.5,
            Change(what="Make what it computes cheaper, or add cores; more processes give nothing.", load=level.load),
        )
    elif 0.75 <= busiest.runnable <= 1.4 and busiest.runnable > 0.6 * wanted:
        gain = view.more_processes(2.0)
        waits = (
            f", and {busiest.lock_wait:.1f} of its threads wait for the interpreter's lock" if busiest.lock_wait else ""
        )
        yield _outside(
            PYTHON_FLOOR,
            "interpreter-lock",
            "One core of one process is full, and the others are not used: a lock, or a single thread.",
            f"At {level.load} in flight process {busiest.pid} wants {busiest.runnable:.2f} cores of"
            f" {view.cores}{waits}.",
            0.6,
            Change(
                what="Start a second process of it behind the same address.",
                load=level.load,
                gain=around(gain, below=0.3),
                why="Twice the processes, until the cores are full.",
            ),
        )
    elif wanted < _QUIET * view.cores:
        yield _outside(
            SCALE_FLOOR,
            "too-few-replicas",
            "The server is full, and its processors are not: requests wait for workers, threads or something else.",
            f"At {level.load} in flight it wants {wanted:.1f} of {view.cores} cores, and throughput is flat from"
            f" {view.knee.load} in flight on: it has about {percent(1)} of {view.knee.load} places.",
            0.5,
            Change(
                what="Give it more workers or threads; if that changes nothing, look at what it calls.",
                load=level.load,
                gain=around(2.0, below=0.5, above=0.0),
                why="Utilisation law: twice the places, twice the throughput, unless something behind them is full.",
            ),
        )


def _outside(floor: str, stage: str, sentence: str, evidence: str, weight: float, change: Change) -> Finding:
    return Finding(
        floor=floor, stage=stage, sentence=sentence, evidence=(evidence,), weight=weight, sure=0.6, changes=(change,)
    )
