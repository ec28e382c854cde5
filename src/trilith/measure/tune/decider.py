"""Which configuration to measure next, and for how long: from what was measured so far. Pure.

    tuner = Tuner(space, objective, budget=20)
    while (proposal := tuner.propose()) is not None:
        tuner.observe(proposal.configuration, measured(proposal))
    tuner.best()

The search has three parts. *Spread*: a few configurations far from each other. *Search*: a model of the scores
(`score_model.py`) names the one from which most is expected; what is best so far is measured again in between, so that
luck in a single short measurement does not lead the way. *Final*: the best few once more, in turn; half of them drop
out, and the rest are measured longer (successive halving: Jamieson and Talwalkar, 2016), beside what there is now.

Rule 1: a search is a function of its observations. Told them again, a new tuner goes on where the old one was.
Rule 2: the budget is counted in measurements of the usual length; a short one counts as its share.
Rule 3: what cannot be measured (it does not start, or its answers are wrong) is not proposed again.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from trilith.measure.tune.curves import BatchCap, batch_cap
from trilith.measure.tune.evidence import Evidence, noise_of
from trilith.measure.tune.objective import Figures, Objective, Observation
from trilith.measure.tune.score_model import ScoreModel
from trilith.measure.tune.space import Configuration, Space, Value

SHORT: Final = 0.5
"""Share of the usual time for which a configuration is measured while many are looked at."""

_MOST_LOOKED_AT: Final = 4000  # configurations for which a gain is worked out
_AGAIN_EVERY: Final = 4  # the best so far, among proposals
_ENOUGH: Final = 2.0  # shares that a configuration is measured for before the final, at most
_AFTERWARDS: Final = 2  # short measurements beyond the budget, at most
_LITTLE: Final = 0.002  # an expected gain that is not worth a measurement
_PATIENCE: Final = 4  # how often in a row it must be as little
_FINALISTS: Final = 3
_SURE: Final = 0.5  # of the longest time that any was measured, for the best
_SAME: Final = 0.01  # scores that differ by less are the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What to measure next.

    Attributes:
        configuration: a value for each knob.
        share: for how long, as a multiple of the usual time.
        part: `start`, `spread`, `search`, `again` or `final`, for people.
    """

    configuration: Configuration
    share: float
    part: str


