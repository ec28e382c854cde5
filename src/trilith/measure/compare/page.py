"""A comparison as one page: the sentences, every ratio with its interval as a picture, and the tables. Pure.

Rule: a page is one file that shows itself: no script, nothing fetched.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from html import escape
from typing import Final

from rich.console import Console

from trilith.measure.compare.results import METRICS, CompareReport, Comparison
from trilith.measure.compare.table import render_comparison
from trilith.measure.statistics import RatioEstimate

_WIDTH: Final = 640
_LEFT: Final = 130
_RIGHT: Final = 170
_ROW: Final = 30
_TICKS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 1.0, 1.25, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222; }
pre { font-size: 13px; overflow-x: auto; background: #f6f6f6; padding: 1em; }
.result { font-size: 1.15em; font-weight: 600; }
.note { color: #8a5a00; }
svg text { font: 12px system-ui, sans-serif; fill: #222; }
"""


def comparison_to_html(report: CompareReport) -> str:
    """The whole comparison as a page."""
    title = f"{' beside '.join(standing.name for standing in report.standings)}: a comparison"
    body = [f"<h1>{escape(title)}</h1>"]
    for comparison in report.comparisons:
        body.append(f'<p class="result">{escape(comparison.sentence)}</p>')
        body.append(_picture(comparison))
    body.extend(f'<p class="note">{escape(note)}</p>' for note in report.notes)
    conditions = ", ".join(f"{name}: {value}" for name, value in report.conditions.items())
    body += ["<h2>Figures</h2>", _tables(report), f"<h2>Conditions</h2><p>{escape(conditions)}</p>"]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _tables(report: CompareReport) -> str:
    console = Console(record=True, file=io.StringIO(), width=120, highlight=False)
    console.print(render_comparison(report))
    return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")


def _picture(comparison: Comparison) -> str:
    """Each ratio as a point on its interval; left and right of 1 on a logarithmic axis."""
    rows = [(metric, comparison.ratios[metric.key]) for metric in METRICS if metric.key in comparison.ratios]
    if not rows:
        return ""
    reach = _reach([ratio for _, ratio in rows])
    height = _ROW * len(rows) + 40
    parts = [f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img">']
    for tick in _TICKS:
        if 1 / reach <= tick <= reach:
            at, colour = _at(tick, reach), "#999" if tick == 1.0 else "#e4e4e4"
            parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="5" y2="{height - 30}" stroke="{colour}"/>')
            parts.append(f'<text x="{at:.1f}" y="{height - 14}" text-anchor="middle">{tick:g}</text>')
    for number, (metric, ratio) in enumerate(rows):
        middle = _ROW * number + 22
        better = (ratio.low > 1.0) if metric.more_is_better else (ratio.high < 1.0)
        worse = (ratio.high < 1.0) if metric.more_is_better else (ratio.low > 1.0)
        colour = "#1a7f37" if better else "#b42318" if worse else "#666"
        low, high = _at(ratio.low, reach), _at(ratio.high, reach)
        parts.append(f'<text x="{_LEFT - 12}" y="{middle + 4}" text-anchor="end">{escape(metric.title)}</text>')
        parts.append(
            f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{middle}" y2="{middle}" stroke="{colour}" stroke-width="3"/>'
        )
        parts.append(f'<circle cx="{_at(ratio.ratio, reach):.1f}" cy="{middle}" r="5" fill="{colour}"/>')
        said = f"{ratio.ratio:.3g} ({ratio.low:.3g} to {ratio.high:.3g})"
        parts.append(f'<text x="{_WIDTH - _RIGHT + 14}" y="{middle + 4}">{said}</text>')
    return "\n".join([*parts, "</svg>"])


def _reach(ratios: Sequence[RatioEstimate]) -> float:
    """The largest ratio, or inverse of one, that the axis shows."""
    ends = [
        abs(math.log(end)) for ratio in ratios for end in (ratio.low, ratio.ratio, ratio.high) if 0 < end < math.inf
    ]
    return min(200.0, max(1.3, math.exp(max(ends) * 1.05)))


def _at(ratio: float, reach: float) -> float:
    """Where a ratio is on the axis; what is beyond it at its end."""
    share = 0.0 if ratio <= 0 else 1.0 if math.isinf(ratio) else 0.5 + math.log(ratio) / (2 * math.log(reach))
    return _LEFT + min(1.0, max(0.0, share)) * (_WIDTH - _LEFT - _RIGHT)
