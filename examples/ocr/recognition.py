"""What a line says: what goes into the recognition model, and what its output means.

The model (PP-OCRv6 rec) takes blue-green-red crops of height 48 and of any width, and gives for each 8 pixels of width
the probabilities of 18,710 classes: blank, the characters of its metadata key `character`, and the space.

Rule 1: pure functions on arrays; whoever calls them runs the model.
Rule 2: padding is what costs. Crops go together by width, and widths come in few steps, so that little is padded and
        the runtime sees few different shapes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import cv2
import numpy as np
from geometry import Array

HEIGHT: Final = 48
WIDTH_STEP: Final = 32
WIDEST: Final = 3200
CHARACTERS_KEY: Final = "character"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a crop says.

    Attributes:
        text: the characters; "" when there are none.
        score: mean probability of the characters, 0 to 1.
    """

    text: str
    score: float


def classes(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """The text of each output class, from the model's metadata.

    Raises:
        ValueError: the model has no list of characters.
    """
    if CHARACTERS_KEY not in metadata:
        raise ValueError(f"a recognition model's metadata must have {CHARACTERS_KEY!r}, got {sorted(metadata)}")
    # Not splitlines(): some of the characters are line separators by Unicode.
    return ("", *metadata[CHARACTERS_KEY].split("\n"), " ")


def scaled_width(crop: Array) -> int:
    """The crop's width in pixels when its height is 48."""
    height, width = int(crop.shape[0]), int(crop.shape[1])
    return min(WIDEST, max(1, math.ceil(HEIGHT * width / height)))


def bucket_width(crop: Array) -> int:
    """The width that the crop is padded to: the next multiple of 32."""
    return math.ceil(scaled_width(crop) / WIDTH_STEP) * WIDTH_STEP


def batches(crops: Sequence[Array], size: int) -> list[list[int]]:
    """Groups the crops' indices into batches of at most `size`, narrow ones first, so that neighbours pad little."""
    order = sorted(range(len(crops)), key=lambda index: bucket_width(crops[index]))
    return [order[start : start + size] for start in range(0, len(order), size)]


def to_input(crops: Sequence[Array]) -> Array:
    """The model's input, float32 [N, 3, 48, W], of uint8 crops [height, width, 3]; W is the widest crop's bucket."""
    batch = np.zeros((len(crops), 3, HEIGHT, max(map(bucket_width, crops))), np.float32)
    for row, crop in zip(batch, crops, strict=True):
        width = scaled_width(crop)
        row[:, :, :width] = cv2.dnn.blobFromImage(crop, 1 / 127.5, (width, HEIGHT), (127.5, 127.5, 127.5))[0]
    return batch


def best_classes(probabilities: Array) -> tuple[Array, Array]:
    """The best class of each step and its probability, both [N, T], of the model's whole output [N, T, classes]."""
    best = probabilities.argmax(axis=2)
    return best, np.take_along_axis(probabilities, best[:, :, None], axis=2)[:, :, 0]


def from_output(best: Array, chance: Array, characters: Sequence[str]) -> list[Reading]:
    """Reads the best classes [N, T] greedily: repeated classes are one character, class 0 is none (CTC)."""
    readings = []
    for line, chances in zip(best, chance, strict=True):
        kept = line != 0
        kept[1:] &= line[1:] != line[:-1]
        text = "".join(characters[index] for index in line[kept].tolist())
        readings.append(Reading(text=text, score=float(chances[kept].mean()) if kept.any() else 0.0))
    return readings
