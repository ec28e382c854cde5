"""Which batch size serves best, by what was learned. Pure.

The objective is throughput: the most rows a second, with the smallest size among those that are as good within
`TOLERANCE`, because it answers sooner; and no batch that is expected to take longer than `max_latency_s`.

Rule 1: it says how much of what waits goes now, never that something should wait.
Rule 2: until a curve is known everything that waits goes together.
Rule 3: exploring is bounded, and begins when the best size has run. A size is tried twice when the smaller ones, which
    take no longer, leave open whether it is better. From then on sizes are tried that may well be better than the best
    (the most promising first), and those that did not run for long, as far as the time lost stays below `LOSS` of all
    time. What is lost by a trial is what it took less what its rows take at the best known rate. A size that no batch
    became, because each request has several rows, is no more often tried than one that did not run for long.
Rule 4: luck does not choose. Of a size that is little known its doubt is added to what it takes, but for the size of
    all that waits; the optimism is in Rule 3 (upper confidence bounds: Auer, Cesa-Bianchi and Fischer, 2002).
Rule 5: each shape has its own curve. Of the shapes, those used last are kept, and of their sizes so few that a choice
    takes microseconds whatever `max_rows` is (`SIZES_KEPT`).
"""

from __future__ import annotations

import bisect
import math
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from trilith.runtime.schedule.cost import STALE_AFTER, SURE_AFTER, CostCurve, MeasuredSize

