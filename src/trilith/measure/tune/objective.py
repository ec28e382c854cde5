"""What is wanted, and how good a measured configuration is at it. Pure.

Rule 1: scores are logarithms, the larger the better: a tenth more is a tenth more wherever one stands.
Rule 2: what misses a bound has a score too, worse the further it misses, so that a search finds its way back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

_MISS: Final = 4.0  # by so much more than it would gain a score falls with what is missed
_NOTHING: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was measured at one level of load.

    Attributes:
        concurrency: requests in flight.
        throughput_per_s: successful answers a second.
        p50_s: median time of an answer, in seconds.
        p99_s: 99th percentile.
        failed: share of requests that failed, 0 to 1.
        cpu_s: CPU seconds of the server a request; None when not known.
        seconds: how long was measured.
        spoiled: the figures are of the load generator, which was at its limit, rather than of the server.
    """

    concurrency: int
    throughput_per_s: float
    p50_s: float
    p99_s: float
    failed: float = 0.0
    cpu_s: float | None = None
    seconds: float = 0.0
    spoiled: bool = False


def penalised(value: float, excess: float) -> float:
    """A value of which the miss of a bound is taken off, several times over."""
    return value - _MISS * max(0.0, excess)


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """What is wanted.

    Attributes:
        kind: `throughput`: as many answers a second as can be; `cost`: as little CPU a request as can be.
        p99_s: the 99th percentile must not be above it, in seconds; None for no bound.
        rate_per_s: of `cost`: so many answers a second must be possible.
        most_failed: share of requests that may fail.
    """

    kind: Literal["throughput", "cost"] = "throughput"
    p99_s: float | None = None
    rate_per_s: float = 0.0
    most_failed: float = 0.001

    @property
    def bounded(self) -> bool:
        """Whether there are bounds beside that on failures."""
        return self.p99_s is not None or self.rate_per_s > 0

    def meets(self, figures: Figures) -> bool:
        """Whether these figures keep every bound."""
        return self.excess(figures) <= 0.0

    def value(self, figures: Figures) -> float:
        """The logarithm of what is wanted, whatever the bounds; the larger the better."""
        if self.kind == "throughput":
            return math.log(max(figures.throughput_per_s, _NOTHING))
        return -math.log(max(figures.cpu_s or 1.0 / max(figures.throughput_per_s, _NOTHING), _NOTHING))

    def excess(self, figures: Figures) -> float:
        """By how much the worst bound is missed, as a logarithm; below 0 it says how much room is left."""
        excess = [-1.0] if not self.bounded else []
        if self.p99_s is not None:
            excess.append(math.log(max(figures.p99_s, _NOTHING) / self.p99_s))
        if self.rate_per_s > 0:
            excess.append(math.log(self.rate_per_s / max(figures.throughput_per_s, _NOTHING)))
        if figures.failed > self.most_failed:
            excess.append(1.0 + figures.failed)
        return max(excess)

    def score(self, figures: Figures) -> float:
        """The value, less what bounds are missed by; the larger the better."""
        return penalised(self.value(figures), self.excess(figures))

    def best(self, levels: Sequence[Figures]) -> Figures:
        """The level at which a configuration is best: of those that keep the bounds, else of all.

        Raises:
            ValueError: there is no level.
        """
        return max(levels, key=lambda level: (self.meets(level), self.score(level)))

    def __str__(self) -> str:
        """In words."""
        bound = "" if self.p99_s is None else f" with p99 within {self.p99_s * 1e3:g} ms"
        if self.kind == "throughput":
            return f"most answers a second{bound}"
        return f"least CPU a request at {self.rate_per_s:g} answers a second{bound}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What came of one measurement of a configuration.

    Attributes:
        levels: what was measured, by load; empty when it could not be.
        share: how long, as a multiple of the usual time.
        failure: why it could not be measured; "" when it was.
        curves: what a batch takes by its rows, by model: (rows, seconds, how often).
        ready_s: seconds from the copy's start until it was ready; 0.0 when a running one was measured.
    """

    levels: tuple[Figures, ...] = ()
    share: float = 1.0
    failure: str = ""
    curves: dict[str, tuple[tuple[int, float, int], ...]] = field(default_factory=dict)
    ready_s: float = 0.0
