"""What a configuration that was not measured would score, and how sure that is: a Gaussian process. Pure.

Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006: algorithm 2.1, and chapter 5 on choosing the
parameters by the marginal likelihood. The covariance is Matern's with 5/2, one length a knob, so that a knob without
effect is given a long one and costs no measurements.

Rule: nothing here is drawn by chance. The same measurements give the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_LENGTHS: Final = (0.35, 0.8, 2.0, 6.0)
_SPREADS: Final = (0.15, 0.4, 1.0)
_NOISES: Final = (0.02, 0.05, 0.1)
_PASSES: Final = 2
_JITTER: Final = 1e-9


@dataclass(frozen=True, slots=True)
class _Parameters:
    lengths: tuple[float, ...]  # of each knob, in units of its range
    spread: float  # standard deviation of scores over the space
    noise: float  # of a measurement of share 1


class Surrogate:
    """A model that was fitted to measured scores.

    Args:
        places: coordinates of the measurements, [n, d].
        scores: one each.
        shares: how long each was measured, as multiples of the usual: the longer, the less noise.
        groups: which coordinates belong to one knob.
        noise: standard deviation of a score of share 1 where it is known, from repetitions; None to fit it too.
    """

    def __init__(
        self,
        places: Sequence[Sequence[float]],
        scores: Sequence[float],
        shares: Sequence[float],
        groups: Sequence[range],
        *,
        noise: float | None = None,
    ) -> None:
        self._places: Array = np.asarray(places, float)
        self._shares: Array = np.asarray(shares, float)
        values: Array = np.asarray(scores, float)
        self._groups = groups
        self.mean = float(np.average(values, weights=self._shares))
        self._values: Array = values - self.mean
        squared = self._places[:, None, :] - self._places[None, :, :]
        squared **= 2
        self._squares = [squared[:, :, group.start : group.stop].sum(axis=2) for group in groups]
        self._chosen = self._fit(noise)
        self._factor, self._weights = self._solve(self._chosen)

    @property
    def noise(self) -> float:
        """Standard deviation of a score that was measured for the usual time."""
        return self._chosen.noise

    def predict(self, places: Sequence[Sequence[float]]) -> tuple[Array, Array]:
        """The expected scores at some coordinates, and their standard deviations."""
        at: Array = np.asarray(places, float)
        scaled: Array = np.zeros((len(at), len(self._places)))
        for group, length in zip(self._groups, self._chosen.lengths, strict=True):
            part = slice(group.start, group.stop)
            between = at[:, None, part] - self._places[None, :, part]
            scaled += (between**2).sum(axis=2) / length**2
        covariance = _matern(scaled) * self._chosen.spread**2
        mean = covariance @ self._weights + self.mean
        half = np.linalg.solve(self._factor, covariance.T)
        variance = self._chosen.spread**2 - (half**2).sum(axis=0)
        return mean, np.sqrt(np.maximum(variance, _JITTER))

    def _fit(self, noise: float | None) -> _Parameters:
        """The parameters of the greatest likelihood, one after the other."""
        noises = _NOISES if noise is None else (noise,)
        best = _Parameters((0.8,) * len(self._groups), 0.4, noises[len(noises) // 2])
        likelihood = self._likelihood(best)
        for _ in range(_PASSES):
            for turned in range(len(self._groups) + 2):
                for candidate in _neighbours(best, turned, noises):
                    if candidate != best and (found := self._likelihood(candidate)) > likelihood:
                        best, likelihood = candidate, found
        return best

    def _covariance(self, parameters: _Parameters) -> Array:
        scaled: Array = sum(
            (square / length**2 for square, length in zip(self._squares, parameters.lengths, strict=True)),
            np.zeros((len(self._places), len(self._places))),
        )
        covariance: Array = _matern(scaled) * parameters.spread**2
        covariance[np.diag_indices_from(covariance)] += parameters.noise**2 / self._shares + _JITTER
        return covariance

    def _likelihood(self, parameters: _Parameters) -> float:
        """The logarithm of the marginal likelihood, with a mild wish for lengths of about the range."""
        covariance = self._covariance(parameters)
        weights, (_, logarithm) = np.linalg.solve(covariance, self._values), np.linalg.slogdet(covariance)
        wish = sum(math.log(length / 0.8) ** 2 for length in parameters.lengths) * 0.15
        return float(-0.5 * (self._values @ weights + logarithm)) - wish

    def _solve(self, parameters: _Parameters) -> tuple[Array, Array]:
        factor = np.linalg.cholesky(self._covariance(parameters))
        return factor, np.linalg.solve(factor.T, np.linalg.solve(factor, self._values))


def _neighbours(now: _Parameters, turned: int, noises: Sequence[float]) -> list[_Parameters]:
    """The same with one parameter at each of its values: a length, then the spread, then the noise."""
    if turned < len(now.lengths):
        before, after = now.lengths[:turned], now.lengths[turned + 1 :]
        return [replace(now, lengths=(*before, length, *after)) for length in _LENGTHS]
    if turned == len(now.lengths):
        return [replace(now, spread=spread) for spread in _SPREADS]
    return [replace(now, noise=noise) for noise in noises]


def _matern(squared: Array) -> Array:
    distance = np.sqrt(5.0 * squared)
    result: Array = (1.0 + distance + distance**2 / 3.0) * np.exp(-distance)
    return result


def share_below(mean: Array, deviation: Array) -> Array:
    """How likely each is to be 0 or less."""
    return np.array([0.5 * math.erfc(each / math.sqrt(2.0)) for each in (mean / np.abs(deviation)).tolist()])


def expected_gain(mean: Array, deviation: Array, best: float) -> Array:
    """By how much each is expected to be better than `best`, where it is better (expected improvement).

    Jones, Schonlau and Welch, "Efficient Global Optimization of Expensive Black-Box Functions", 1998.
    """
    ahead = mean - best
    ratio = ahead / deviation
    below = np.array([0.5 * math.erfc(-each / math.sqrt(2.0)) for each in ratio.tolist()])
    density = np.exp(-0.5 * ratio**2) / math.sqrt(2.0 * math.pi)
    result: Array = ahead * below + deviation * density
    return result
