"""Why no verdict can be given, and what would help to one. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trilith.measure.diagnose.evidence import Evidence
from trilith.measure.diagnose.findings.finding import percent
from trilith.measure.diagnose.view import View
from trilith.measure.units import duration

_LONGEST_STRETCH: Final = 9.0
_FAILED: Final = 0.2
_LEAST_ANSWERS: Final = 5
_FELL: Final = 0.7
_BUSY: Final = 0.25


def refusal(evidence: Evidence, noisiest: float) -> str:
    """Why nothing can be said, or ""."""
    levels = evidence.levels
    noise = evidence.noise
    if noise is not None and noise.stretch > _LONGEST_STRETCH * noisiest:
        return (
            f"This machine is too busy to say anything: a piece of work takes {noise.stretch + 1:.0f} times its"
            f" processor time (up to {_LONGEST_STRETCH * noisiest + 1:.0f} is borne), and other programs use"
            f" {noise.foreign:.1f} of its {evidence.cores} cores. Measure when it is quieter."
        )
    if noise is not None and noise.spread > noisiest:
        return (
            f"This machine is too noisy to say anything: of equal pieces of work one in ten takes"
            f" {noise.spread + 1:.1f} times as long as the middle one (up to {noisiest + 1:.1f} is borne), and"
            f" other programs use {noise.foreign:.1f} of its {evidence.cores} cores. Measure when it is"
            f" quieter."
        )
    answered = sum(level.latency.count for level in levels)
    failed = sum(level.failed for level in levels)
    if not answered:
        return "No request succeeded, so there is nothing to explain; the server's log says why."
    if failed > _FAILED * (failed + answered):
        kinds: dict[str, int] = {}
        for level in levels:
            for kind, count in level.errors.items():
                kinds[kind] = kinds.get(kind, 0) + count
        most = max(kinds, key=lambda kind: kinds[kind])
        hint = " It limits the rate: allow this client more, or ask for less." if most == "status 429" else ""
        return (
            f"{failed:,} of {failed + answered:,} requests failed, most by {most} ({kinds[most]:,}): how quickly"
            f" something fails says nothing of a bottleneck.{hint}"
        )
    if answered < _LEAST_ANSWERS or len(levels) < 2:
        return f"Too little was measured for a verdict: {answered} answers at {len(levels)} loads."
    return ""


def unexplained(view: View) -> Iterator[str]:
    """What was seen, and why none of it names a bottleneck."""
    alone, best, full = view.alone, view.best, view.full
    yield f"At {alone.load} in flight {alone.requests_per_s:,.1f} a second were answered, at {full.load}" + (
        f" {full.requests_per_s:,.1f}."
    )
    if not view.saturated:
        longer = full.latency.p50_s / alone.latency.p50_s if alone.latency.p50_s > 0 else 1.0
        yield (
            f"Throughput still rises, so nothing is full; yet the median request takes {longer:.2f} times as long as"
            f" one alone, so there is not just room either."
        )
    elif full.requests_per_s < _FELL * best.requests_per_s:
        yield f"It was {best.requests_per_s:,.1f} at {best.load} in flight: more load gives less."
    else:
        yield f"Throughput is flat from {view.knee.load} in flight on, so something is full."
    if full.stages:
        longest = max(full.stages, key=lambda stage: stage.share)
        yield (
            f"Most of a request's time at {full.load} in flight is in {longest.label}: {percent(longest.share)} of"
            f" {duration(full.latency.mean_s)}. That alone does not say why."
        )
    else:
        yield "The answers do not say where their time went."
    for station in full.stations:
        wanted = view.runnable_of(full, station)
        use = "its use of processors could not be read" if wanted is None else f"it wants {wanted:.1f} cores"
        yield f"{station.name}: {percent(min(1.0, station.utilisation))} of {station.slots} places taken; {use}."
    if not full.processes:
        yield "The server's processes could not be seen."


def what_would_show_more(view: View) -> str:
    """Advice that fits: no larger load where throughput is flat, no --pid where the processes were seen."""
    evidence = view.evidence
    noise = evidence.noise
    advice = []
    if noise is not None and noise.foreign >= _BUSY * evidence.cores:
        advice.append("a machine that others use less")
    if not view.saturated:
        advice.append(f"a larger load (--max-load, {view.full.load} was the largest)")
    if not view.full.processes:
        advice.append("--pid of the server on this machine, if it runs here")
    if view.full.processes and not view.full.stations and evidence.tells_time:
        advice.append("the server's own counters (serve it without --metrics-port off)")
    if not advice:
        advice.append("a longer run (--duration), or a profile of the method (`py-spy`, `perf`)")
    return "More would be shown by " + "; ".join(advice) + "."
