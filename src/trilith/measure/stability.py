"""Whether a level stood still while it was measured. Pure.

perf_analyzer throws an unstable level away. Here it is reported, with what moved, how far and which way: a drift is
often the finding (a cache that fills, a queue that grows, a machine that throttles).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

STABLE_WITHIN: Final = 0.10
"""A figure whose three thirds differ by no more than this share stood still (perf_analyzer's default)."""

_THIRDS: Final = 3
_RANGE: Final = 5.2
"""Standard errors of a mean that the range of three exceeds by chance in some 3 of 1000 (Tukey's studentized range)."""

_MOST_ALIKE: Final = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """How one figure moved between the three thirds of a level.

    Attributes:
        spread: the largest third less the smallest, as a share of the smallest; infinite when only that is 0.
        change: the last third against the first, as a share of the first: 0.2 is a rise by a fifth; infinite from 0.
        steady: whether it stayed within the bound, or moved no more than its own noise explains.
        one_way: whether each third moved on in the same direction.
    """

    spread: float
    change: float
    steady: bool
    one_way: bool


_STILL: Final = Movement(spread=0.0, change=0.0, steady=True, one_way=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stability:
    """Throughput and mean latency over the three thirds of a level."""

    throughput: Movement
    latency: Movement

    @property
    def stable(self) -> bool:
        """Whether both stood still."""
        return self.throughput.steady and self.latency.steady

    def words(self) -> str:
        """What moved: `latency rose 35% from the first third to the last`; "" when nothing did."""
        moved = (("throughput", self.throughput), ("latency", self.latency))
        return "; ".join(_words(name, movement) for name, movement in moved if not movement.steady)


def stability(
    answers_per_s: Sequence[float], latency_s: Sequence[float], *, within: float = STABLE_WITHIN
) -> Stability | None:
    """Judges a level by figures that follow one another in time; None with fewer than three slices, or no answer.

    Args:
        answers_per_s: throughput in each slice of time.
        latency_s: mean latency in each slice that has one; of fewer than three no movement is told.
        within: the share by which thirds may differ.
    """
    if len(answers_per_s) < _THIRDS or not latency_s:
        return None
    latency = _movement(latency_s, within) if len(latency_s) >= _THIRDS else _STILL
    return Stability(throughput=_movement(answers_per_s, within), latency=latency)


def _movement(values: Sequence[float], within: float) -> Movement:
    size = len(values) / _THIRDS
    parts = [values[round(index * size) : round((index + 1) * size)] for index in range(_THIRDS)]
    thirds = [fmean(part) for part in parts]
    smallest, largest = min(thirds), max(thirds)
    spread, change = _growth(smallest, largest), _growth(thirds[0], thirds[-1])
    one_way = thirds in (sorted(thirds), sorted(thirds, reverse=True)) and largest > smallest
    # Few requests give thirds that differ by chance: what chance explains has not moved.
    steady = spread <= within or largest - smallest <= _RANGE * _standard_error(parts)
    return Movement(spread=spread, change=change, steady=steady, one_way=one_way)


def _growth(before: float, after: float) -> float:
    if before:
        return after / before - 1
    return math.inf if after else 0.0


def _standard_error(parts: Sequence[Sequence[float]]) -> float:
    """Of the mean of one third: from the spread within thirds, widened where neighbours resemble one another."""
    residuals = [[value - fmean(part) for value in part] for part in parts]
    squares = sum(value * value for part in residuals for value in part)
    freedom = sum(len(part) - 1 for part in parts)
    if not squares or not freedom:
        return 0.0
    products = sum(one * other for part in residuals for one, other in itertools.pairwise(part))
    # The residuals of a short part lean to the other side of each other: that bias, about 1/n, is given back.
    alike = min(_MOST_ALIKE, max(0.0, products / squares + len(parts) / sum(map(len, parts))))
    size = sum(map(len, parts)) / len(parts)
    return math.sqrt(squares / freedom / size * (1 + alike) / (1 - alike))


def _words(name: str, movement: Movement) -> str:
    if math.isinf(movement.change):
        return f"{name} rose from 0 in the first third"
    if not movement.one_way:
        by = "to 0" if math.isinf(movement.spread) else f"by {movement.spread:.0%}"
        return f"{name} went up and down {by}"
    verb = "rose" if movement.change > 0 else "fell"
    return f"{name} {verb} {abs(movement.change):.0%} from the first third to the last"
