"""What measured batches say of sizes that need not be tried. Pure.

While a copy serves, it counts what batches of each size take: t(n). Where that is a line, t(n) = fixed + each *
n, a batch of n gives n / t(n) rows a second, and how much a larger one could gain is known without running it.

Rule 1: only what is sure is left out: sizes that could gain next to nothing over a smaller one that is tried.
Rule 2: another backend, or another number of threads, is another curve: one says nothing of the other. Curves belong
        to the values of the model's other knobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from trilith.config import path_steps
from trilith.measure.laws import BatchCost, fit_batch_cost
from trilith.measure.tune.objective import Observation
from trilith.measure.tune.space import Configuration, Knob, Space, Value

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
        among: the values of the model's other knobs for which that holds, in words; "" where there are none.
    """

    path: str
    value: float
    cost: BatchCost
    model: str
    gain: float
    among: str = ""

    def __str__(self) -> str:
        """In words."""
        among = f" with {self.among}" if self.among else ""
        return (
            f"batches of more than {self.value:g} were not tried{among}: in {self.model} one of n takes "
            f"{self.cost.fixed_s * 1e3:.3g} ms + {self.cost.each_s * 1e3:.3g} ms x n, so the largest would give "
            f"{100 * (self.gain - 1):.1f} % more"
        )


Where = tuple[tuple[int, Value], ...]
"""For which configurations something holds: positions of knobs, with the values that these have."""


def batch_caps(space: Space, told: Iterable[tuple[Configuration, Observation]]) -> dict[tuple[int, Where], BatchCap]:
    """The caps that are known, by the position of the capped knob and the values of the other knobs of its model."""
    told = list(told)
    caps = {}
    for at, knob in enumerate(space.knobs):
        model = _batched_model(knob)
        others = [] if model is None else _others(space, at, model)
        groups: dict[Where, list[Observation]] = {}
        for configuration, observation in told:
            groups.setdefault(tuple((each, configuration[each]) for each in others), []).append(observation)
        for where, observations in groups.items():
            if (cap := batch_cap(knob, observations)) is not None:
                among = " ".join(f"{space.knobs[each].path}={_text(value)}" for each, value in where)
                caps[at, where] = replace(cap, among=among)
    return caps


def is_capped(caps: Mapping[tuple[int, Where], BatchCap], configuration: Configuration) -> bool:
    """Whether a configuration has larger batches than are worth trying with its other values."""
    for (at, where), cap in caps.items():
        value = configuration[at]
        is_larger = isinstance(value, int | float) and value > cap.value
        if is_larger and all(configuration[other] == held for other, held in where):
            return True
    return False


def batch_cap(knob: Knob, observations: Iterable[Observation]) -> BatchCap | None:
    """The cap that the observations put on a knob; None where it is no batch size of a model, or nothing is sure."""
    model = _batched_model(knob)
    if model is None:
        return None
    points: dict[int, tuple[float, float]] = {}
    for observation in observations:
        for rows, seconds, count in observation.curves.get(model, ()):
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
            return BatchCap(path=knob.path, value=value, cost=cost, model=model, gain=max(1.0, gain))
    return None


def _batched_model(knob: Knob) -> str | None:
    """The model whose size of batches a knob sets; None where it sets none."""
    if not knob.is_number:
        return None
    for path in knob.paths:
        steps = path_steps(path)
        if steps[0] == "models" and steps[-1] in _BATCH_KEYS and len(steps) == 3:
            return steps[1]
    return None


def _others(space: Space, at: int, model: str) -> list[int]:
    """The positions of the other knobs of a model."""
    return [
        other
        for other, each in enumerate(space.knobs)
        if other != at and any(path_steps(path)[:2] == ("models", model) for path in each.paths)
    ]


def _text(value: Value) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