class Tuner:
    """A search.

    Args:
        space: what may be turned.
        objective: what is wanted.
        budget: measurements of the usual length, all together.
    """

    def __init__(self, space: Space, objective: Objective, *, budget: float) -> None:
        self.space = space
        self.objective = objective
        self.budget = max(1.0, budget)
        self._evidence: dict[Configuration, Evidence] = {}
        self._spent = 0.0
        self._since_again = 0
        self._unpromising = 0
        self._caps: dict[int, BatchCap] = {}
        self._final: list[Configuration] | None = None  # what the round of the final has not measured yet
        self._rounds = 0
        self._afterwards = 0
        self._fitted: ScoreModel | None = None

    # What happened

    def observe(self, configuration: Configuration, observation: Observation) -> None:
        """Learns what a measurement brought."""
        evidence = self._evidence.setdefault(configuration, Evidence([], [], []))
        evidence.observations.append(observation)
        if observation.levels:
            best = self.objective.best(observation.levels)
            evidence.scores.append((self.objective.value(best), observation.share))
            evidence.excesses.append(self.objective.excess(best))
        if self._final and configuration == self._final[0]:
            self._final.pop(0)
        self._since_again = 0 if len(evidence.observations) > 1 else self._since_again + 1
        self._spent += observation.share
        self._fitted = None
        if observation.curves:
            told = [each for known in self._evidence.values() for each in known.observations]
            for at, each in enumerate(self.space.knobs):
                if (cap := batch_cap(each, told)) is not None:
                    self._caps[at] = cap

    # What follows

    @property
    def spent(self) -> float:
        """Measurements so far, in units of the usual length."""
        return self._spent

    @property
    def caps(self) -> list[BatchCap]:
        """Sizes of batches that are not tried, since it is known what they would bring."""
        return list(self._caps.values())

    @property
    def evidence(self) -> dict[Configuration, Evidence]:
        """What was measured, by configuration, in the order of its first measurement. Not to be changed."""
        return self._evidence

    def propose(self) -> Proposal | None:
        """What to measure next; None when the search has ended."""
        if self._final is None:
            found = self._propose_another()
            if found is not None:
                return found
            self._final = []
        while not self._final and self._rounds < 2:
            self._rounds += 1
            self._final = self._short_round() if self._rounds == 1 else self._last_round()
        if not self._final:
            return self._doubtful()
        share = min(SHORT if self._rounds == 1 else 1.0, max(SHORT, self.budget - self._spent))
        if self._spent + share > self.budget + SHORT / 2:
            return None
        return Proposal(configuration=self._final[0], share=share, part="final")

    def best(self) -> Configuration | None:
        """The best one by all that is known; None while nothing could be measured.

        Of those that are about as good, the one that changes least.
        """
        measured = self._measured()
        if not measured:
            return None
        expected = self.expected(measured)
        longest = max(self._evidence[each].share for each in measured)
        sure = [each for each in measured if self._evidence[each].share >= min(1.0, _SURE * longest)]
        sure = [each for each in sure if self._evidence[each].excess <= 0.0] or sure
        most = max(expected[each] for each in sure)
        equal = [each for each in sure if expected[each] >= most - _SAME]
        return min(equal, key=lambda each: (len(self.changes(each)), -expected[each]))

    def changes(self, configuration: Configuration) -> list[int]:
        """Which knobs have another value than without tuning, by their position."""
        pairs = zip(configuration, self.space.start, strict=True)
        return [at for at, (value, current) in enumerate(pairs) if value != current]

    def expected(self, configurations: Sequence[Configuration]) -> dict[Configuration, float]:
        """The scores that are expected of some configurations, by what was measured of them and of others."""
        if not configurations:
            return {}
        return self._model().expected(configurations)

    def figures(self, configuration: Configuration) -> Figures | None:
        """What was measured of it at its best load, in the most usual measurement; None when it could not be."""
        evidence = self._evidence.get(configuration)
        if evidence is None or not evidence.scores:
            return None
        best = [self.objective.best(each.levels) for each in evidence.observations if each.levels]
        return min(best, key=lambda each: abs(self.objective.value(each) - evidence.mean))

    # The parts

    def _propose_another(self) -> Proposal | None:
        left = self.budget - self._spent - self._final_share()
        if self.space.start not in self._evidence:
            return Proposal(configuration=self.space.start, share=SHORT, part="start")
        if left < SHORT:
            return None
        untried = self._untried()
        if not untried:
            return None
        if len(self._evidence) < self._spread_count():
            return Proposal(configuration=self._farthest(untried), share=SHORT, part="spread")
        if not self._measured():
            return Proposal(configuration=self._farthest(untried), share=SHORT, part="spread")
        leader = self._leader()
        if self._since_again >= _AGAIN_EVERY and self._evidence[leader].share < _ENOUGH:
            return Proposal(configuration=leader, share=SHORT, part="again")
        gains = self._model().gains(untried)
        most = int(np.argmax(gains))
        self._unpromising = self._unpromising + 1 if gains[most] < _LITTLE else 0
        if self._unpromising >= _PATIENCE:
            return None
        return Proposal(configuration=untried[most], share=SHORT, part="search")

    def _doubtful(self) -> Proposal | None:
        """What must be measured once more, whatever the budget: a little known leader, or a contradiction."""
        if self._afterwards >= _AFTERWARDS or not self._measured():
            return None
        self._afterwards += 1
        leader = self._leader()
        if self._evidence[leader].share < 1.0 <= max(each.share for each in self._evidence.values() if each.scores):
            return Proposal(configuration=leader, share=SHORT, part="final")
        for each in (leader, self.space.start):
            if each in self._evidence and self._evidence[each].disagrees:
                return Proposal(configuration=each, share=SHORT, part="final")
        return None

    def _short_round(self) -> list[Configuration]:
        """The best few, when there are more than two."""
        found = self._ranked()[:_FINALISTS]
        return found if len(found) > 2 and self.budget - self._spent >= self._final_share() - SHORT else []

    def _last_round(self) -> list[Configuration]:
        """The best two, the best without those of its changes that do little, and what there is without tuning."""
        ranked = self._ranked()
        if not ranked:
            return []
        start = {self.space.start} & set(ranked)
        return list(dict.fromkeys((ranked[0], *start, self._simplified(ranked[0]), *ranked[1:2])))

    def _ranked(self) -> list[Configuration]:
        measured = self._measured()
        expected = self.expected(measured)
        return sorted(measured, key=lambda each: -expected[each])

    def _simplified(self, configuration: Configuration) -> Configuration:
        """The same with the current value of each knob whose change is expected to bring little."""
        simple = configuration
        for at in self.changes(configuration):
            plain = (*simple[:at], self.space.start[at], *simple[at + 1 :])
            if plain in self._evidence and self._evidence[plain].failure:
                continue
            expected = self.expected([simple, plain])
            if expected[plain] >= expected[simple] - _SAME / 2:
                simple = plain
        return simple

    def _final_share(self) -> float:
        """What the final takes of the budget."""
        return min(_FINALISTS * SHORT + 4.0, 0.4 * self.budget)

    def _spread_count(self) -> int:
        dimensions = len(self.space.knobs)
        return max(2, min(dimensions + 2, int(0.35 * self.budget / SHORT)))

    def _measured(self) -> list[Configuration]:
        return [each for each, evidence in self._evidence.items() if evidence.scores and not evidence.failure]

    def _leader(self) -> Configuration:
        return self._ranked()[0]

    def _untried(self) -> list[Configuration]:
        step = max(1, self.space.size // _MOST_LOOKED_AT)
        looked_at = itertools.islice(self.space, len(self._evidence) % step, None, step)
        found = [each for each in looked_at if self._is_open(each)]
        if step > 1 and self._measured():
            found += [each for each in self._near(self._leader()) if self._is_open(each)]
        return found

    def _is_open(self, configuration: Configuration) -> bool:
        """Whether it may be tried, and was not."""
        if configuration in self._evidence:
            return False
        return not any(_number(configuration[at]) > cap.value for at, cap in self._caps.items())

    def _near(self, configuration: Configuration) -> list[Configuration]:
        """Those that differ from it by one knob."""
        return [
            (*configuration[:at], value, *configuration[at + 1 :])
            for at, each in enumerate(self.space.knobs)
            for value in each.values
            if value != configuration[at]
        ]

    def _farthest(self, untried: Sequence[Configuration]) -> Configuration:
        """The one whose nearest measured one is farthest away."""
        places = np.asarray([self.space.coordinates(each) for each in untried])
        known = np.asarray([self.space.coordinates(each) for each in self._evidence])
        if not len(known):
            return untried[0]
        # Corners are far from everything and rarely good: a place is worth less the farther it is from the middle.
        nearest = np.abs(places[:, None, :] - known[None, :, :]).sum(axis=2).min(axis=1)
        return untried[int(np.argmax(nearest - 0.25 * np.abs(places - 0.5).sum(axis=1)))]

    def _model(self) -> ScoreModel:
        if self._fitted is None:
            self._fitted = ScoreModel(self.space, self.objective, self._evidence)
        return self._fitted

    @property
    def noise(self) -> float | None:
        """Standard deviation of a score of share 1, from what was measured more than once; None while not known."""
        return noise_of(self._evidence.values())


def _number(value: Value) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
