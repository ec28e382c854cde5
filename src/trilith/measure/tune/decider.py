"""Which configuration to measure next, and for how long: from what was measured so far. Pure.

    tuner = Tuner(space, objective, budget=20)
    while (proposal := tuner.propose()) is not None:
        tuner.observe(proposal.configuration, measured(proposal))
    tuner.best()

The search has four parts. *Spread*: a few configurations far from each other. *Search*: a model of the scores
(`score_model.py`) names the one from which most is expected; what is best so far is measured again in between, so that
luck in a single short measurement does not lead the way. *Choice*: the best few once more, and the best without those
of its changes that do little; one is chosen. *Final*: the chosen one and what there is now, in turn (`final.py`).

Rule 1: a search is a function of its observations: proposing changes nothing. Told them again, a new tuner goes on
        where the old one was.
Rule 2: the budget is counted in measurements of the usual length; a short one counts as its share.
Rule 3: what cannot be measured (it does not start, or its answers are wrong) is not proposed again.
Rule 4: what was chosen is judged by the final alone. The luck that made it the best of many is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from trilith.measure.statistics import RatioEstimate
from trilith.measure.tune.candidates import farthest, untried
from trilith.measure.tune.curves import BatchCap, Where, batch_caps
from trilith.measure.tune.evidence import Evidence
from trilith.measure.tune.final import FinalRounds
from trilith.measure.tune.objective import Figures, Objective, Observation
from trilith.measure.tune.proposal import Proposal
from trilith.measure.tune.score_model import ScoreModel
from trilith.measure.tune.space import Configuration, Space

SHORT: Final = 0.5
"""Share of the usual time for which a configuration is measured while many are looked at."""

_AGAIN_EVERY: Final = 4  # the best so far, among proposals
_ENOUGH: Final = 2.0  # shares that a configuration is measured for before the final, at most
_AFTERWARDS: Final = 2  # short measurements beyond the budget, at most
_LITTLE: Final = 0.002  # an expected gain that is not worth a measurement
_PATIENCE: Final = 4  # how often in a row it must be as little
_CHOSEN_FROM: Final = 3
_ROUNDS: Final = 4  # of the final that are kept free for it, where the budget allows
_MOST_ROUNDS: Final = 8  # with what the search has left
_SURE: Final = 0.5  # of the longest time that any was measured, for the best
_SAME: Final = 0.01  # scores that differ by less are the same


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
        self._told: list[tuple[Configuration, Observation]] = []
        self._parts: list[str] = []
        self._spent = 0.0
        self._since_again = 0
        self._caps: dict[tuple[int, Where], BatchCap] = {}
        self._final = FinalRounds(objective, space.start)
        self._fitted: ScoreModel | None = None
        self._next: tuple[Proposal | None] | None = None  # what was worked out from these observations

    # What happened

    def observe(self, configuration: Configuration, observation: Observation, part: str = "") -> str:
        """Learns what a measurement brought.

        Args:
            configuration: what was measured.
            observation: what it brought.
            part: of the proposal that it answers, where that is known; else what would be proposed now tells.

        Returns:
            The part as which it counts; `search` for what was not proposed.
        """
        if not part:
            expected = self.propose()
            part = expected.part if expected is not None and expected.configuration == configuration else "search"
        evidence = self._evidence.setdefault(configuration, Evidence([], [], []))
        evidence.observations.append(observation)
        if observation.levels:
            best = self.objective.best(observation.levels)
            evidence.scores.append((self.objective.value(best), observation.share))
            evidence.excesses.append(self.objective.excess(best))
        self._told.append((configuration, observation))
        self._parts.append(part)
        if part == "final":
            self._final.observe(configuration, observation)
        self._since_again = 0 if len(evidence.observations) > 1 else self._since_again + 1
        self._spent += observation.share
        self._fitted = self._next = None
        if observation.curves:
            self._caps = batch_caps(self.space, self._told)
        return part

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

    @property
    def chosen(self) -> Configuration | None:
        """What the final measures beside what there is now; None while there is no final."""
        return self._final.chosen

    def gain(self) -> RatioEstimate | None:
        """How many times as good the chosen one is as what there is now, by the final; None without a round of it."""
        return self._final.gain()

    def propose(self) -> Proposal | None:
        """What to measure next; None when the search has ended. Asked twice, it says the same."""
        if self._next is None:
            self._next = (self._propose(),)
        return self._next[0]

    def best(self) -> Configuration | None:
        """The best one by all that is known; None while nothing could be measured.

        Of those that are about as good, the one that changes least. What the final finds to be no better than what
        there is now is not the best.
        """
        chosen, start = self.chosen, self.space.start
        if chosen is None or self._evidence[chosen].failure or self._evidence[chosen].excess > 0.0:
            return self._choose()
        gain = self.gain()
        return start if gain is not None and gain.ratio <= 1.0 and self._evidence[start].excess <= 0.0 else chosen

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
        best = [
            self.objective.best(each.levels)
            for each in self._final.of(configuration) or evidence.observations
            if each.levels
        ]
        values = sorted(self.objective.value(each) for each in best)
        middle = values[(len(values) - 1) // 2]
        return min(best, key=lambda each: abs(self.objective.value(each) - middle))

    # The parts

    def _propose(self) -> Proposal | None:
        if not self._final.begun:
            chosen = {each for (each, _), part in zip(self._told, self._parts, strict=True) if part == "choice"}
            found = None if chosen else self._propose_another()
            found = found or self._propose_choice(chosen) or self._doubtful()
            if found is not None:
                return found
        comparable = self.space.start in self._measured()
        following = self._final.following(self._choose() if comparable else None, self._rounds())
        return None if following is None else Proposal(configuration=following, share=SHORT, part="final")

    def _rounds(self) -> int:
        """How many rounds the final has: what the search has left, whatever the final finds."""
        pairs = zip(self._told, self._parts, strict=True)
        spent = sum(observation.share for (_, observation), part in pairs if part not in ("doubt", "final"))
        return min(_MOST_ROUNDS, int((self.budget - spent) / (2 * SHORT) + 1e-6))

    def _propose_another(self) -> Proposal | None:
        left = self.budget - self._spent - self._final_share() - self._choice_share()
        if self.space.start not in self._evidence:
            return Proposal(configuration=self.space.start, share=SHORT, part="start")
        if left < SHORT:
            return None
        open_ones = self._untried()
        if not open_ones:
            return None
        if len(self._evidence) < self._spread_count() or not self._measured():
            return Proposal(configuration=farthest(self.space, self._evidence, open_ones), share=SHORT, part="spread")
        leader = self._leader()
        if self._since_again >= _AGAIN_EVERY and self._evidence[leader].share < _ENOUGH:
            return Proposal(configuration=leader, share=SHORT, part="again")
        gains = self._model().gains(open_ones)
        most = int(np.argmax(gains))
        if gains[most] >= _LITTLE:
            return Proposal(configuration=open_ones[most], share=SHORT, part="search")
        lately = [part for part in self._parts if part in ("search", "unlikely")][1 - _PATIENCE :]
        if lately == ["unlikely"] * (_PATIENCE - 1):
            return None
        return Proposal(configuration=open_ones[most], share=SHORT, part="unlikely")

    def _propose_choice(self, known: set[Configuration]) -> Proposal | None:
        """The best few once more, and the best without those of its changes that do little."""
        ranked = self._ranked()
        if len(ranked) < 2 or self.budget - self._spent - self._final_share() < SHORT:
            return None
        following = [each for each in ranked[:_CHOSEN_FROM] if each not in known][: max(0, _CHOSEN_FROM - len(known))]
        if not following and len(known) == min(_CHOSEN_FROM, len(ranked)):
            following = [each for each in (self._simplified(ranked[0]),) if each not in known]
        return Proposal(configuration=following[0], share=SHORT, part="choice") if following else None

    def _doubtful(self) -> Proposal | None:
        """What must be measured once more, whatever the budget: a little known leader, or a contradiction."""
        if self._parts.count("doubt") >= _AFTERWARDS or not self._measured():
            return None
        leader = self._leader()
        if self._evidence[leader].share < 1.0 <= max(each.share for each in self._evidence.values() if each.scores):
            return Proposal(configuration=leader, share=SHORT, part="doubt")
        for each in (leader, self.space.start):
            if each in self._evidence and self._evidence[each].disagrees:
                return Proposal(configuration=each, share=SHORT, part="doubt")
        return None

    def _choose(self) -> Configuration | None:
        """The best one by what was measured of all of them, of those that are known well enough."""
        measured = self._measured()
        if not measured:
            return None
        expected = self.expected(measured)
        keeping = [each for each in measured if self._evidence[each].excess <= 0.0] or measured
        # The final measures its two for long, which makes the others no less known.
        longest = max((self._evidence[each].share for each in keeping if not self._final.of(each)), default=0.0)
        sure = [each for each in keeping if self._evidence[each].share >= min(1.0, _SURE * longest)]
        most = max(expected[each] for each in sure)
        equal = [each for each in sure if expected[each] >= most - _SAME]
        return min(equal, key=lambda each: (len(self.changes(each)), -expected[each]))

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
        return 2 * SHORT * min(_ROUNDS, max(1, int(0.4 * self.budget)))

    def _choice_share(self) -> float:
        """What choosing takes of it."""
        return SHORT * min(_CHOSEN_FROM + 1, int(0.2 * self.budget))

    def _spread_count(self) -> int:
        dimensions = len(self.space.knobs)
        return max(2, min(dimensions + 2, int(0.35 * self.budget / SHORT)))

    def _measured(self) -> list[Configuration]:
        return [each for each, evidence in self._evidence.items() if evidence.scores and not evidence.failure]

    def _leader(self) -> Configuration:
        return self._ranked()[0]

    def _untried(self) -> list[Configuration]:
        leader = self._leader() if self._measured() else None
        return untried(self.space, self._evidence, self._caps, leader)

    def _model(self) -> ScoreModel:
        if self._fitted is None:
            self._fitted = ScoreModel(self.space, self.objective, self._evidence)
        return self._fitted
