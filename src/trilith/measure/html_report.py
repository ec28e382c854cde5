"""A report as one HTML page that needs nothing else: figures, plots, notes, conditions."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import Final

from trilith.measure.breakdown import FLOOR_NAMES, Breakdown
from trilith.measure.report import per_second
from trilith.measure.report_notes import level_place, notes
from trilith.measure.results import BenchReport, LevelResult
from trilith.measure.svg_plot import Axis, Series, line_plot
from trilith.measure.units import duration, size

_HUES: Final = ("#2f6fde", "#d9622b", "#2a9d5c", "#a04bc4", "#c79a12", "#1aa3b8", "#d0467a", "#7a7f87")
_TICKS: Final = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999)
_MOST_TIMELINES: Final = 24


def to_html(report: BenchReport) -> str:
    """The whole page."""
    style = resources.files("trilith.measure").joinpath("html_report.css").read_text("utf-8")
    title = html.escape(f"{report.method} {report.url}".strip())
    colours = "".join(
        f".c{index}{{stroke:{hue};fill:{hue};border-color:{hue};background:{hue}}}.line.c{index}{{fill:none}}"
        for index, hue in enumerate(_HUES)
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>trilith bench: {title}</title><style>{style}{colours}</style><h1>{title}</h1>"
        + "".join(_sections(report))
        + "</html>\n"
    )


def _sections(report: BenchReport) -> Iterator[str]:
    for note in notes(report):
        yield f'<p class="{"bad" if "SPOILED" in note or "NOT kept" in note else "warn"}">{html.escape(note)}</p>'
    if not report.levels:
        yield '<p class="none">Nothing was measured.</p>'
        yield _conditions(report)
        return
    yield "<h2>Levels</h2>" + _table(report)
    levels = [level for level in report.levels if level.latency.count]
    yield "<h2>Load and latency</h2><div class='plots'>" + _by_load(levels) + _percentiles(levels) + "</div>"
    yield "<h2>Second by second</h2><div class='plots'>"
    for level in levels[-_MOST_TIMELINES:]:
        yield _timeline(level)
    yield "</div>"
    for level in reversed(levels):
        if level.breakdown is not None:
            yield f"<h2>Where the time goes at {html.escape(level_place(level))}</h2>" + _breakdown(level.breakdown)
            break
    yield _conditions(report)


def _table(report: BenchReport) -> str:
    columns = ["load", "req/s", "95 % interval", "p50", "p90", "p99", "99.9 %", "max", "mean", "failed"]
    columns += ["in time", "goodput/s"] if report.slo is not None else []
    columns += ["CPU/req"] if any(level.server_cpu_s is not None for level in report.levels) else []
    columns += ["lag p99", "client", "data"]
    return _html_table(columns, [_row(level, columns) for level in report.levels])


def _row(level: LevelResult, columns: Sequence[str]) -> list[str]:
    latency, at = level.latency, dict(level.percentiles)
    throughput, cpu_s = level.sureness.requests_per_s, level.server_cpu_per_request_s
    cells = {
        "load": level.name,
        "req/s": per_second(level.requests_per_s),
        "95 % interval": "" if throughput is None else f"{throughput.low:,.1f} to {throughput.high:,.1f}",
        "p50": duration(latency.p50_s),
        "p90": duration(latency.p90_s),
        "p99": duration(latency.p99_s),
        "99.9 %": duration(at.get(0.999, 0.0)),
        "max": duration(latency.max_s),
        "mean": duration(latency.mean_s),
        "failed": f"{level.failed:,}",
        "in time": "" if level.slo is None else f"{level.slo.good_share:.2%}",
        "goodput/s": "" if level.slo is None else per_second(level.slo.goodput_per_s),
        "CPU/req": "" if cpu_s is None else duration(cpu_s),
        "lag p99": "" if level.open is None else duration(level.open.lag.p99_s),
        "client": f"{level.generator.cpu_share:.0%}",
        "data": size(level.sent_bytes + level.received_bytes),
    }
    return [cells[column] for column in columns]


def _html_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _figure(caption: str, drawing: str) -> str:
    return f"<figure><figcaption>{html.escape(caption)}</figcaption>{drawing}</figure>"


def _by_load(levels: Sequence[LevelResult]) -> str:
    """Latency over throughput: where the line turns up, something is full."""
    ordered = sorted(levels, key=lambda level: level.requests_per_s)
    named = (
        ("p50", 0, [level.latency.p50_s for level in ordered]),
        ("p99", 1, [level.latency.p99_s for level in ordered]),
    )
    series = [
        Series(
            name=name,
            colour=colour,
            points=tuple((level.requests_per_s, value) for level, value in zip(ordered, values, strict=True)),
        )
        for name, colour, values in named
    ]
    drawing = line_plot(
        "Latency over throughput",
        series,
        Axis(label="answers a second"),
        Axis(label="latency", text=duration, logarithmic=True),
    )
    return _figure("Latency over throughput, a point for each level", drawing)


def _percentiles(levels: Sequence[LevelResult]) -> str:
    series = [
        Series(
            name=level.name,
            colour=index,
            points=tuple((_nines(fraction), value) for fraction, value in level.percentiles if fraction < 1.0),
        )
        for index, level in enumerate(levels[-8:])
    ]
    ticks = tuple((_nines(fraction), f"{fraction * 100:g} %") for fraction in _TICKS)
    drawing = line_plot(
        "Latency by percentile", series, Axis(label="share of requests", ticks=ticks),
        Axis(label="latency", text=duration, logarithmic=True),
    )  # fmt: skip
    return _figure("Latency that a share of the requests did not exceed", drawing)


def _nines(fraction: float) -> float:
    return -math.log10(1.0 - fraction)


def _timeline(level: LevelResult) -> str:
    seconds = level.seconds
    rate = Series(name="answers/s", colour=2, points=tuple((each.at_s, each.requests_per_s) for each in seconds))
    failed = Series(
        name="failed/s", colour=6, points=tuple((each.at_s, each.failed / each.length_s) for each in seconds)
    )
    latency = [
        Series(name="p50", colour=0, points=tuple((each.at_s, each.p50_s) for each in seconds)),
        Series(name="p99", colour=1, points=tuple((each.at_s, each.p99_s) for each in seconds)),
    ]
    if level.slo is not None and seconds:
        limit = level.slo.slo.limit_s
        ends = ((seconds[0].at_s, limit), (seconds[-1].at_s, limit))
        latency.append(Series(name="promise", colour=7, points=ends, dashed=True))
    shown = [rate, failed] if level.failed else [rate]
    across = Axis(label="seconds")
    return _figure(
        f"{level_place(level)}: throughput", line_plot("Throughput over time", shown, across, Axis(label="a second"))
    ) + _figure(
        f"{level_place(level)}: latency",
        line_plot("Latency over time", latency, across, Axis(label="latency", text=duration, logarithmic=True)),
    )


def _breakdown(breakdown: Breakdown) -> str:
    pieces = "".join(
        f'<div class="c{floor.floor}" style="width:{floor.share:.2%}"></div>'
        for floor in breakdown.floors
        if floor.share > 0
    )
    names = "".join(
        f'<span><i class="c{floor.floor}"></i>{floor.floor or ""} {FLOOR_NAMES[floor.floor]} {floor.share:.0%}</span>'
        for floor in breakdown.floors
    )
    spans = [
        [
            f"{span.key.name}: {span.key.earlier} -> {span.key.later}{' (waiting)' if span.key.waiting else ''}",
            f"{span.share:.1%}", duration(span.attributed.mean_s), duration(span.attributed.p50_s),
            duration(span.attributed.p99_s), f"{span.calls_per_request:.3g}",
        ]
        for span in breakdown.spans
    ]  # fmt: skip
    table = _html_table(["span", "share", "mean", "p50", "p99", "calls"], spans)
    return f"<div class='bar'>{pieces}</div><div class='legend'>{names}</div>{table}"


def _conditions(report: BenchReport) -> str:
    known = [*report.conditions.items(), ("seed", report.seed), ("sent", ", ".join(report.bodies) or "nothing")]
    rows = "".join(
        f"<tr><td>{html.escape(str(name))}</td><td class='text'>{html.escape(str(value))}</td></tr>"
        for name, value in known
    )
    return f"<h2>Conditions</h2><table>{rows}</table>"