TOLERANCE: Final = 0.03
LOSS: Final = 0.02
SHAPES_KEPT: Final = 64
_PROMISE: Final = 1.1  # how much better a size must possibly be to be worth trying
_TRIES: Final = 2  # how often a size is tried, whatever is lost by it
_HOPE: Final = 2.0  # standard deviations by which a size may be better than what is known of it
_CAUTION: Final = 0.5  # standard deviations by which it is taken to be worse
_DISTURBED: Final = 3.0  # a trial costs no more than so many times what was expected: the size is not to blame for more
_REFRESH: Final = 8  # runs after which choices are made anew


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedCurve:
    """What was learned of one shape.

    Attributes:
        shape: the shape beyond the batch dimension, of the inputs whose shape is free; None where none is.
        chosen_rows: the size that a full queue is served in.
        fixed_s: seconds that a batch takes whatever its size, by the straight line through the runs.
        per_row_s: seconds that each row adds, by that line.
        points: the sizes that were run; of many, those of which the most is known.
    """

    shape: Hashable
    chosen_rows: int
    fixed_s: float
    per_row_s: float
    points: tuple[MeasuredSize, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """A size that was chosen to learn from.

    Attributes:
        rows: the size.
        best: the size that would have been chosen.
        rate: rows a second of that one.
    """

    rows: int
    best: int
    rate: float


class _Shape:
    __slots__ = ("choices", "curve", "fresh_until", "lost_s", "trial", "tried_at", "tries")

    def __init__(self) -> None:
        self.curve = CostCurve()
        self.choices: dict[int, int] = {}
        self.fresh_until = 0
        self.lost_s = 0.0
        self.trial: _Trial | None = None
        self.tries: dict[int, int] = {}
        self.tried_at: dict[int, int] = {}  # by size: how many runs there were when it was tried last


class BatchSizer:
    """Chooses batch sizes of one model, and learns from what they took.

    Args:
        max_rows: the most rows in a batch.
        max_latency_s: no batch that is expected to take longer is formed, but for a single request; None for no bound.
    """

    __slots__ = ("_classes", "_max_latency_s", "_max_rows", "_shapes")

    def __init__(self, max_rows: int, *, max_latency_s: float | None = None) -> None:
        self._max_rows = max_rows
        self._max_latency_s = max_latency_s
        self._classes = [*(1 << power for power in range(max_rows.bit_length()) if 1 << power < max_rows), max_rows]
        self._shapes: OrderedDict[Hashable, _Shape] = OrderedDict()

    def observe(self, shape: Hashable, rows: int, seconds: float) -> None:
        """Learns that a batch of `rows` of this shape took `seconds`."""
        known = self._shapes.get(shape)
        if known is None:
            known = self._shapes[shape] = _Shape()
            if len(self._shapes) > SHAPES_KEPT:
                self._shapes.popitem(last=False)
        else:
            self._shapes.move_to_end(shape)
        curve = known.curve
        is_new = curve.runs(rows) < SURE_AFTER
        self._charge(known, rows, seconds)
        curve.observe(rows, seconds)
        if is_new or curve.observed >= known.fresh_until:
            known.choices.clear()
            known.fresh_until = curve.observed + _REFRESH

    def choose(self, shape: Hashable, waiting: int) -> int:
        """How many of the rows that wait go together now: 1 to `waiting`, and at most `max_rows`."""
        limit = min(waiting, self._max_rows)
        known = self._shapes.get(shape)
        if limit <= 1 or known is None:
            return limit
        choice = known.choices.get(limit)
        if choice is None:
            best = self._best(known.curve, limit)
            choice = self._explore(known, limit, best)
            if choice == best:  # what is tried is tried once
                known.choices[limit] = best
        return choice

    def shapes(self) -> list[Hashable]:
        """The shapes of which something was learned; the one used last stands last."""
        return list(self._shapes)

    def curve(self, shape: Hashable) -> CostCurve | None:
        """A copy of what was learned of one shape, for `learned`; None where nothing was."""
        known = self._shapes.get(shape)
        return None if known is None else known.curve.copy()

    def learned(self, shape: Hashable, curve: CostCurve) -> LearnedCurve:
        """What a copy says. It touches nothing that changes, so no lock need be held."""
        fixed_s, per_row_s = curve.line()
        return LearnedCurve(
            shape=shape,
            chosen_rows=self._best(curve, self._max_rows),
            fixed_s=fixed_s,
            per_row_s=per_row_s,
            points=curve.points(),
        )

    def _best(self, curve: CostCurve, limit: int) -> int:
        """The smallest size that gives as many rows a second as any; among those measured, and the limit itself."""
        measured = curve.measured()
        if not measured or limit < measured[0]:
            return limit
        sizes = [rows for rows in measured if rows <= limit]
        # A limit beyond everything measured is not known to be worse: the line goes on.
        if sizes[-1] != limit:
            sizes.append(limit)
        bound_s = self._max_latency_s
        if bound_s is not None:
            sizes = [rows for rows in sizes if curve.seconds(rows) <= bound_s] or sizes[:1]
        rates = [rows / max(self._cautious_s(curve, rows, limit), 1e-9) for rows in sizes]
        enough = max(rates) * (1.0 - TOLERANCE)
        return next(rows for rows, rate in zip(sizes, rates, strict=True) if rate >= enough)

    def _cautious_s(self, curve: CostCurve, rows: int, limit: int) -> float:
        return curve.seconds(rows) * (1.0 if rows == limit else 1.0 + _CAUTION * curve.doubt(rows))

    def _explore(self, known: _Shape, limit: int, best: int) -> int:
        """A size to try instead of the best one, or that one."""
        curve = known.curve
        if not curve.runs(best):
            return best  # which says more than any other
        rate = best / max(curve.seconds(best), 1e-9)
        budget_s = LOSS * curve.total_s - known.lost_s
        bound_s = math.inf if self._max_latency_s is None else self._max_latency_s
        most, chosen = rate * (1.0 + TOLERANCE), best
        classes = self._classes[: bisect.bisect(self._classes, limit)]
        # The smallest first: it bounds what the others can gain. All that waits goes together by itself until it is
        # known to be worse, which may have been bad luck.
        for rows in classes if limit == classes[-1] or not curve.runs(limit) else (*classes, limit):
            least_s = max(curve.at_least(rows), curve.seconds(rows) * (1.0 - _HOPE * curve.doubt(rows)))
            if rows == best or least_s > bound_s:
                continue
            tries = known.tries.get(rows, 0)
            # A size takes at least what a smaller one takes, which bounds what it can gain.
            possible = rows / max(curve.at_least(rows), 1e-9)
            if rows in classes and max(curve.runs(rows), tries) < _TRIES and possible > rate * _PROMISE:
                known.tries[rows] = tries + 1
                known.tried_at[rows] = curve.observed
                return rows
            waited = curve.observed - known.tried_at.get(rows, -STALE_AFTER)
            if not curve.runs(rows) and waited < STALE_AFTER:
                continue  # no requests make such a batch now, so it would stand before those that they make
            expected_s = curve.at_most(rows)
            hope = min(possible, rows / max(expected_s * (1.0 - _HOPE * curve.doubt(rows)), 1e-9))
            if min(curve.age(rows), waited) >= STALE_AFTER:
                hope = math.inf
            if hope > most and expected_s - rows / rate < budget_s:
                most, chosen = hope, rows
        if chosen != best:
            known.tried_at[chosen] = curve.observed
            known.trial = _Trial(rows=chosen, best=best, rate=rate)
        return chosen

    def _charge(self, known: _Shape, rows: int, seconds: float) -> None:
        """Counts what a trial lost, whatever size it became; what it won is not saved for others."""
        trial = known.trial
        if trial is None or rows > trial.rows or rows == trial.best:
            return
        expected_s = known.curve.seconds(rows)
        took_s = min(seconds, _DISTURBED * expected_s) if expected_s else seconds
        known.lost_s = max(0.0, known.lost_s + took_s - rows / trial.rate)
        known.trial = None
