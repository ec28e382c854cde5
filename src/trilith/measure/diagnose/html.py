"""A diagnosis as one HTML file that needs nothing else: no script, no font, no network. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from trilith.measure.diagnose.diagnosis import Diagnosis
from trilith.measure.diagnose.evidence import Evidence, Level
from trilith.measure.diagnose.report import gain_words, verified_words
from trilith.measure.diagnose.waterfall import Waterfall
from trilith.measure.units import duration

_FLOOR_COLOURS: Final = {0: "#999999", 1: "#b0479c", 2: "#1f8a8a", 3: "#3b6fd4"}
_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; } td, th { padding: .15rem .7rem .15rem 0; text-align: right; white-space: nowrap; }
td:first-child, th:first-child { text-align: left; white-space: normal; } th { border-bottom: 1px solid #999; }
.small { color: #666; font-size: .9rem; } code { background: #f2f2f2; padding: 0 .2rem; } svg { max-width: 100%; }
"""


def to_html(diagnosis: Diagnosis) -> str:
    """The whole page."""
    verdict, evidence = diagnosis.verdict, diagnosis.evidence
    parts = [f"<h1>{escape(verdict.sentence)}</h1>", f"<p class=small>{escape(evidence.url)}</p>"]
    if verdict.floor != "unknown":
        where = f" ({verdict.where})" if verdict.where else ""
        parts.append(
            f"<p>Floor {escape(verdict.floor_words)}. Stage: <b>{escape(verdict.stage + where)}</b>. Confidence:"
            f" {verdict.confidence_word} ({verdict.confidence:.2f}).</p>"
        )
    parts.append(_list(verdict.evidence))
    if verdict.next_best is not None:
        parts.append(
            f"<p>Next-best explanation: <b>{escape(verdict.next_best.stage)}</b>:"
            f" {escape(verdict.next_best.sentence)}</p>"
        )
    if verdict.apart:
        parts.append(f"<p>What would tell: {escape(verdict.apart)}</p>")
    if verdict.changes:
        parts += ["<h2>What would help</h2>", _changes(diagnosis)]
    parts += ["<h2>The ladder of loads</h2>", _throughput(evidence), _ladder(evidence.levels)]
    for waterfall in diagnosis.waterfalls:
        title = f"Where {waterfall.title} spent its {duration(waterfall.latency_s)}"
        parts += [f"<h2>{title}, with {diagnosis.waterfall_load} in flight</h2>", _waterfall(waterfall)]
    level = next((each for each in evidence.levels if each.load == diagnosis.waterfall_load), None)
    if level is not None and level.processes:
        parts += [f"<h2>Where the processors go, with {level.load} in flight</h2>", _processors(level, evidence.cores)]
    parts.append(_list([f"Not read: {line}." for line in evidence.unread]))
    parts.append(f"<p class=small>{escape(', '.join(f'{key} {value}' for key, value in diagnosis.conditions.items()))}")
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(verdict.stage or 'no verdict')}:"
        f" {escape(evidence.url)}</title><style>{_STYLE}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


def _list(lines: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>" if lines else ""


def _changes(diagnosis: Diagnosis) -> str:
    items = []
    for change in diagnosis.verdict.changes:
        settings = "".join(
            f"<br><code>--set {escape(path)}={escape(str(value))}</code>" for path, value in change.settings.items()
        )
        predicted = f"<br>Predicted: {escape(gain_words(change))}." if change.gain is not None else ""
        items.append(f"<li>{escape(change.what)}{predicted} {escape(change.why)}{settings}</li>")
    verified = f"<p><b>{escape(verified_words(diagnosis.verified))}</b></p>" if diagnosis.verified is not None else ""
    return f"<ol>{''.join(items)}</ol>{verified}"


def _throughput(evidence: Evidence) -> str:
    """Throughput by load: points as measured, a line as the scalability law has it."""
    levels = [level for level in evidence.levels if level.requests_per_s > 0]
    if len(levels) < 2:
        return ""
    law, width, height = evidence.scalability, 560.0, 220.0
    most_load = levels[-1].load
    rates = [level.requests_per_s for level in levels]
    loads = [1 + step * (most_load - 1) / 60 for step in range(61)]
    curve = [(load, law.throughput_per_s(load)) for load in loads] if law is not None else []
    top = 1.1 * max([*rates, *(rate for _, rate in curve)])

    def place(load: float, rate: float) -> tuple[float, float]:
        return 50 + (width - 60) * load / most_load, height - 25 - (height - 35) * rate / top

    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in curve))
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#3b6fd4"><title>{level.load} in flight:'
        f" {level.requests_per_s:,.1f} a second</title></circle>"
        for level, (x, y) in ((level, place(level.load, level.requests_per_s)) for level in levels)
    )
    axis = f'<path d="M50 10V{height - 25}H{width - 10}" fill="none" stroke="#999"/>'
    words = (
        f'<text x="4" y="16" font-size="12">{top:,.0f}/s</text>'
        f'<text x="{width - 90}" y="{height - 6}" font-size="12">{most_load} in flight</text>'
    )
    return _svg(width, height, f'{axis}<polyline points="{line}" fill="none" stroke="#b0479c"/>{dots}{words}')


