from __future__ import annotations

from dataclasses import replace

import accuracy
import numpy as np
import pages
import pytest
from draw import draw
from hypothesis import given
from hypothesis import strategies as st
from lines import Line

BUILT_IN = pages.Style(face=pages.BUILT_IN_FACE, size=16, rows=4)  # the face that needs no fetching


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("ab", "ba", 2), ("x", "x", 0)],
)
def test_edit_distances(one: str, other: str, distance: int):
    assert accuracy.edit_distance(one, other) == distance
    assert accuracy.edit_distance(other, one) == distance


def slow_distance(one: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for number, character in enumerate(one, 1):
        before, row = row, [number]
        for column, expected in enumerate(other):
            row.append(min(before[column + 1] + 1, row[-1] + 1, before[column] + (character != expected)))
    return row[-1]


@given(st.text("abc", max_size=12), st.text("abc", max_size=12))
def test_edit_distance_agrees_with_the_textbook(one: str, other: str):
    assert accuracy.edit_distance(one, other) == slow_distance(one, other)


def test_the_error_rate_knows_no_line_breaks():
    assert accuracy.character_error_rate(["a b", "c"], ["a", "b  c"]) == 0.0
    assert accuracy.character_error_rate(["abXd"], ["abcd"]) == 0.25
    with pytest.raises(ValueError, match="empty"):
        accuracy.character_error_rate(["a"], [" "])


def test_the_same_seed_gives_the_same_page_and_another_seed_another():
    first, again = pages.invoice(BUILT_IN), pages.invoice(BUILT_IN)
    assert np.array_equal(first.image, again.image)
    assert first.lines == again.lines
    other = pages.invoice(replace(BUILT_IN, seed=8))
    assert other.lines != first.lines


def test_a_page_says_what_stands_on_it_and_where():
    page = pages.invoice(BUILT_IN)
    assert page.image.dtype == np.uint8
    assert page.image.flags.c_contiguous
    assert len(page.lines) == 2 + 1 + BUILT_IN.rows + 1
    assert len(page.boxes) == 2 * 2 + (1 + BUILT_IN.rows) * 6 + 2
    for box in page.boxes:
        left, top, right, bottom = (round(value) for value in (*box[0], *box[2]))
        assert page.image[top:bottom, left:right].min() < 100, "there is ink in each box"
    assert page.png().startswith(b"\x89PNG")


def test_a_turned_page_keeps_its_boxes_on_the_ink():
    page = pages.invoice(replace(BUILT_IN, angle=5.0))
    height, width = page.image.shape[:2]
    assert (page.boxes >= 0).all()
    assert (page.boxes <= (width, height)).all()
    top = page.boxes[0][1] - page.boxes[0][0]
    assert np.degrees(np.arctan2(-top[1], top[0])) == pytest.approx(5, abs=0.5)
    for box in page.boxes:
        x, y = box.mean(axis=0).round().astype(int)
        assert page.image[y - 8 : y + 8, x - 12 : x + 12].min() < 150


def test_wear_changes_the_image_and_not_the_text():
    clean = pages.invoice(BUILT_IN)
    worn = pages.invoice(replace(BUILT_IN, noise=10.0, jpeg_quality=40))
    assert worn.lines == clean.lines
    assert worn.image.shape == clean.image.shape
    assert not np.array_equal(worn.image, clean.image)


def test_drawing_shows_the_page_and_the_text_side_by_side():
    page = pages.invoice(BUILT_IN)
    line = Line(text="Invoice", score=1.0, box=[(10, 10), (90, 10), (90, 30), (10, 30)], row=0)
    drawn = draw(page.image, [line])
    assert drawn.shape[0] == page.image.shape[0]
    assert drawn.shape[1] > 2 * page.image.shape[1]
    assert drawn[10, 50].tolist() == [200, 90, 0]
    assert drawn[:, page.image.shape[1] + 12 :].min() < 100
