"""Which batch size serves best, by what was learned. Pure.

The objective is throughput: the most rows a second, with the smallest size among those that are as good within
`TOLERANCE`, because it answers sooner; and no batch that is expected to take longer than `max_latency_s`.

Rule 1: it says how much of what waits goes now, never that something should wait.
Rule 2: until a curve is known everything that waits goes together.
Rule 3: exploring is bounded. A size is tried when the smaller ones, which take no longer, leave open whether it is
    better; once it was tried, and for what was not tried for long, only as far as the time lost stays below `LOSS` of
    all time. What is lost by a run is its time less what its rows take at the best known rate.
Rule 4: each shape has its own curve. Of the shapes, those used last are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from trilith.runtime.schedule.cost import CostCurve, MeasuredSize

TOLERANCE: Final = 0.03
LOSS: Final = 0.03
SURE_AFTER: Final = 3
SHAPES_KEPT: Final = 64
_PROMISE: Final = 1.1  # how much better a size must possibly be to be worth trying
_TRIES: Final = 2  # how often a size is tried, whatever is lost by it, until it counts as measured
_REFRESH: Final = 8  # runs after which choices are made anew


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedCurve:
    """What was learned of one shape.

    Attributes:
        shape: the shape beyond the batch dimension, of the inputs whose shape is free; None where none is.
        chosen_rows: the size that a full queue is served in.
        fixed_s: seconds that a batch takes whatever its size, by the straight line through the runs.
        per_row_s: seconds that each row adds, by that line.
        points: the sizes that were run.
    """

    shape: Hashable
    chosen_rows: int
    fixed_s: float
    per_row_s: float
    points: tuple[MeasuredSize, ...]


class _Shape:
    __slots__ = ("choices", "curve", "fresh_until", "lost_s", "tries")

    def __init__(self) -> None:
        self.curve = CostCurve()
        self.choices: dict[int, int] = {}
        self.fresh_until = 0
        self.lost_s = 0.0
        self.tries: dict[int, int] = {}


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
            choice = self._explore(known, limit, best) or best
            if choice == best:  # what is tried is tried once
                known.choices[limit] = best
        return choice

    def curves(self) -> tuple[LearnedCurve, ...]:
        """What was learned, by shape; the shape used last stands last."""
        learned = []
        for shape, known in self._shapes.items():
            fixed_s, per_row_s = known.curve.line()
            learned.append(
                LearnedCurve(
                    shape=shape,
                    chosen_rows=self._best(known.curve, self._max_rows),
                    fixed_s=fixed_s,
                    per_row_s=per_row_s,
                    points=known.curve.points(),
                )
            )
        return tuple(learned)

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
        rates = [rows / max(curve.seconds(rows), 1e-9) for rows in sizes]
        enough = max(rates) * (1.0 - TOLERANCE)
        return next(rows for rows, rate in zip(sizes, rates, strict=True) if rate >= enough)

    def _explore(self, known: _Shape, limit: int, best: int) -> int | None:
        """A size to try instead of the best one, or None."""
        curve = known.curve
        rate = best / max(curve.seconds(best), 1e-9)
        budget_s = LOSS * curve.total_s - known.lost_s
        for rows in self._classes:  # the smallest first: it bounds what the others can gain
            if rows > limit:
                break
            if rows == best or curve.runs(rows) >= SURE_AFTER:
                continue
            if self._max_latency_s is not None and curve.at_least(rows) > self._max_latency_s:
                continue
            # A size takes at least what a smaller one takes, which bounds what it can gain. One run is half believed.
            least_s = max(curve.at_least(rows), curve.seconds(rows) / 2 if curve.runs(rows) else 0.0)
            hope = rows / max(least_s, 1e-9)
            is_open = hope > rate * _PROMISE and known.tries.get(rows, 0) < _TRIES
            lost_s = max(0.0, curve.at_most(rows) - rows / rate)
            if is_open or lost_s < budget_s:
                known.tries[rows] = known.tries.get(rows, 0) + 1
                known.lost_s += lost_s
                return rows
        return None
