"""Whether a round of a measurement resembles the one before it more than chance explains. Pure."""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Final

_LARGEST_CORRELATION: Final = 0.8
_CHANCE_Z: Final = 1.645  # a correlation that chance exceeds in one of twenty cases
_CORRELATED_FROM: Final = 10  # below that a correlation cannot be told from chance


def widening(logs: list[float], groups: list[list[float]], baseline_first: Sequence[bool]) -> float:
    """By what the error grows because neighbouring rounds resemble each other; 1.0 when chance explains it."""
    if len(logs) < _CORRELATED_FROM:
        return 1.0
    if len(groups) == 2:  # what the order does would look like the opposite of a resemblance
        middles = [statistics.median(group) for group in groups]
        logs = [log - middles[0 if first else 1] for log, first in zip(logs, baseline_first, strict=True)]
    # Ranks, so that one outlier does not decide.
    ranks = _ranks(logs)
    squares = math.fsum(rank * rank for rank in ranks)
    if squares == 0:
        return 1.0
    products = math.fsum(first * second for first, second in itertools.pairwise(ranks))
    correlation = products / squares
    if correlation * math.sqrt(len(logs)) <= _CHANCE_Z:
        return 1.0
    correlation = min(correlation, _LARGEST_CORRELATION)
    return math.sqrt((1 + correlation) / (1 - correlation))


def _ranks(values: list[float]) -> list[float]:
    """Places in order, around 0. Equal values share the middle of theirs: which came first says nothing of them."""
    ordered = sorted(values)
    middle = len(values) - 1
    return [
        (bisect.bisect_left(ordered, value) + bisect.bisect_right(ordered, value) - 1 - middle) / 2 for value in values
    ]
