"""All that was measured of a configuration. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from trilith.measure.tune.objective import Observation

_LEAST_NOISE: Final = 0.01
_MOST_NOISE: Final = 0.3
_FAR: Final = 0.3  # between two scores of one configuration, as logarithms
_NEAR: Final = 0.12  # the median
_SURE_FROM: Final = 3  # repetitions from which the noise is known


@dataclass(slots=True)
class Evidence:
    """All that was measured of one configuration."""

    observations: list[Observation]
    scores: list[tuple[float, float]]  # value of the objective, and share
    excesses: list[float]  # by how much bounds were missed

    @property
    def share(self) -> float:
        """How long it was measured, all together."""
        return sum(share for _, share in self.scores)

    @property
    def kept(self) -> list[tuple[float, float]]:
        """The scores and shares, with those drawn nearer that are far from the rest.

        Of two the higher is believed: others on the machine slow it down, and little speeds it up. Of more the median.
        """
        scores = [score for score, _ in self.scores]
        if len(scores) < 3:
            least, most = max(scores) - _FAR, max(scores)
        else:
            least, most = statistics.median(scores) - _NEAR, statistics.median(scores) + _NEAR
        return [(min(max(score, least), most), share) for score, share in self.scores]

    @property
    def disagrees(self) -> bool:
        """Whether it was measured twice, with results so different that one of them must be wrong."""
        return len(self.scores) == 2 and abs(self.scores[0][0] - self.scores[1][0]) > _FAR

    @property
    def mean(self) -> float:
        """The mean value, by time."""
        return sum(score * share for score, share in self.kept) / self.share

    @property
    def excess(self) -> float:
        """By how much bounds are missed, in the mean; below 0 they are kept."""
        pairs = zip(self.excesses, self.scores, strict=True)
        return sum(excess * share for excess, (_, share) in pairs) / self.share

    @property
    def failure(self) -> str:
        """Why it could not be measured; "" when it could."""
        return next((each.failure for each in self.observations if each.failure), "")


def noise_of(evidence: Iterable[Evidence]) -> float | None:
    """Standard deviation of a score of share 1, from what was measured more than once; None while not known."""
    spread = _spread((each.kept for each in evidence if each.scores), _SURE_FROM)
    return None if spread is None else min(_MOST_NOISE, max(_LEAST_NOISE, spread))


def scatter_of(evidence: Iterable[Evidence]) -> float | None:
    """By how much measurements of one configuration differ as they came, far ones included; None while not known."""
    return _spread((each.scores for each in evidence), 1)


def _spread(scores: Iterable[list[tuple[float, float]]], least: int) -> float | None:
    squares, freedom = 0.0, 0
    for pairs in scores:
        if len(pairs) > 1:
            mean = sum(score * share for score, share in pairs) / sum(share for _, share in pairs)
            squares += sum(share * (score - mean) ** 2 for score, share in pairs)
            freedom += len(pairs) - 1
    return math.sqrt(squares / freedom) if freedom >= least else None
