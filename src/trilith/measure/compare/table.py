"""A comparison as tables for a person. Only builds what rich prints; it prints nothing itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trilith.measure.breakdown_table import floor_name
from trilith.measure.compare.results import METRICS, THROUGHPUT, CompareReport, Comparison, SpanDifference, Standing
from trilith.measure.compare.sentences import MATTERS
from trilith.measure.statistics import RatioEstimate, Verdict, judge
from trilith.measure.units import duration

_SPANS_SHOWN: Final = 6
_SMALL: Final = 0.02


def render_comparison(report: CompareReport) -> RenderableType:
    """The contestants, the ratios, where the difference is, what to doubt, and the result in words."""
    parts: list[RenderableType] = [Text(f"{each.name}: {each.url}") for each in report.standings]
    parts += ["", standings_table(report)]
    for comparison in report.comparisons:
        parts += ["", ratio_table(comparison)]
        if comparison.floors:
            parts += ["", difference_table(comparison)]
    parts.extend(Text(note, style="yellow") for note in report.notes)
    if report.interrupted:
        rounds = len(report.rounds)
        text = f"Interrupted after {rounds} whole round{'' if rounds == 1 else 's'}."
        parts.append(Text(text if rounds else f"{text} There is no figure yet.", style="yellow"))
    parts.extend(Text(comparison.sentence, style="bold") for comparison in report.comparisons)
    return Group(*parts)


def standings_table(report: CompareReport) -> Table:
    """One line a contestant: medians of its rounds."""
    rounds = len(report.rounds)
    table = _table(
        f"{rounds} round{'s' * (rounds != 1)}, {duration(report.round_s)} of each; {_load(report)}",
        "Medians of the rounds. noise: how the throughput varied from round to round.",
    )
    with_cpu = any(standing.cores is not None for standing in report.standings)
    table.add_column("target", overflow="fold")
    for name in ["req/s", "p50", "p90", "p99", "fail", "noise", *(["CPU/req", "cores"] if with_cpu else [])]:
        table.add_column(name, justify="right", no_wrap=True)
    for standing in report.standings:
        table.add_row(*_standing_cells(standing, with_cpu))
    return table


def _load(report: CompareReport) -> str:
    return f"{report.concurrency} in flight" if report.rate_per_s is None else f"{report.rate_per_s:,.6g} a second"


def ratio_table(comparison: Comparison) -> Table:
    """One line a figure: the ratio and its interval."""
    table = _table(f"{comparison.other} as a multiple of {comparison.baseline}", "")
    table.add_column("figure")
    for name in ("ratio", "low", "high", "rounds"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for metric in METRICS:
        ratio = comparison.ratios.get(metric.key)
        if ratio is not None:
            said = _said(ratio, metric.more_is_better)
            cells = [f"{value:.3g}" for value in (ratio.ratio, ratio.low, ratio.high)]
            table.add_row(metric.title, *cells, str(ratio.rounds), said)
    return table


def difference_table(comparison: Comparison) -> Table:
    """Floors, and under each the spans that differ most."""
    table = _table(
        f"Where the mean latency differs ({comparison.other} less {comparison.baseline})",
        "The floors add up to the difference of the mean latency; so do the spans. ±: 95 % interval.",
    )
    table.add_column("floor, span", overflow="fold")
    for name in (comparison.baseline, comparison.other, "difference"):
        table.add_column(name, justify="right", no_wrap=True)
    largest_s = max(abs(floor.difference_s) for floor in comparison.floors)
    for floor in comparison.floors:
        table.add_row(floor_name(floor.floor), *_difference_cells(floor), style="bold")
        inside = [span for span in comparison.spans if span.floor == floor.floor and floor.floor]
        shown = [span for span in inside if abs(span.difference_s) >= _SMALL * largest_s][:_SPANS_SHOWN]
        for span in shown:
            table.add_row(f"  {span.name}: {span.stages}", *_difference_cells(span))
    return table


def _table(title: str, caption: str) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        caption=caption or None,
        caption_justify="left",
    )


def _standing_cells(standing: Standing, with_cpu: bool) -> Sequence[str]:
    figures = standing.figures
    rate = figures.get(THROUGHPUT.key)
    cells = [standing.name]
    cells.append("-" if rate is None else f"{rate:,.1f}" if rate < 100 else f"{rate:,.0f}")
    cells += [duration(figures[key]) if key in figures else "-" for key in ("p50", "p90", "p99")]
    cells.append(f"{standing.failed:,}")
    cells.append("-" if standing.noise is None else f"{standing.noise.step:.1%}")
    if with_cpu:
        cells.append(duration(figures["cpu"]) if "cpu" in figures else "-")
        cells.append("-" if standing.cores is None else f"{standing.cores:.2f}")
    return cells


def _said(ratio: RatioEstimate, more_is_better: bool) -> str:
    match judge(ratio, matters=MATTERS):
        case Verdict.SAME:
            return "equal"
        case Verdict.UNCLEAR:
            return "unclear"
        case verdict:
            return "better" if (verdict is Verdict.HIGHER) is more_is_better else "worse"


def _difference_cells(each: SpanDifference) -> Sequence[str]:
    return (
        duration(each.baseline_s),
        duration(each.other_s),
        f"{_signed(each.difference_s)} ± {duration((each.high_s - each.low_s) / 2)}",
    )


def _signed(seconds: float) -> str:
    return f"{'-' if seconds < 0 else '+'}{duration(abs(seconds))}"
