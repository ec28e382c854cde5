"""Quadrilaterals on a page: their corners, and the order in which a person reads them.

Rule 1: a box is a float32 array [4, 2] of (x, y) in pixels, clockwise from the text's top left corner.
Rule 2: pure functions on arrays; nothing here knows models, images or services.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def ordered_corners(points: Array) -> Array:
    """The four corners in the order top left, top right, bottom right, bottom left.

    Args:
        points: [4, 2], in any order. The two leftmost are the left side, as in PaddleOCR's `get_mini_boxes`.
    """
    by_x = points[np.argsort(points[:, 0], kind="stable")]
    left = by_x[:2][np.argsort(by_x[:2, 1], kind="stable")]
    right = by_x[2:][np.argsort(by_x[2:, 1], kind="stable")]
    return np.array([left[0], right[0], right[1], left[1]], np.float32)


def side_lengths(box: Array) -> tuple[float, float]:
    """The box's width and height in pixels: the longer one of each pair of opposite sides."""
    width = max(np.linalg.norm(box[1] - box[0]), np.linalg.norm(box[2] - box[3]))
    height = max(np.linalg.norm(box[3] - box[0]), np.linalg.norm(box[2] - box[1]))
    return float(width), float(height)


def page_angle(boxes: Array) -> float:
    """The angle of the page's lines in radians: the median over the boxes [N, 4, 2] of their top sides."""
    top = boxes[:, 1] - boxes[:, 0]
    return float(np.median(np.arctan2(top[:, 1], top[:, 0])))


def reading_order(boxes: Array) -> list[list[int]]:
    """Groups boxes [N, 4, 2] into rows, top to bottom, and each row left to right; returns their indices.

    Positions are taken along the page's own axes, not the image's: on a page that is rotated by three degrees the right
    end of a line is as low as the left end of the next one.
    """
    if len(boxes) == 0:
        return []
    angle = page_angle(boxes)
    along = np.array([np.cos(angle), np.sin(angle)])
    down = np.array([-np.sin(angle), np.cos(angle)])
    centres = boxes.mean(axis=1)
    across, depth = centres @ along, centres @ down
    heights = [side_lengths(box)[1] for box in boxes]

    rows: list[list[int]] = []
    row_depth = 0.0
    for index in np.argsort(depth, kind="stable").tolist():
        if rows and abs(depth[index] - row_depth) < heights[index] / 2:
            rows[-1].append(index)
            row_depth += (depth[index] - row_depth) / len(rows[-1])
        else:
            rows.append([index])
            row_depth = float(depth[index])
    return [sorted(row, key=lambda index: float(across[index])) for row in rows]
