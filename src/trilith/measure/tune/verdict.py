"""What a search found: the trade-offs, the winner, and what it owes to each change. Pure.

Rule 1: a gain is told by what was measured after the winner was chosen, with how sure that makes it.
Rule 2: a change that was found to do nothing is not told as one that helps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trilith.measure.tune.decider import Tuner
from trilith.measure.tune.evidence import scatter_of
from trilith.measure.tune.objective import Figures
from trilith.measure.tune.space import Configuration, Value

_WORTH_TELLING: Final = 0.01
_NOISY: Final = 0.15
_FOR_P99: Final = 100  # answers below which the 99th percentile is the slowest


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What one change of the winner does, by the fitted model: the winner's score over that with the change undone.

    Attributes:
        path: of the knob.
        before: its value without tuning.
        after: its value in the winner.
        ratio: how many times as good it makes the winner.
    """

    path: str
    before: Value
    after: Value
    ratio: float

    @property
    def matters(self) -> bool:
        """Whether it is more than the model can tell from nothing."""
        return abs(self.ratio - 1.0) >= _WORTH_TELLING


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One configuration in the table.

    Attributes:
        configuration: a value for each knob.
        figures: at its best load.
        meets: whether it keeps every bound.
        is_pareto: whether no other one is better in something and worse in nothing.
        is_start: it is what there is without tuning.
        is_winner: it is the best one.
        times: how often it was measured.
    """

    configuration: Configuration
    figures: Figures
    meets: bool
    is_pareto: bool
    is_start: bool
    is_winner: bool
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a search found.

    Attributes:
        winner: the best configuration; None when nothing could be measured.
        meets: whether it keeps every bound.
        ratio: how many times as good it is as what there is without tuning, by the final; None where it had none.
        low: lower end of the interval that holds that ratio in 95 of 100 finals; 0 where nothing is known.
        high: its upper end; infinite where nothing is known.
        rounds: of the final: how often both were measured, in turn.
        effects: what its changes do, the strongest first.
        rows: what was measured, the best first.
        failures: why configurations could not be measured, with one of them each.
        notes: what was left out, and why.
    """

    winner: Configuration | None
    meets: bool
    ratio: float | None
    low: float
    high: float
    rounds: int
    effects: tuple[Effect, ...]
    rows: tuple[Row, ...]
    failures: tuple[tuple[str, Configuration], ...]
    notes: tuple[str, ...]


def judge(tuner: Tuner) -> Verdict:
    """What the search has found so far."""
    winner = tuner.best()
    rows = _rows(tuner, winner)
    gain = tuner.gain() if winner is not None and winner == tuner.chosen else None
    unchanged = 1.0 if winner == tuner.space.start else None
    figures = tuner.figures(winner) if winner is not None else None
    failures: dict[str, Configuration] = {}
    for configuration, evidence in tuner.evidence.items():
        if evidence.failure:
            failures.setdefault(evidence.failure, configuration)
    return Verdict(
        winner=winner,
        meets=figures is not None and tuner.objective.meets(figures),
        ratio=unchanged if gain is None else gain.ratio,
        low=(unchanged or 0.0) if gain is None else gain.low,
        high=(unchanged or math.inf) if gain is None else gain.high,
        rounds=0 if gain is None else gain.rounds,
        effects=_effects(tuner, winner) if winner is not None else (),
        rows=tuple(rows),
        failures=tuple(failures.items()),
        notes=tuple(_notes(tuner, figures)),
    )


def _notes(tuner: Tuner, winner: Figures | None) -> list[str]:
    """What is to be known beside the figures."""
    notes = [str(cap) for cap in tuner.caps]
    scatter = scatter_of(tuner.evidence.values())
    if scatter is not None and scatter >= _NOISY:
        notes.append(
            f"this machine is noisy: one and the same configuration differs by {scatter:.0%} from measurement to "
            "measurement; tune where nothing else is busy, or measure longer (--duration)"
        )
    if winner is not None and winner.spoiled:
        notes.append("the load generator was at its limit with the best one, so that it may be better than it looks")
    if winner is not None and tuner.objective.p99_s is not None:
        answers = winner.throughput_per_s * winner.seconds
        if 0 < answers < _FOR_P99:
            notes.append(
                f"the p99 is that of {answers:.0f} answers, so their slowest; to know it measure longer (--duration)"
            )
    return notes


def _rows(tuner: Tuner, winner: Configuration | None) -> list[Row]:
    measured = [(each, figures) for each in tuner.evidence if (figures := tuner.figures(each)) is not None]
    front = pareto([figures for _, figures in measured])
    expected = tuner.expected([each for each, _ in measured])
    rows = [
        Row(
            configuration=each,
            figures=figures,
            meets=tuner.objective.meets(figures),
            is_pareto=at in front,
            is_start=each == tuner.space.start,
            is_winner=each == winner,
            times=len(tuner.evidence[each].scores),
        )
        for at, (each, figures) in enumerate(measured)
    ]
    return sorted(rows, key=lambda row: (not row.is_winner, -expected[row.configuration]))


def pareto(figures: Sequence[Figures]) -> set[int]:
    """The positions of those that no other one beats in throughput, p99 or CPU without being worse in the rest."""
    points = [(-each.throughput_per_s, each.p99_s, each.cpu_s or 0.0) for each in figures]
    return {
        at
        for at, point in enumerate(points)
        if not any(
            other != point and all(theirs <= own for theirs, own in zip(other, point, strict=True)) for other in points
        )
    }


def _effects(tuner: Tuner, winner: Configuration) -> tuple[Effect, ...]:
    found = []
    for at in tuner.changes(winner):
        undone = (*winner[:at], tuner.space.start[at], *winner[at + 1 :])
        expected = tuner.expected([winner, undone])
        found.append(
            Effect(
                path=tuner.space.knobs[at].path,
                before=tuner.space.start[at],
                after=winner[at],
                ratio=math.exp(expected[winner] - expected[undone]),
            )
        )
    return tuple(sorted(found, key=lambda each: -abs(math.log(each.ratio))))
