"""A comparison of OCR servers as Markdown, to be pasted into a page. Pure.

Rule: ratios are those of rounds, each of which had all targets; they have their 95 % interval, and no figure stands
        without the number of its rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trilith.measure import LevelResult, RatioEstimate, paired_ratio
from trilith.measure.compare import CompareReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of a target beside its speed.

    Attributes:
        about: what it is.
        error_rate: character errors a character, over all pages.
    """

    about: str
    error_rate: float


def table(report: CompareReport, known: Sequence[Known], *, with_steps: bool) -> str:
    """One row a target, in the order of the report.

    Args:
        report: what was measured, a round at least.
        known: of each target.
        with_steps: whether each is compared with the one before it, too.
    """
    baseline = report.standings[0].name
    head = ["", "what is different", "pages/s", "CPU s a page", "p50 s", "error rate", f"x {baseline}"]
    rows = [head + (["x the one before"] if with_steps else [])]
    rows.append(["---", "---"] + ["---:"] * (len(rows[0]) - 2))
    for index, (standing, facts) in enumerate(zip(report.standings, known, strict=True)):
        figures = standing.figures
        row = [standing.name, facts.about]
        row += [_number(figures.get("throughput"), 2), _number(figures.get("cpu"), 2), _number(figures.get("p50"), 2)]
        row += [f"{facts.error_rate:.4f}", "1" if index == 0 else _said(_ratio(report, 0, index))]
        if with_steps:
            row.append("" if index == 0 else _said(_ratio(report, index - 1, index)))
        rows.append(row)
    return "\n".join(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows)


def conditions(report: CompareReport, pages: Sequence[str]) -> str:
    """What the figures were measured on, in one sentence."""
    of = report.conditions
    return (
        f"{of.get('at', '?')}: {of.get('cpu', '?')}, {of.get('cores', '?')} cores, Python {of.get('python', '?')};"
        f" load average at the start {of.get('load_average_1min', '?')}. {report.concurrency} requests in flight from"
        f" the same machine, {len(report.rounds)} rounds of {report.round_s:g} s of each in turn; pages"
        f" {', '.join(pages)}, sent in turn. In brackets 95 % intervals."
    )


def sentences(report: CompareReport) -> list[str]:
    """What `trilith compare` says of each beside the baseline, and what a reader must know."""
    return [*(comparison.sentence for comparison in report.comparisons), *report.notes]


def _ratio(report: CompareReport, before: int, after: int) -> RatioEstimate | None:
    """Pages a second of one beside another, over the rounds in which both answered."""
    firsts, seconds, order = [], [], []
    for each in report.rounds:
        first, second = _rate(each.levels[before]), _rate(each.levels[after])
        if first and second:
            firsts.append(first)
            seconds.append(second)
            order.append(each.order.index(before) < each.order.index(after))
    return paired_ratio(firsts, seconds, baseline_first=order) if firsts else None


def _rate(level: LevelResult) -> float:
    return level.requests_per_s


def _said(ratio: RatioEstimate | None) -> str:
    if ratio is None:
        return "-"
    interval = f" ({ratio.low:.2f} to {ratio.high:.2f})" if ratio.rounds > 1 else " (one round)"
    return f"{ratio.ratio:.2f}{interval}"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
