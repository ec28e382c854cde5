"""A report as tables for a person. Only builds what rich prints; it prints nothing itself."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trilith.measure.breakdown_table import breakdown_table, verdict
from trilith.measure.histogram import DurationSummary
from trilith.measure.results import BenchReport, LevelResult
from trilith.measure.units import duration, size


def render(report: BenchReport) -> RenderableType:
    """The load table, the breakdown of the last level that has one, and what to doubt."""
    parts: list[RenderableType] = [load_table(report)]
    for level in reversed(report.levels):
        if level.breakdown is not None:
            title = f"Where the time goes at concurrency {level.concurrency} (requests sampled: "
            parts.append(breakdown_table(level.breakdown, f"{title}{level.breakdown.requests:,})"))
            break
    parts.extend(Text(line, style="yellow") for line in notes(report))
    return Group(*parts)


def load_table(report: BenchReport) -> Table:
    """One line a level."""
    table = Table(
        title=f"{report.method} {report.url}",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 0),
        caption="load: requests in flight. data: sent and received. client: generator's share of a core.",
        caption_justify="left",
    )
    with_cpu = any(level.server_cpu_s is not None for level in report.levels)
    names = ["load", "req/s", "p50", "p90", "p99", "max", "mean", "fail"]
    names += ["CPU/req"] if with_cpu else []
    for name in [*names, "data", "client"]:
        table.add_column(name, justify="right", no_wrap=True)
    for level in report.levels:
        cpu_s = level.server_cpu_per_request_s
        table.add_row(
            str(level.concurrency),
            f"{level.requests_per_s:,.1f}" if level.requests_per_s < 100 else f"{level.requests_per_s:,.0f}",
            *_latency_cells(level.latency),
            f"[red]{level.failed:,}[/]" if level.failed else "0",
            *([duration(cpu_s) if cpu_s is not None else "-"] if with_cpu else []),
            size(level.sent_bytes + level.received_bytes),
            f"{level.generator.cpu_share:.0%}",
            style="dim" if level.spoiled else "",
        )
    return table


def notes(report: BenchReport) -> Iterator[str]:
    """What a reader must know before believing the figures."""
    if report.interrupted:
        yield "Interrupted: the last level was not measured to its end."
    for level in report.levels:
        yield from _level_notes(level)
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


def _level_notes(level: LevelResult) -> Iterator[str]:
    at = f"At concurrency {level.concurrency}"
    if level.errors:
        kinds = ", ".join(f"{count:,} x {kind}" for kind, count in level.errors.items())
        yield f"{at}: {level.failed:,} failed requests: {kinds}."
    if level.nothing_ended and not level.interrupted:
        yield (
            f"{at}: no request ended within the {duration(level.duration_s)} that were measured: each takes longer than"
            " that. The server has answered none of them yet, neither well nor badly."
        )
    if level.spoiled:
        yield (
            f"{at}: SPOILED: the generator used {level.generator.cpu_share:.0%} of its core, so it set the pace and"
            " not the server. The server can do more than this."
        )
    elif level.generator.contended:
        yield (
            f"{at}: the generator waited for a core {level.generator.wait_share:.0%} of the time: the latencies include"
            " that wait. Give it a core of its own."
        )


def _latency_cells(latency: DurationSummary) -> list[str]:
    if not latency.count:
        return ["-"] * 5
    return [duration(value) for value in (latency.p50_s, latency.p90_s, latency.p99_s, latency.max_s, latency.mean_s)]
