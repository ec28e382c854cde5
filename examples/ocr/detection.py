"""Where the text is: what goes into the detection model, and what its probability map means.

The model (PP-OCRv6 det, a DBNet) takes a blue-green-red image scaled to [-1, 1], with sides that are multiples of 32,
and gives for each pixel the probability that it is inside the shrunken core of a line of text. Post-processing follows
"Real-time Scene Text Detection with Differentiable Binarization" (Liao et al., 2020), except that a box is grown as a
rectangle rather than as a polygon: for rectangles the two differ by at most 4 pixels at the corners, and no polygon
library is needed.

Rule: pure functions on arrays; whoever calls them runs the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import cv2
import numpy as np
from geometry import Array, ordered_corners

Rectangle = tuple[Sequence[float], Sequence[float], float]
"""A turned rectangle as OpenCV has it: centre, sides, angle in degrees."""

_STRIDE: Final = 32
_MOST_CONTOURS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionSettings:
    """The numbers of detection; the defaults are the best ones measured on invoices.

    Attributes:
        longest_side: images are scaled down so that their longer side has at most this many pixels; never up.
        pixel_threshold: probability above which a pixel belongs to text.
        box_threshold: mean probability that a box needs. 0.6 already loses boxes on rotated pages.
        unclip_ratio: how far a box grows back from the core that the model marks.
        least_side: boxes with a shorter side, in pixels of the map, are noise.
    """

    longest_side: int = 736
    pixel_threshold: float = 0.3
    box_threshold: float = 0.5
    unclip_ratio: float = 1.6
    least_side: float = 3.0


DEFAULTS: Final = DetectionSettings()


def input_size(height: int, width: int, longest_side: int) -> tuple[int, int]:
    """The height and width that the model sees, each the nearest multiple of 32."""
    scale = min(1.0, longest_side / max(height, width))
    return _multiple(height * scale), _multiple(width * scale)


def _multiple(side: float) -> int:
    return max(_STRIDE, round(side / _STRIDE) * _STRIDE)


def to_input(image: Array, settings: DetectionSettings = DEFAULTS) -> Array:
    """The model's input, float32 [1, 3, H, W], of a blue-green-red uint8 image [height, width, 3]."""
    height, width = input_size(image.shape[0], image.shape[1], settings.longest_side)
    middle = (127.5, 127.5, 127.5)
    return cv2.dnn.blobFromImage(image, 1 / 127.5, (width, height), middle)


def from_output(
    probabilities: Array, height: int, width: int, settings: DetectionSettings = DEFAULTS
) -> tuple[Array, Array]:
    """The boxes in a probability map.

    Args:
        probabilities: the model's output, float32 [1, 1, H, W].
        height: of the original image, in pixels.
        width: of the original image, in pixels.
        settings: thresholds.

    Returns:
        boxes, float32 [N, 4, 2] in pixels of the original image, and their scores, float32 [N]; no order.
    """
    map_ = probabilities[0, 0]
    mask = cv2.dilate((map_ > settings.pixel_threshold).astype(np.uint8), np.ones((2, 2), np.uint8))
    contours, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    scale = np.array([width / map_.shape[1], height / map_.shape[0]], np.float32)
    last_pixel = np.array([width - 1, height - 1], np.float32)
    boxes, scores = [], []
    for contour in contours[:_MOST_CONTOURS]:
        rectangle = cv2.minAreaRect(contour)
        if min(rectangle[1]) < settings.least_side:
            continue
        core = ordered_corners(cv2.boxPoints(rectangle))
        score = _mean_inside(map_, core)
        if score < settings.box_threshold:
            continue
        box = ordered_corners(cv2.boxPoints(_grown(rectangle, settings.unclip_ratio)))
        boxes.append(np.clip(np.round(box * scale), 0, last_pixel))
        scores.append(score)
    return np.array(boxes, np.float32).reshape(-1, 4, 2), np.array(scores, np.float32)


def _mean_inside(map_: Array, box: Array) -> float:
    """The mean of the map over the pixels of a box."""
    last = (map_.shape[1] - 1, map_.shape[0] - 1)
    left, top = np.clip(np.floor(box.min(axis=0)).astype(int), 0, last)
    right, bottom = np.clip(np.ceil(box.max(axis=0)).astype(int), 0, last)
    inside = np.zeros((bottom - top + 1, right - left + 1), np.uint8)
    cv2.fillPoly(inside, [(box - (left, top)).astype(np.int32)], (1,))
    return float(cv2.mean(map_[top : bottom + 1, left : right + 1], inside)[0])


def _grown(rectangle: Rectangle, ratio: float) -> Rectangle:
    """The rectangle with each side moved out by area * ratio / perimeter: the offset of the paper's Vatti clipping."""
    centre, (width, height), angle = rectangle
    distance = width * height * ratio / (2 * (width + height))
    return centre, (width + 2 * distance, height + 2 * distance), angle
