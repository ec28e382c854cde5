"""Cuts lines of text out of a page, upright. Pure functions on arrays."""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np
from geometry import Array, side_lengths

_VERTICAL_RATIO: Final = 1.5


def cut(image: Array, box: Array) -> Array:
    """The part of the image [height, width, 3] inside a box [4, 2], rectified to an upright rectangle.

    A box that is much higher than wide holds vertical text and is turned by 90 degrees, as PaddleOCR does.
    """
    width, height = (max(1, int(side)) for side in side_lengths(box))
    target = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    crop = cv2.warpPerspective(
        image,
        cv2.getPerspectiveTransform(box, target),
        (width, height),
        flags=cv2.INTER_CUBIC,
        borderMode=cv2.BORDER_REPLICATE,
    )
    return np.ascontiguousarray(np.rot90(crop)) if height >= _VERTICAL_RATIO * width else crop
