"""A breakdown as a table and a sentence for a person. Only builds what rich prints.

Rule 1: floors in order of their share, and under each its spans in order of time.
Rule 2: spans too short to matter are one row a floor, and those that take no time at all none. A wait stays when its
        calls are long although something else computed meanwhile, so that it counts for little: calls queue up.
Rule 3: a column that would say nothing is left out: percentiles of one request, times per call of single calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from trilith.measure.attribution import SpanKey
from trilith.measure.breakdown import FLOOR_NAMES, OUTSIDE, OUTSIDE_SPAN, Breakdown, FloorTimes, SpanTimes
from trilith.measure.histogram import DurationSummary
from trilith.measure.units import duration

_SMALL_SHARE: Final = 0.005
"""Of the whole latency; a span below it has no row of its own."""

_BESIDE: Final = "beside"
"""In place of a share of nothing, of a wait that is long call by call."""

_LONG_WAIT: Final = 0.05
"""Of the whole latency; a wait of which one call takes longer has a row in any case."""


def breakdown_table(breakdown: Breakdown, title: str) -> Table:
    """Which floor, part and stage took the time."""
    distribution, several = breakdown.requests > 1, _several_calls(breakdown)
    beside = several and any(_is_beside(span, breakdown.latency) for span in breakdown.spans)
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 0),
        caption="Each instant counts once: for what computes, or else for what waits."
        + (" per call: of one call, whatever ran beside it." if several else "")
        + (f" {_BESIDE}: it passed while something else computed." if beside else ""),
        caption_justify="left",
    )
    table.add_column("floor, span")
    names = ["share", *(["mean", "p50", "p99"] if distribution else ["time"]), "calls"]
    for name in [*names, *(["per call", "p99"] if several else [])]:
        table.add_column(name, justify="right", no_wrap=True)
    for floor in breakdown.floors:
        label = _Label(floor_name(floor.floor), OUTSIDE_SPAN.name if floor.floor == OUTSIDE else "", indent=0)
        table.add_row(label, *_time_cells(floor.share, floor.attributed, distribution), style="bold")
        for row in _span_rows(breakdown, floor, distribution, several):
            table.add_row(*row)
        table.add_section()
    table.add_row("all", *_time_cells(1.0, breakdown.latency, distribution), style="bold")
    return table


def verdict(breakdown: Breakdown) -> str:
    """The floor that takes the largest part of the time, and its longest span, in one sentence."""
    floor = breakdown.floors[0]
    most = "Most" if floor.share > 0.5 else "The largest part"
    if floor.floor == OUTSIDE:
        return (
            f"{most} of the time, {floor.share:.0%}, passes outside the server's stamps: network, kernel, client, or"
            " requests that wait to be read because the gateway is busy."
        )
    span = max((span for span in breakdown.spans if span.key.floor == floor.floor), key=lambda span: span.share)
    return (
        f"{most} of the time, {floor.share:.0%}, goes to {floor_name(floor.floor)}; there most to"
        f" {'waiting in ' if span.key.waiting else ''}{span.key.name}, {_stages(span.key)} ({span.share:.0%})."
    )


def floor_name(floor: int) -> str:
    """A floor by number and name."""
    name = FLOOR_NAMES.get(floor, "unknown")
    return f"{floor} {name}" if floor != OUTSIDE else name


class _Label:
    """`name: detail`; where that is too wide, the detail is on a line of its own."""

    __slots__ = ("_indent", "_lines")

    def __init__(self, name: str, detail: str = "", *, indent: int = 2) -> None:
        self._indent = " " * indent
        self._lines = [f"{name}:", detail] if detail else [name]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        whole = Text(self._indent + " ".join(self._lines))
        if whole.cell_len <= options.max_width:
            yield whole
            return
        for depth, line in enumerate(self._lines):
            yield Text(self._indent + "  " * depth + line, overflow="fold")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        narrow = max(Text(line).cell_len + 2 * depth for depth, line in enumerate(self._lines))
        whole = Text(" ".join(self._lines)).cell_len
        return Measurement(len(self._indent) + narrow, len(self._indent) + whole).with_maximum(options.max_width)


def _span_rows(breakdown: Breakdown, floor: FloorTimes, distribution: bool, several: bool) -> list[list[_Label | str]]:
    """The rows of a floor's spans, the small ones together at the end."""
    if floor.floor == OUTSIDE:
        return []  # one span, which the floor's row tells
    spans = [span for span in breakdown.spans if span.key.floor == floor.floor and span.per_call.max_s > 0]
    small = [span for span in spans if _is_small(span, breakdown.latency)]
    if len(small) == 1:
        small = []
    rows: list[list[_Label | str]] = [
        [_Label(span.key.name, _stages(span.key)), *_span_cells(span, distribution, several)]
        for span in spans
        if span not in small
    ]
    if small:
        share, mean_s = sum(span.share for span in small), sum(span.attributed.mean_s for span in small)
        rows.append([_Label(f"{len(small)} others"), f"{share:.1%}", duration(mean_s)])
    return rows


def _is_small(span: SpanTimes, latency: DurationSummary) -> bool:
    long_wait = span.key.waiting and span.per_call.mean_s >= _LONG_WAIT * latency.mean_s
    return span.share < _SMALL_SHARE and not long_wait


def _is_beside(span: SpanTimes, latency: DurationSummary) -> bool:
    return not span.attributed.max_s and span.per_call.max_s > 0 and not _is_small(span, latency)


def _several_calls(breakdown: Breakdown) -> bool:
    """Whether requests pass some span more than once."""
    return any(span.calls_per_request > 1 for span in breakdown.spans)


def _span_cells(span: SpanTimes, distribution: bool, several: bool) -> list[str]:
    cells = [*_time_cells(span.share, span.attributed, distribution), f"{span.calls_per_request:.3g}"]
    if several and span.calls_per_request > 1:
        cells += [duration(span.per_call.mean_s), duration(span.per_call.p99_s)]
    if several and not span.attributed.max_s and span.calls_per_request > 1:
        cells[0] = _BESIDE
    return cells


def _time_cells(share: float, times: DurationSummary, distribution: bool) -> list[str]:
    shown: Sequence[float] = (times.mean_s, times.p50_s, times.p99_s) if distribution else (times.mean_s,)
    return [f"{share:.1%}", *(duration(seconds) for seconds in shown)]


def _stages(key: SpanKey) -> str:
    return f"{key.earlier} -> {key.later}"
