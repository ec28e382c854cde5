"""A report as tables for a person. Only builds what rich prints; it prints nothing itself."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from trilith.measure.breakdown_table import breakdown_table
from trilith.measure.histogram import DurationSummary
from trilith.measure.preflight import MADE_BODY
from trilith.measure.report_notes import level_place, notes
from trilith.measure.results import BenchReport, LevelResult
from trilith.measure.units import duration, size


def render(report: BenchReport) -> RenderableType:
    """The load table, the breakdown of the last level that has one, and what to doubt."""
    parts: list[RenderableType] = [load_table(report)]
    if any(level.stream is not None for level in report.levels):
        parts.append(stream_table(report))
    if any(level.targets for level in report.levels):
        parts.append(target_table(report))
    for level in reversed(report.levels):
        if level.breakdown is not None:
            title = f"Where the time goes at {level_place(level)} (requests sampled: "
            parts.append(breakdown_table(level.breakdown, f"{title}{level.breakdown.requests:,})"))
            break
    parts.extend(Text(line, style="yellow") for line in notes(report))
    return Group(*parts)


def load_table(report: BenchReport) -> Table:
    """One line a level."""
    load = "requests a second" if any(level.open for level in report.levels) else "requests in flight"
    made = "".join(f" sent: {escape(name)}." for name in report.bodies if name.endswith(MADE_BODY))
    promise = "" if report.slo is None else f" in time: answered well within {duration(report.slo.limit_s)}."
    table = Table(
        title=f"{report.method} {report.url}".strip(),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 0),
        caption=f"load: {load}.{promise} data: sent and received. client: generator's share of a core.{made}",
        caption_justify="left",
    )
    with_cpu = any(level.server_cpu_s is not None for level in report.levels)
    names = ["load", "req/s", "p50", "p90", "p99", "max", "mean", "fail"]
    names += ["in time"] if report.slo is not None else []
    names += ["CPU/req"] if with_cpu else []
    for name in [*names, "data", "client"]:
        table.add_column(name, justify="right", no_wrap=True)
    for level in report.levels:
        cpu_s = level.server_cpu_per_request_s
        table.add_row(
            level.name or str(level.concurrency),
            per_second(level.requests_per_s),
            *_latency_cells(level.latency),
            f"[red]{level.failed:,}[/]" if level.failed else "0",
            *([_in_time(level)] if report.slo is not None else []),
            *([duration(cpu_s) if cpu_s is not None else "-"] if with_cpu else []),
            size(level.sent_bytes + level.received_bytes),
            f"{level.generator.cpu_share:.0%}",
            style="dim" if level.spoiled else "",
        )
    return table


def stream_table(report: BenchReport) -> Table:
    """One line a level whose answers had several items."""
    table = _small_table(
        "Items of streamed answers", "first: from when a request was due. next: between the items of an answer."
    )
    for name in ("load", "items/s", "first p50", "p99", "next p50", "p99", "max", "stalls"):
        table.add_column(name, justify="right", no_wrap=True)
    for level in report.levels:
        if (stream := level.stream) is not None:
            first, between = stream.first_item, stream.between
            times = (first.p50_s, first.p99_s, between.p50_s, between.p99_s, between.max_s)
            table.add_row(level.name, per_second(stream.items_per_s), *map(duration, times), f"{stream.stalls:,}")
    return table


def target_table(report: BenchReport) -> Table:
    """One line for each of several targets in each level."""
    table = _small_table("By target")
    for name in ("load", "target", "answers", "p50", "p90", "p99", "max", "mean", "fail"):
        table.add_column(name, justify="left" if name == "target" else "right", no_wrap=name != "target")
    for level in report.levels:
        for target in level.targets:
            failed = sum(target.errors.values())
            table.add_row(
                level.name, target.name, f"{target.latency.count:,}", *_latency_cells(target.latency), f"{failed:,}"
            )
    return table


def per_second(rate: float) -> str:
    """A rate with as many digits as it deserves."""
    return f"{rate:,.1f}" if rate < 100 else f"{rate:,.0f}"


def _small_table(title: str, caption: str = "") -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        caption=caption,
        caption_justify="left",
    )


def _in_time(level: LevelResult) -> str:
    if level.slo is None:
        return "-"
    text = f"{level.slo.good_share:.1%}"
    return text if level.slo.met else f"[red]{text}[/]"


def _latency_cells(latency: DurationSummary) -> list[str]:
    if not latency.count:
        return ["-"] * 5
    return [duration(value) for value in (latency.p50_s, latency.p90_s, latency.p99_s, latency.max_s, latency.mean_s)]
