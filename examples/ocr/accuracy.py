"""How wrong a reading is: the character error rate."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


def edit_distance(one: str, other: str) -> int:
    """The least number of inserted, deleted and replaced characters that turn one text into the other (Levenshtein)."""
    columns = np.arange(len(other) + 1)
    codes = np.fromiter(map(ord, other), np.int64, len(other))
    row = columns.copy()
    for number, character in enumerate(one, 1):
        replaced = row[:-1] + (codes != ord(character))
        row = np.concatenate(([number], np.minimum(row[1:] + 1, replaced)))
        row = np.minimum.accumulate(row - columns) + columns  # insertions: the best of all cells to the left
    return int(row[-1])


def character_error_rate(read: Iterable[str], truth: Iterable[str]) -> float:
    """Edit distance of the lines read from the true lines, over the length of the truth.

    Any run of white space counts as one space, so that how the text is cut into lines does not matter.

    Raises:
        ValueError: the truth has no character.
    """
    expected = " ".join(" ".join(truth).split())
    if not expected:
        raise ValueError("the true text is empty: its error rate has no meaning")
    return edit_distance(" ".join(" ".join(read).split()), expected) / len(expected)
