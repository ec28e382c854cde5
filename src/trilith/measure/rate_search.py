"""The highest rate that meets a promise, by as few trials as possible. Pure: each trial's outcome is an argument.

Rule 1: first a bracket: the rate is doubled while the promise is kept, or halved while it is broken. Then the bracket
        is halved, in the logarithm, until its ends are within `precision`.
Rule 2: a trial that chance may have decided decides nothing alone: of such a rate two trials of three count. One that
        broke the promise is tried again at once; of those that kept it, the one that would be the answer, at the end.
        Both ways alike: were only the broken ones tried again, the answer would be too high.
Rule 3: an answer that fails at the end is the upper end of a new bracket. What was kept just below it is forgotten, and
        each time twice as far below (in the logarithm).
Rule 4: it ends, whatever the outcomes are: a bracket only shrinks, and all that moves it has bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

_ENOUGH: Final = 2
_FARTHEST: Final = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RateFound:
    """What a search found.

    Attributes:
        rate_per_s: the highest rate that met the promise; None when not even the lowest did.
        above_per_s: the lowest rate that did not; None when even the highest did.
        trials: how many it took.
        complete: whether the two are as close as was asked, or there is nothing beyond.
    """

    rate_per_s: float | None
    above_per_s: float | None
    trials: int
    complete: bool


class RateSearch:
    """Asks for trials (`next_rate`) and hears of them (`tell`).

    Args:
        first: the rate to begin with, requests a second.
        lowest: no lower rate is tried.
        highest: no higher one.
        precision: the ends of the bracket differ by at most this share.

    Raises:
        ValueError: not 0 < lowest <= first <= highest, or the precision is not above 0.
    """

    def __init__(self, *, first: float, lowest: float = 0.1, highest: float = 1e6, precision: float = 0.05) -> None:
        if not 0 < lowest <= first <= highest or not precision > 0:
            raise ValueError(f"expected 0 < lowest <= first <= highest, got {lowest}, {first}, {highest}")
        self._lowest = lowest
        self._highest = highest
        self._ratio = 1.0 + precision
        self._met: float | None = None
        self._broken: float | None = None
        self._next: float | None = first
        self._kept: list[float] = []  # those below, ascending; the last is `_met`
        self._tally: dict[float, list[bool]] = {}
        self._sure: set[float] = set()
        self._failed_at_end = 0
        self._trials = 0

    @property
    def found(self) -> RateFound:
        """What is known so far."""
        return RateFound(
            rate_per_s=self._met, above_per_s=self._broken, trials=self._trials, complete=self._next is None
        )

    def next_rate(self) -> float | None:
        """The rate to try, or None when the search has ended."""
        return self._next

    def tell(self, *, met: bool, clearly: bool = False) -> None:
        """The trial of `next_rate` has ended.

        Args:
            met: whether the promise was kept.
            clearly: whether it was kept or broken by so much that chance does not explain it.

        Raises:
            ValueError: no trial was asked for.
        """
        rate = self._next
        if rate is None:
            raise ValueError("the search has ended")
        self._trials += 1
        tally = self._tally.setdefault(rate, [])
        tally.append(met)
        if clearly:
            tally[:] = [met] * _ENOUGH
        if max(tally.count(True), tally.count(False)) >= _ENOUGH:
            self._sure.add(rate)
            met = tally.count(True) >= _ENOUGH
        elif not met or len(tally) > 1:
            return  # once more
        self._moved(rate, met=met)
        self._next = self._choose()

    def _moved(self, rate: float, *, met: bool) -> None:
        if met:
            if rate != self._met:
                self._kept.append(rate)
        else:
            self._broken = rate
            if rate == self._met:
                self._failed_at_end += 1
                below = rate * math.exp(-min(_FARTHEST, 2.0**self._failed_at_end * math.log(self._ratio)))
                self._kept = [kept for kept in self._kept if kept <= below]
        self._met = self._kept[-1] if self._kept else None

    def _choose(self) -> float | None:
        met, broken = self._met, self._broken
        if broken is None:
            if met is None or met < self._highest:
                return None if met is None else min(self._highest, met * 2)
        elif met is None:
            return None if broken <= self._lowest else max(self._lowest, broken / 2)
        elif broken / met > self._ratio:
            return math.sqrt(met * broken)
        return None if met in self._sure else met
