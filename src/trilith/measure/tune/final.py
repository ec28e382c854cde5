"""The final of a search: what was chosen and what there is now, measured in turn, and what that says. Pure.

Rule 1: only what is measured after the choice counts. The chosen one was the best of many, so that what was measured
        before flatters it, the more the noisier the machine.
Rule 2: which of the two is first alternates by rounds, and the number of rounds is fixed before the first of them:
        ending where it looks good would make the interval too sure.
"""

from __future__ import annotations

import math
from typing import Final

from trilith.measure.statistics import RatioEstimate, paired_ratio
from trilith.measure.tune.objective import Objective, Observation
from trilith.measure.tune.space import Configuration

_LEAST_NOISE: Final = 0.01  # answers are counted whole, so that rounds may agree by chance


class FinalRounds:
    """What the final has measured so far."""

    def __init__(self, objective: Objective, start: Configuration) -> None:
        self._objective = objective
        self._start = start
        self._told: list[tuple[Configuration, Observation]] = []

    @property
    def begun(self) -> bool:
        """Whether something was measured."""
        return bool(self._told)

    @property
    def chosen(self) -> Configuration | None:
        """What is measured beside what there is now; None before the first measurement."""
        return self._told[0][0] if self._told else None  # it is the first of the first round

    def observe(self, configuration: Configuration, observation: Observation) -> None:
        """Learns what a measurement of the final brought."""
        self._told.append((configuration, observation))

    def of(self, configuration: Configuration) -> list[Observation]:
        """What the final brought of it."""
        return [observation for each, observation in self._told if each == configuration]

    def following(self, best: Configuration | None, rounds: int) -> Configuration | None:
        """What is measured next; None when it is over, or when there is nothing to compare.

        Args:
            best: what is the best by all that was measured; it is chosen when nothing was yet.
            rounds: how many there are in all.
        """
        chosen = self.chosen or best
        number, is_second = divmod(len(self._told), 2)
        if chosen is None or chosen == self._start or number >= rounds:
            return None
        if any(observation.failure for _, observation in self._told):
            return None
        return chosen if is_second == number % 2 else self._start

    def gain(self) -> RatioEstimate | None:
        """How many times as good the chosen one is as what there is now, with its interval; None before a round."""
        now: list[float] = []
        chosen: list[float] = []
        for first, second in zip(self._told[::2], self._told[1::2], strict=False):
            found = {each: self._value(observation) for each, observation in (first, second) if observation.levels}
            if len(found) == 2:
                now.append(found.pop(self._start))
                chosen.append(*found.values())
        return paired_ratio(now, chosen, least_noise=_LEAST_NOISE) if now else None

    def _value(self, observation: Observation) -> float:
        return math.exp(self._objective.value(self._objective.best(observation.levels)))
