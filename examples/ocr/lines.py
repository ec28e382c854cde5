"""What the pipeline answers: lines of text with their place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from geometry import Array
from recognition import Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One piece of text on a page.

    Attributes:
        text: what it says.
        score: how sure the recogniser is, 0 to 1.
        box: its four corners (x, y) in pixels, clockwise from the top left.
        row: number of the row on the page that it stands in; pieces of one row are in order from left to right.
    """

    text: str
    score: float
    box: list[tuple[float, float]]
    row: int


def to_lines(rows: Sequence[Sequence[int]], boxes: Array, readings: Sequence[Reading]) -> list[Line]:
    """Joins boxes [N, 4, 2] and their readings, both in the order of `rows`' indices, to lines in reading order."""
    return [
        Line(
            text=readings[index].text,
            score=readings[index].score,
            box=[(float(x), float(y)) for x, y in boxes[index]],
            row=number,
        )
        for number, row in enumerate(rows)
        for index in row
    ]


def row_texts(lines: Sequence[Line]) -> list[str]:
    """The text of each row, its pieces joined by a space."""
    rows: dict[int, list[str]] = {}
    for line in lines:
        rows.setdefault(line.row, []).append(line.text)
    return [" ".join(texts) for _, texts in sorted(rows.items())]
