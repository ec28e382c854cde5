"""The highest rate that meets a promise, by as few trials as possible. Pure: each trial's outcome is an argument.

Rule 1: first a bracket: the rate is doubled while the promise is kept, or halved while it is broken. Then the bracket
        is halved, in the logarithm, until its ends are within `precision`.
Rule 2: a rate that broke the promise by little is tried once more: one hiccup of the machine would otherwise decide.
        A rate that kept it is believed.
Rule 3: it ends, whatever the outcomes are: a bracket only shrinks, and doubling and halving have bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


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
        self._doubtful = False
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
            clearly: whether it was broken by so much that no hiccup explains it.

        Raises:
            ValueError: no trial was asked for.
        """
        rate = self._next
        if rate is None:
            raise ValueError("the search has ended")
        self._trials += 1
        if met:
            self._met, self._doubtful = rate, False
        elif not self._doubtful and not clearly:
            self._doubtful = True
            return
        else:
            self._broken, self._doubtful = rate, False
        self._next = self._choose()

    def _choose(self) -> float | None:
        met, broken = self._met, self._broken
        if broken is None:
            return None if met is None or met >= self._highest else min(self._highest, met * 2)
        if met is None:
            return None if broken <= self._lowest else max(self._lowest, broken / 2)
        return None if broken / met <= self._ratio else math.sqrt(met * broken)
