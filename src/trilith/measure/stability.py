"""Whether a level stood still while it was measured. Pure.

perf_analyzer throws an unstable level away. Here it is reported, with what moved, how far and which way: a drift is
often the finding (a cache that fills, a queue that grows, a machine that throttles).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Final

STABLE_WITHIN: Final = 0.10
"""A figure whose three thirds differ by no more than this share stood still (perf_analyzer's default)."""

_THIRDS: Final = 3
_STANDARD_ERRORS: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """How one figure moved between the three thirds of a level.

    Attributes:
        spread: the largest third less the smallest, as a share of the smallest; 0 when one is 0.
        change: the last third against the first, as a share of the first: 0.2 is a rise by a fifth.
        steady: whether it stayed within the bound, or moved no more than its own noise explains.
        one_way: whether each third moved on in the same direction.
    """

    spread: float
    change: float
    steady: bool
    one_way: bool


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
    """Judges a level by figures that follow one another in time; None with fewer than three of them.

    Args:
        answers_per_s: throughput in each slice of time.
        latency_s: mean latency in each slice that has one.
        within: the share by which thirds may differ.
    """
    if len(answers_per_s) < _THIRDS or len(latency_s) < _THIRDS:
        return None
    return Stability(throughput=_movement(answers_per_s, within), latency=_movement(latency_s, within))


def _movement(values: Sequence[float], within: float) -> Movement:
    size = len(values) / _THIRDS
    parts = [values[round(index * size) : round((index + 1) * size)] for index in range(_THIRDS)]
    thirds = [fmean(part) for part in parts]
    smallest, largest = min(thirds), max(thirds)
    spread = (largest - smallest) / smallest if smallest else 0.0
    change = thirds[-1] / thirds[0] - 1 if thirds[0] else 0.0
    one_way = thirds in (sorted(thirds), sorted(thirds, reverse=True)) and largest > smallest
    # Few requests give thirds that differ by chance: what is within three standard errors has not moved.
    noise = math.sqrt(sum(variance(part) / len(part) if len(part) > 1 else 0.0 for part in parts))
    steady = spread <= within or largest - smallest <= _STANDARD_ERRORS * noise
    return Movement(spread=spread, change=change, steady=steady, one_way=one_way)


def _words(name: str, movement: Movement) -> str:
    if not movement.one_way:
        return f"{name} went up and down by {movement.spread:.0%}"
    verb = "rose" if movement.change > 0 else "fell"
    return f"{name} {verb} {abs(movement.change):.0%} from the first third to the last"
