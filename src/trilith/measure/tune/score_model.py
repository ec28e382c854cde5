"""What configurations are expected to score, from what was measured: one model of values, one of bounds. Pure.

Rule: a bound is modelled by how far it is from being missed, which changes gently over a space. A score that falls off
    a cliff where a bound is missed would mislead a model of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from trilith.errors import Bug
from trilith.measure.tune.evidence import Evidence, noise_of
from trilith.measure.tune.objective import Objective, penalised
from trilith.measure.tune.space import Configuration, Space
from trilith.measure.tune.surrogate import Array, Surrogate, expected_gain, share_below

_FAILED_BELOW: Final = 0.7  # what fails counts as so much worse than the worst


class ScoreModel:
    """Fitted to what was measured so far."""

    def __init__(self, space: Space, objective: Objective, evidence: Mapping[Configuration, Evidence]) -> None:
        self._space, self._objective = space, objective
        measured = [each for each, known in evidence.items() if known.scores and not known.failure]
        if not measured:
            raise Bug("a model of nothing was asked for; please report this")
        failed = [each for each, known in evidence.items() if known.failure]
        places = [space.coordinates(each) for each in (*measured, *failed)]
        shares = [*(evidence[each].share for each in measured), *(1.0 for _ in failed)]
        values = [evidence[each].mean for each in measured]
        values += [min(values) - _FAILED_BELOW] * len(failed)
        self._value = Surrogate(places, values, shares, space.groups, noise=noise_of(evidence.values()))
        self._excess: Surrogate | None = None
        self._keeping = [each for each in measured if evidence[each].excess <= 0.0]
        if objective.bounded:
            excesses = [evidence[each].excess for each in measured]
            excesses += [max(*excesses, 0.0) + _FAILED_BELOW] * len(failed)
            self._excess = Surrogate(places, excesses, shares, space.groups)

    def expected(self, configurations: Sequence[Configuration]) -> dict[Configuration, float]:
        """The scores that are expected."""
        values, _, excesses, _ = self._predict(configurations)
        scores = (penalised(*each) for each in zip(values.tolist(), excesses.tolist(), strict=True))
        return dict(zip(configurations, scores, strict=True))

    def gains(self, configurations: Sequence[Configuration]) -> Array:
        """What is expected of each beyond the best, as far as it is likely to keep the bounds.

        Gardner et al., "Bayesian Optimization with Inequality Constraints", 2014. While nothing keeps them: how likely.
        """
        mean, deviation, excess, doubt = self._predict(configurations)
        keeps = share_below(excess, doubt) if self._objective.bounded else np.ones(len(configurations))
        if not self._keeping:
            return np.asarray(keeps)
        best, _, _, _ = self._predict(self._keeping)
        return np.asarray(expected_gain(mean, deviation, float(best.max())) * keeps)

    def _predict(self, configurations: Sequence[Configuration]) -> tuple[Array, Array, Array, Array]:
        """Expected values and their deviations, by how much bounds are expected to be missed, and the deviations."""
        places = [self._space.coordinates(each) for each in configurations]
        mean, deviation = self._value.predict(places)
        if self._excess is None:
            none = np.full(len(places), -1.0)
            return mean, deviation, none, none
        return (mean, deviation, *self._excess.predict(places))
