"""When the client is what is full, or nothing is. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trilith.measure.diagnose.findings.finding import CLIENT_FLOOR, NO_FLOOR, Change, Finding, percent
from trilith.measure.diagnose.view import View

_GENERATOR_FULL: Final = 0.85
_LESS: Final = 0.7
_LEAST: Final = 0.02
_NEARLY: Final = 1.25


def client_bound(view: View) -> Iterator[Finding]:
    """The generator has no core time left, and no process of the server is as busy."""
    level = view.full
    wanted = level.generator_cpu + level.generator_wait
    busiest = max(level.processes, key=lambda process: process.cpu, default=None)
    served = busiest.cpu if busiest is not None else 0.0
    # Both compute on one core each: the one that needs more of it for a request is full first, however busy the
    # machine is. On a busy one they take turns, and only together want a core all the time.
    together = wanted + (busiest.runnable if busiest is not None else 0.0)
    if not view.saturated and level.generator_cpu < _GENERATOR_FULL:
        return
    if served >= _LESS * level.generator_cpu or together < _GENERATOR_FULL or level.generator_cpu < _LEAST:
        return
    yield Finding(
        floor=CLIENT_FLOOR,
        stage="client",
        sentence="The load generator is the bottleneck: the server could do more than these figures say.",
        evidence=(
            f"At {level.load} in flight the generator wanted {percent(wanted)} of its one core"
            f" ({percent(level.generator_cpu)}"
            " used).",
            f"The busiest process of the server used {percent(served)} of one."
            if level.processes
            else "The server's processes could not be seen.",
        ),
        weight=0.9,
        sure=0.9 if level.processes else 0.6,
        changes=(
            Change(
                what="Put load from more than one generator, best from another machine, before you change the server.",
                why="No law predicts what a server does that was never full.",
                load=level.load,
            ),
        ),
    )


def room(view: View) -> Iterator[Finding]:
    """Throughput still rises with the load, at nearly the time that one request takes alone."""
    if view.saturated or len(view.levels) < 2:
        return
    alone, last = view.alone, view.full
    if view.slowed:
        return
    longer = last.latency.p50_s / alone.latency.p50_s if alone.latency.p50_s > 0 else 1.0
    law = view.evidence.scalability
    ceiling = (
        f" The scalability law puts the ceiling at {law.ceiling_per_s:,.0f} a second."
        if (law is not None and law.ceiling_per_s < 100 * last.requests_per_s)
        else ""
    )
    yield Finding(
        floor=NO_FLOOR,
        stage="room",
        sentence=f"Nothing is full: at {last.load} in flight throughput still rises with the load.",
        evidence=(
            f"{last.load} in flight give {last.requests_per_s / alone.requests_per_s:.1f} times the throughput of"
            f" {alone.load}: {last.requests_per_s:,.0f} a second.",
            f"The median request takes {longer:.2f} times as long as one alone." + ceiling,
        ),
        weight=0.42,
        sure=0.9,
        changes=(
            Change(
                what="Nothing: you have room. Do not add a framework for speed.",
                load=last.load,
                why=f"Up to {last.requests_per_s:,.0f} requests a second were answered"
                + (
                    " as fast as one alone, nearly."
                    if longer < _NEARLY
                    else f", in {longer:.2f} times the time of one alone; whether that is too long is for you to say."
                ),
            ),
        ),
    )
