from __future__ import annotations

import numpy as np
import pytest
from geometry import ordered_corners, page_angle, reading_order, side_lengths
from hypothesis import given
from hypothesis import strategies as st


def box(x: float, y: float, width: float = 80, height: float = 20) -> list[list[float]]:
    return [[x, y], [x + width, y], [x + width, y + height], [x, y + height]]


def turned(boxes: np.ndarray, degrees: float) -> np.ndarray:
    angle = np.radians(degrees)
    matrix = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return (boxes @ matrix.T).astype(np.float32)


@given(st.permutations(range(4)), st.floats(-40, 40))
def test_corners_have_one_order_however_they_come(order: list[int], degrees: float):
    corners = turned(np.array(box(100, 100)), degrees)
    assert np.array_equal(ordered_corners(corners[list(order)]), corners)


def test_sides():
    assert side_lengths(np.array(box(5, 5, 80, 20), np.float32)) == (80.0, 20.0)


@given(st.integers(1, 8), st.integers(1, 6), st.floats(-12, 12), st.randoms(use_true_random=False))
def test_a_table_is_read_row_by_row_whatever_its_angle(rows: int, columns: int, degrees: float, chance):
    cells = [(row, column) for row in range(rows) for column in range(columns)]
    chance.shuffle(cells)
    boxes = turned(np.array([box(column * 300, row * 50) for row, column in cells], np.float32), degrees)
    read = [[cells[index] for index in row] for row in reading_order(boxes)]
    assert read == [[(row, column) for column in range(columns)] for row in range(rows)]
    assert page_angle(boxes) == pytest.approx(np.radians(degrees), abs=1e-3)


def test_pieces_of_unequal_height_stand_in_one_row():
    boxes = np.array([box(0, 0, 80, 20), box(100, 5, 80, 10), box(0, 40, 80, 20)], np.float32)
    assert reading_order(boxes) == [[0, 1], [2]]


def test_an_empty_page_has_no_rows():
    assert reading_order(np.zeros((0, 4, 2), np.float32)) == []