def _ladder(levels: Iterable[Level]) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("load", "req/s", "p50", "p99", "failed", "CPU/req", "cores wanted"))
    rows = []
    for level in levels:
        cpu = "-" if level.server_cpu_s is None else duration(level.server_cpu_s)
        wanted = "-" if level.runnable is None else f"{level.runnable:.2f}"
        cells = (
            str(level.load),
            f"{level.requests_per_s:,.1f}",
            duration(level.latency.p50_s),
            duration(level.latency.p99_s),
            str(level.failed),
            cpu,
            wanted,
        )
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _waterfall(waterfall: Waterfall) -> str:
    row, left, width = 18.0, 330.0, 880.0
    scale = (width - left - 60) / waterfall.latency_s if waterfall.latency_s > 0 else 0.0
    drawn = []
    for number, bar in enumerate(waterfall.bars):
        y, x = number * row, left + bar.start_s * scale
        wide = max(1.0, (bar.end_s - bar.start_s) * scale)
        colour, faint = _FLOOR_COLOURS.get(bar.floor, "#999999"), "0.35" if bar.waiting else "1"
        drawn.append(
            f'<text x="{bar.depth * 10}" y="{y + 13}" font-size="11">{escape(bar.label)}</text>'
            f'<rect x="{x:.1f}" y="{y + 3}" width="{wide:.1f}" height="12" fill="{colour}" fill-opacity="{faint}"/>'
            f'<text x="{min(x + wide + 4, width - 55):.1f}" y="{y + 13}" font-size="11">'
            f"{duration(bar.end_s - bar.start_s)}</text>"
        )
    note = f"<p class=small>Pale: waiting. {waterfall.left_out} spans are too short to show.</p>"
    return _svg(width, row * len(waterfall.bars) + 4, "".join(drawn)) + note


def _processors(level: Level, cores: int) -> str:
    row, left, width = 20.0, 220.0, 700.0
    seen = [process for process in level.processes if process.runnable >= 0.01]
    scale = (width - left - 80) / max([float(cores), *(process.runnable for process in seen)])
    drawn = []
    for number, process in enumerate(seen):
        y, used, wanted = number * row, process.cpu * scale, process.delay * scale
        drawn.append(
            f'<text x="0" y="{y + 14}" font-size="12">{escape(process.role)} ({process.pid})</text>'
            f'<rect x="{left}" y="{y + 3}" width="{used:.1f}" height="13" fill="#3b6fd4"/>'
            f'<rect x="{left + used:.1f}" y="{y + 3}" width="{wanted:.1f}" height="13" fill="#3b6fd4"'
            ' fill-opacity="0.3"/>'
            f'<text x="{left + used + wanted + 4:.1f}" y="{y + 14}" font-size="12">{process.cpu:.2f} +'
            f" {process.delay:.2f}</text>"
        )
    note = f"<p class=small>In cores, of {cores}. Dark: used. Pale: ready, and had none.</p>"
    return _svg(width, row * len(seen) + 4, "".join(drawn)) + note


def _svg(width: float, height: float, content: str) -> str:
    return f'<svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" xmlns="http://www.w3.org/2000/svg">{content}</svg>'
