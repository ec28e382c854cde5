"""What measured batches say of sizes that need not be tried. Pure.

While a copy serves, it counts what batches of each size take: t(n). Where that is a line, t(n) = fixed + each *
n, a batch of n gives n / t(n) rows a second, and how much a larger one could gain is known without running it.

Rule: only what is sure is left out: sizes that could gain next to nothing over a smaller one that is tried.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from trilith.config import path_steps
from trilith.measure.laws import BatchCost, fit_batch_cost
from trilith.measure.tune.objective import Observation
from trilith.measure.tune.space import Knob

_GAIN: Final = 1.03
_LEAST_RUNS: Final = 5
_LEAST_RANGE: Final = 2.0  # between the smallest and the largest measured size
_BATCH_KEYS: Final = ("max_batch_size",)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCap:
    """The largest size of batches that is worth trying.

    Attributes:
        path: the knob's.
        value: the size.
        cost: what a batch takes, by which that is known.
        model: which model it is.
        gain: how many times as much the largest size would give.
    """

    path: str
    value: float
    cost: BatchCost
    model: str
    gain: float

    def __str__(self) -> str:
        """In words."""
        return (
            f"batches of more than {self.value:g} were not tried: in {self.model} one of n takes "
            f"{self.cost.fixed_s * 1e3:.3g} ms + {self.cost.each_s * 1e3:.3g} ms x n, so the largest would give "
            f"{100 * (self.gain - 1):.1f} % more"
        )


def batch_cap(knob: Knob, observations: Iterable[Observation]) -> BatchCap | None:
    """The cap that the observations put on a knob; None where it is no batch size of a model, or nothing is sure."""
    models = [
        steps[1]
        for path in knob.paths
        if (steps := path_steps(path))[0] == "models" and steps[-1] in _BATCH_KEYS and len(steps) == 3
    ]
    if not models or not knob.is_number:
        return None
    points: dict[int, tuple[float, float]] = {}
    for observation in observations:
        for rows, seconds, count in observation.curves.get(models[0], ()):
            total_s, runs = points.get(rows, (0.0, 0.0))
            points[rows] = total_s + seconds * count, runs + count
    usable = [(rows, total_s / runs, runs) for rows, (total_s, runs) in points.items() if runs >= _LEAST_RUNS]
    sizes = [rows for rows, _, _ in usable]
    if not sizes or max(sizes) < _LEAST_RANGE * min(sizes):
        return None
    cost = fit_batch_cost(usable)
    values = sorted(float(value) for value in knob.values if isinstance(value, int | float) and value > 0)
    if cost is None or len(values) < 2:
        return None
    for value in values[:-1]:
        gain = cost.gain(value, values[-1])
        if gain < _GAIN:
            return BatchCap(path=knob.path, value=value, cost=cost, model=models[0], gain=max(1.0, gain))
    return None
