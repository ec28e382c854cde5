"""What a reader must know before believing the figures of a report, in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from trilith.measure.batch_means import Interval
from trilith.measure.breakdown_table import verdict
from trilith.measure.rate_search import RateFound
from trilith.measure.results import BenchReport, LevelResult
from trilith.measure.slo import Slo
from trilith.measure.units import duration

_SHOWN_WAIT_S: Final = 0.001
_UNSURE_SHARE: Final = 0.05


def notes(report: BenchReport) -> Iterator[str]:
    """The sentences, the more general ones last."""
    if report.interrupted:
        yield "Interrupted: the last level was not measured to its end, or others were not measured at all."
    for level in report.levels:
        if report.search is None or _decided(level, report.search):
            yield from _level_notes(level)
    if report.slo is not None and report.search is not None:
        yield _found(report, report.search)
    for level in reversed(report.levels):
        if level.breakdown is not None:
            yield verdict(level.breakdown)
            break
    if report.nothing_ended:
        yield "Nothing was measured. Give --duration several times what one request takes, or --data that takes less."
    elif report.levels and all(level.requests_per_s == 0 for level in report.levels):
        yield "No request succeeded, so there is nothing to break down; the server's log says why."
    elif report.levels and all(level.breakdown is None for level in report.levels):
        yield (
            "No breakdown: these answers do not say where their time went. Those of services and models of Trilith do, "
            "when the header trilith-timeline asks; those of pages such as /docs, and of other servers, do not."
        )


def level_place(level: LevelResult) -> str:
    """A level in a sentence: `concurrency 8`, `200/s`."""
    return level.name if level.open is not None or level.name != str(level.concurrency) else f"concurrency {level.name}"


def _decided(level: LevelResult, found: RateFound) -> bool:
    """Whether a level of a search is one of the two between which the answer lies."""
    ends = [rate for rate in (found.rate_per_s, found.above_per_s) if rate is not None]
    return level.open is not None and any(abs(level.open.rate_per_s - rate) < 0.01 for rate in ends)


def _level_notes(level: LevelResult) -> Iterator[str]:
    at = f"At {level_place(level)}"
    if level.errors:
        kinds = ", ".join(f"{count:,} x {kind}" for kind, count in level.errors.items())
        yield f"{at}: {level.failed:,} failed requests: {kinds}."
    if level.nothing_ended and not level.interrupted:
        yield (
            f"{at}: no request ended within the {duration(level.duration_s)} that were measured: each takes longer than"
            " that. The server has answered none of them yet, neither well nor badly."
        )
    if level.slo is not None and level.latency.count and not level.slo.met:
        slo = level.slo.slo
        yield (
            f"{at}: {slo.name} within {duration(slo.limit_s)} was NOT kept: {level.slo.good_share:.2%} of"
            f" {level.slo.of:,} requests were answered well and in time, {level.slo.goodput_per_s:,.1f} a second."
        )
    yield from _doubts(at, level)


def _doubts(at: str, level: LevelResult) -> Iterator[str]:
    if level.generator.saturated:
        yield (
            f"{at}: SPOILED: the generator used {level.generator.cpu_share:.0%} of its core, so it set the pace and"
            " not the server. The server can do more than this."
        )
    elif level.open is not None and level.fell_behind:
        yield (
            f"{at}: SPOILED: the generator cannot send {level.open.rate_per_s:,.0f} requests a second: at the end it"
            f" was {duration(level.open.behind_s)} behind, and what was due then was never sent. Give it a core of its"
            " own, or a lower rate."
        )
    elif level.open is not None and level.lagged:
        yield (
            f"{at}: SPOILED: the generator itself was late, by {duration(level.open.lag.p99_s)} in one of a hundred"
            f" requests (p50 {duration(level.open.lag.p50_s)}, at most {duration(level.open.lag.max_s)}): the latencies"
            " are partly its own. Give it a core of its own, or a lower rate."
        )
    elif level.generator.contended:
        yield (
            f"{at}: the generator waited for a core {level.generator.wait_share:.0%} of the time: the latencies include"
            " that wait. Give it a core of its own."
        )
    if level.open is not None and level.open.wait.p99_s >= _SHOWN_WAIT_S:
        yield (
            f"{at}: requests waited in the client for one of {level.concurrency} connections, one of a hundred for"
            f" {duration(level.open.wait.p99_s)} or more; from its sending on, p99 was"
            f" {duration(level.open.from_send.p99_s)}."
        )
    sureness = level.sureness
    if sureness.stability is not None and not sureness.stability.stable:
        yield f"{at}: it did not stand still: {sureness.stability.words()}."
    if (unsure := _unsure(level)) is not None:
        yield f"{at}: 95 % intervals: {unsure}."


def _unsure(level: LevelResult) -> str | None:
    """The intervals, when one is wider than a reader would guess."""
    throughput, p99 = level.sureness.requests_per_s, level.sureness.p99_s
    if throughput is None or max(throughput.half_share, p99.half_share if p99 else 0.0) < _UNSURE_SHARE:
        return None
    text = f"{throughput.low:,.1f} to {throughput.high:,.1f} req/s"
    return text if p99 is None else f"{text}, p99 {_span(p99)}"


def _span(interval: Interval) -> str:
    return f"{duration(interval.low)} to {duration(interval.high)}"


def _fewest(slo: Slo) -> int:
    """Requests without which a share says nothing."""
    return math.ceil(1 / (1 - slo.share) - 1e-9)


def _found(report: BenchReport, found: RateFound) -> str:
    slo = report.slo
    promise = f"{slo.name} within {duration(slo.limit_s)}" if slo is not None else ""
    if found.rate_per_s is None:
        return f"No rate was found that keeps {promise}, down to {found.above_per_s or 0:,.2f} requests a second."
    beyond = f"; {found.above_per_s:,.1f} did not" if found.above_per_s is not None else ""
    ended = "" if found.complete else " The search was not ended."
    late = [level for level in report.levels if level.spoiled and _decided(level, found)]
    ended += " The generator itself was a limit there: the server may do more." if late else ""
    decided = [level.slo for level in report.levels if level.slo is not None and _decided(level, found)]
    few = min((each.of for each in decided if not each.enough), default=None)
    if slo is not None and few is not None:
        ended += (
            f" Trials of {few:,} requests do not show {slo.name}: that takes {_fewest(slo):,} at least. Give"
            f" --duration {math.ceil(_fewest(slo) / found.rate_per_s)}s."
        )
    return f"{found.rate_per_s:,.1f} requests a second kept {promise}{beyond} ({found.trials} trials).{ended}"
