"""Draws what was read into the image, so that a person can judge it at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import cv2
import numpy as np
from geometry import Array
from lines import Line
from PIL import Image, ImageDraw, ImageFont

_BOX: Final = (200, 90, 0)  # blue-green-red
_TEXT: Final = (0, 90, 200)  # red-green-blue
_GUTTER_PIXELS: Final = 12


def draw(image: Array, lines: Sequence[Line]) -> Array:
    """The page with its boxes on the left, and the text as it was read, each piece in its place, on the right.

    Args:
        image: blue-green-red uint8 [height, width, 3].
        lines: what was read on it.
    """
    marked = image.copy()
    for line in lines:
        cv2.polylines(marked, [np.array(line.box, np.int32)], isClosed=True, color=_BOX, thickness=2)
    gutter = np.full((image.shape[0], _GUTTER_PIXELS, 3), 128, np.uint8)
    return np.hstack([marked, gutter, _as_read(image.shape[1], image.shape[0], lines)])


def _as_read(width: int, height: int, lines: Sequence[Line]) -> Array:
    picture = Image.new("RGB", (width, height), "white")
    pen = ImageDraw.Draw(picture)
    for line in lines:
        (left, top), (right, _), _, (_, bottom) = line.box
        size = max(8.0, 0.75 * (bottom - top))
        font = ImageFont.load_default(size)
        if (natural := pen.textlength(line.text, font)) > right - left > 0:
            font = ImageFont.load_default(max(8.0, size * (right - left) / natural))
        pen.text((left, (top + bottom) / 2), line.text, fill=_TEXT, font=font, anchor="lm")
    return np.asarray(picture)[:, :, ::-1]
