"""Lines over two axes as SVG: no script, no font, no file from outside. Pure.

Rule 1: whatever the figures are, a drawing comes out: no point, one point, equal points, zeros on a logarithmic axis.
Rule 2: text that came from elsewhere is escaped here.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 640
HEIGHT: Final = 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 28, 16, 40
_NEXT_TO_NOTHING: Final = 1e-300  # a sixth of less may be no number any more
_COLOURS: Final = 8
"""`.c0` to `.c7` in the style sheet of the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line: its name, its points in order of x, and whether it is dashed. `colour` counts from 0."""

    name: str
    points: tuple[tuple[float, float], ...]
    colour: int = 0
    dashed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis: its label, how its figures are written, whether it is logarithmic, and its ticks if they are given."""

    label: str
    text: Callable[[float], str] = "{:g}".format
    logarithmic: bool = False
    ticks: tuple[tuple[float, str], ...] = ()


def line_plot(title: str, series: Sequence[Series], x_axis: Axis, y_axis: Axis) -> str:
    """A figure with its lines, ticks and legend, as an `<svg>` element."""
    drawn = [_cleaned(each, x_axis, y_axis) for each in series]
    points = [point for each in drawn for point in each.points]
    if not points:
        return f'<p class="none">{html.escape(title)}: nothing to draw.</p>'
    x_scale = _Scale([x for x, _ in points], x_axis, _LEFT, WIDTH - _RIGHT, from_zero=False)
    y_scale = _Scale([y for _, y in points], y_axis, HEIGHT - _BOTTOM, _TOP, from_zero=True)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(title)}">',
        f"<title>{html.escape(title)}</title>",
    ]
    for at, text in y_scale.ticks():
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{html.escape(text)}</text>'
        )
    for at, text in x_scale.ticks():
        bottom = HEIGHT - _BOTTOM
        parts.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{bottom}" y2="{bottom + 4}"/>')
        parts.append(
            f'<text class="tick" x="{at:.1f}" y="{bottom + 16}" text-anchor="middle">{html.escape(text)}</text>'
        )
    label = html.escape(x_axis.label)
    parts.append(f'<text class="label" x="{WIDTH - _RIGHT}" y="{HEIGHT - 6}" text-anchor="end">{label}</text>')
    parts.append(f'<text class="label" x="4" y="11">{html.escape(y_axis.label)}</text>')
    parts += [_line(each, x_scale, y_scale) for each in drawn if each.points]
    parts.append("</svg>")
    return "".join(parts) + _legend(drawn)


def _cleaned(series: Series, x_axis: Axis, y_axis: Axis) -> Series:
    kept = tuple(
        (x, y)
        for x, y in series.points
        if math.isfinite(x)
        and math.isfinite(y)
        and (y > 0 or not y_axis.logarithmic)
        and (x > 0 or not x_axis.logarithmic)
    )
    return Series(name=series.name, points=kept, colour=series.colour, dashed=series.dashed)


def _line(series: Series, x_scale: _Scale, y_scale: _Scale) -> str:
    at = [(x_scale.at(x), y_scale.at(y)) for x, y in series.points]
    colour = f"c{series.colour % _COLOURS}"
    dash = ' stroke-dasharray="5 4"' if series.dashed else ""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
    dots = (
        "".join(f'<circle class="{colour}" cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>' for x, y in at) if len(at) <= 40 else ""
    )
    return f'<polyline class="line {colour}" points="{path}"{dash}/>{dots}'


def _legend(series: Sequence[Series]) -> str:
    names = "".join(
        f'<span><i class="c{each.colour % _COLOURS}{" dashed" if each.dashed else ""}"></i>'
        f"{html.escape(each.name)}</span>"
        for each in series
        if each.points
    )
    return f'<div class="legend">{names}</div>'


class _Scale:
    """From a figure to a place on the drawing."""

    def __init__(self, values: Sequence[float], axis: Axis, start: float, end: float, *, from_zero: bool) -> None:
        self._axis = axis
        self._start = start
        self._end = end
        low, high = min(values), max(values)
        if axis.logarithmic:
            low, high = math.log10(low), math.log10(high)
            if high - low < 0.3:
                low, high = low - 0.15, high + 0.15
        else:
            low = min(low, 0.0) if from_zero else low
            if high - low < _NEXT_TO_NOTHING:
                high = low + (abs(low) if abs(low) > _NEXT_TO_NOTHING else 1.0)
            high += (high - low) * 0.05 if from_zero else 0.0
        self._low = low
        self._high = high

    def at(self, value: float) -> float:
        """The place of a figure."""
        value = math.log10(value) if self._axis.logarithmic else value
        return self._start + (value - self._low) / (self._high - self._low) * (self._end - self._start)

    def ticks(self) -> list[tuple[float, str]]:
        """Places and texts."""
        if self._axis.ticks:
            return [(self.at(value), text) for value, text in self._axis.ticks if self._low <= value <= self._high]
        if self._axis.logarithmic:
            found = [
                factor * 10.0**power
                for power in range(math.floor(self._low), math.ceil(self._high) + 1)
                for factor in (1, 2, 5)
            ]
            # Of the smallest numbers that there are, the tick below them is none.
            found = [value for value in found if value > 0 and self._low <= math.log10(value) <= self._high]
            while len(found) > 9:
                found = found[::3] if len(found) > 20 else found[::2]
        else:
            step = _step((self._high - self._low) / 6)
            first = math.ceil(self._low / step - 1e-9)
            found = [number * step for number in range(first, math.floor(self._high / step + 1e-9) + 1)]
        return [(self.at(value), self._axis.text(value)) for value in found]


def _step(size: float) -> float:
    """The next of 1, 2, 5, 10 ... that is no smaller."""
    power = 10.0 ** math.floor(math.log10(size))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= size * (1 - 1e-9))
