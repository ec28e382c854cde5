"""What is compared, and in which order. Pure.

Rule 1: one load for all: the same concurrency, times and number of rounds. Only what is sent may differ, because two
        protocols need two bodies.
Rule 2: every round has each contestant once. The order turns round by round (A B, B A, B A, A B for two): a drift of
        the machine then favours nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trilith.errors import InvalidConfig

FEWEST_BEFORE_STOP: Final = 8
"""Rounds before a wanted width may end a comparison: the spread of fewer is luck."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One of what is compared.

    Attributes:
        name: how the report calls it.
        url: the endpoint.
        server_pid: the process whose tree's CPU time is read, or None.
    """

    name: str
    url: str
    server_pid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparePlan:
    """A comparison.

    Attributes:
        contestants: two or more; the first is the baseline.
        concurrency: requests in flight, of one contestant at a time.
        rate_per_s: instead of that: so many requests a second that come at random, at the same instants for all; then
            latencies are what is compared.
        rounds: how many at most.
        until_width: ends earlier, when the interval of every throughput is at most that wide (0.15: 15 %); None to
            run all rounds.
        round_s: seconds measured of one contestant in one round; None to choose by how long answers take.
        warmup_s: seconds of load before that, each time.
        timeout_s: seconds after which a request counts as failed.

    Raises:
        InvalidConfig: a value is out of range, or names are not distinct.
    """

    contestants: tuple[Contestant, ...]
    concurrency: int = 8
    rate_per_s: float | None = None
    rounds: int = 20
    until_width: float | None = None
    round_s: float | None = None
    warmup_s: float = 0.2
    timeout_s: float = 30.0

    def __post_init__(self) -> None:
        names = [contestant.name for contestant in self.contestants]
        if len(names) < 2:
            raise InvalidConfig(f"a comparison takes two targets or more, got {len(names)}")
        if len(set(names)) < len(names):
            raise InvalidConfig(f"the targets of a comparison need names of their own, got {', '.join(names)}")
        if self.rounds < 2:
            raise InvalidConfig(
                f"one round says nothing about its own chance: expected 2 rounds or more, got {self.rounds}"
            )
        if self.until_width is not None and not 0.01 <= self.until_width <= 2:
            raise InvalidConfig(f"the wanted width of the interval is between 1% and 200%, got {self.until_width:.3%}")
        if self.rate_per_s is not None and not self.rate_per_s > 0:
            raise InvalidConfig(f"expected a rate above 0 requests a second, got {self.rate_per_s:g}")
        for what, length_s in (("a round", self.round_s), ("a timeout", self.timeout_s)):
            if length_s is not None and not length_s > 0:
                raise InvalidConfig(f"{what} must be longer than 0, got {length_s:g} s")


def order_of(round_number: int, count: int) -> tuple[int, ...]:
    """Who runs when in a round: indices of contestants. Rounds 2k and 2k + 1 are each other's reverse."""
    first = (round_number // 2) % count
    order = tuple((first + place) % count for place in range(count))
    return order if round_number % 2 == 0 else order[::-1]


def fitting_round_s(slowest_mean_s: float, concurrency: int, rate_per_s: float | None = None) -> float:
    """How long a contestant should run in one round.

    Args:
        slowest_mean_s: the longest mean latency of a contestant, in seconds.
        concurrency: requests in flight.
        rate_per_s: instead of that: requests a second.

    Returns:
        Seconds: at least one; enough for thirty answers and for three of each connection; at most a minute. The count
        of what ends within a window is off by up to one a connection, which must not matter.
    """
    thirty_s = 30 * slowest_mean_s / concurrency if rate_per_s is None else 30 / rate_per_s
    return min(60.0, max(1.0, thirty_s, 3 * slowest_mean_s))
