"""The levels of a run, as values: what is in flight or how many a second, how long, and when requests are due."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from trilith.errors import InvalidConfig
from trilith.measure.load import arrivals

CLOSED: Final = "closed"
Arrivals = Literal["closed", "constant", "poisson", "replay"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelPlan:
    """One level.

    Attributes:
        name: in the report.
        concurrency: requests in flight; of an open loop the most that are.
        duration_s: seconds measured.
        warmup_s: seconds of the same load before that.
        arrivals: `closed`: a request follows each answer. Otherwise when requests are due.
        rate_per_s: of `constant` and `poisson`.
        recording: of `replay`: instants in seconds.
        speed: of `replay`: 2.0 is twice as fast.
    """

    name: str
    concurrency: int
    duration_s: float
    warmup_s: float = 0.0
    arrivals: Arrivals = "closed"
    rate_per_s: float = 0.0
    recording: tuple[float, ...] = ()
    speed: float = 1.0

    @property
    def mean_rate_per_s(self) -> float:
        """Requests a second that are due in the mean; 0.0 for a closed loop."""
        if self.arrivals == "replay":
            return arrivals.mean_rate(self.recording, speed=self.speed)
        return 0.0 if self.arrivals == "closed" else self.rate_per_s

    def due(self, seed: int) -> Callable[[], Iterator[float]] | None:
        """What makes the instants at which requests are due; None for a closed loop."""
        if self.arrivals == "closed":
            return None
        if self.arrivals == "replay":
            return lambda: arrivals.replay(self.recording, speed=self.speed)
        if self.arrivals == "constant":
            return lambda: arrivals.constant(self.rate_per_s)
        return lambda: arrivals.poisson(self.rate_per_s, random.Random(seed).random)


def closed_level(concurrency: int, duration_s: float, warmup_s: float) -> LevelPlan:
    """A closed loop with so many requests in flight."""
    return LevelPlan(name=str(concurrency), concurrency=concurrency, duration_s=duration_s, warmup_s=warmup_s)


def open_level(
    rate_per_s: float, duration_s: float, warmup_s: float, *, arrivals: Arrivals = "poisson", in_flight: int = 64
) -> LevelPlan:
    """An open loop of so many requests a second.

    Raises:
        InvalidConfig: the arrivals are neither `constant` nor `poisson`.
    """
    if arrivals not in ("constant", "poisson"):
        raise InvalidConfig(f"arrivals {arrivals!r}: expected poisson or constant")
    return LevelPlan(
        name=f"{rate_per_s:g}/s",
        concurrency=in_flight,
        duration_s=duration_s,
        warmup_s=warmup_s,
        arrivals=arrivals,
        rate_per_s=rate_per_s,
    )
