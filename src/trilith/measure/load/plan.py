"""One level of load, as values."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from trilith.measure.load.http_station import HttpStation
from trilith.measure.load.lanes import Request, Station
from trilith.measure.load.target import PreparedRequest, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The requests to one target, and the way there.

    Attributes:
        make_station: makes the way there, given its number.
        requests: prepared for that station, sent in turn; at least one.
        weight: how often it is chosen among several.
        name: in the report.
        timelines_at: where timelines that were too long for a header are fetched, or None.
    """

    make_station: Callable[[int], Station]
    requests: Sequence[Any]
    weight: float = 1.0
    name: str = ""
    timelines_at: Target | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """One level of load.

    Attributes:
        target: the endpoint, where there is one and it speaks HTTP/1.1.
        requests: sent there in turn (round robin).
        traffic: instead of these two: targets of any kind, one or several.
        concurrency: lanes to each target. In a closed loop so many requests are in flight in all; in an open one no
            more than these, and what is due beyond waits in the client.
        duration_s: seconds measured.
        warmup_s: seconds of the same load before that, not measured.
        timeout_s: seconds after which a request without an answer is an error.
        sample_timelines: whether some requests ask for their timeline.
        due: makes the instants at which requests are due, in seconds from the start; None for a closed loop.
        rate_per_s: their mean rate, 0.0 for a closed loop.
        slo_s: seconds within which an answer is useful.
        most_waiting: so many due requests may wait in the client for each target; one more fails at once.
        hopeless_share: an open loop ends early when more than this share of its requests has missed `slo_s` for
            certain; None: never.
        uniform: draws from [0, 1): which of several targets comes next.
    """

    target: Target | None = None
    requests: Sequence[PreparedRequest] = ()
    traffic: Sequence[Traffic] = ()
    concurrency: int
    duration_s: float
    warmup_s: float = 0.0
    timeout_s: float = 30.0
    sample_timelines: bool = False
    due: Callable[[], Iterator[float]] | None = None
    rate_per_s: float = 0.0
    slo_s: float = math.inf
    hopeless_share: float | None = None
    most_waiting: int = 100_000
    uniform: Callable[[], float] = field(default=lambda: 0.0)


class Picker:
    """Which target comes next, by weight and chance, and which of its requests, in turn."""

    __slots__ = ("_next", "_requests", "_thresholds", "_uniform")

    def __init__(self, traffic: Sequence[Traffic], uniform: Callable[[], float]) -> None:
        self._requests = [each.requests for each in traffic]
        self._thresholds = list(accumulate(each.weight for each in traffic))
        self._next = [0] * len(self._requests)
        self._uniform = uniform

    def draw(self) -> int:
        """The number of a target."""
        thresholds = self._thresholds
        if len(thresholds) == 1:
            return 0
        return min(bisect(thresholds, self._uniform() * thresholds[-1]), len(thresholds) - 1)

    def request(self, station: int) -> Request:
        """The next request of a target."""
        requests, index = self._requests[station], self._next[station]
        self._next[station] = index + 1 if index + 1 < len(requests) else 0
        return requests[index]


def http_traffic(plan: LoadPlan) -> Traffic:
    """The requests of a plan that has one HTTP endpoint.

    Raises:
        ValueError: it has none.
    """
    target = plan.target
    if target is None:
        raise ValueError("a LoadPlan has a target or traffic")
    return Traffic(
        make_station=lambda number: HttpStation(number, target, timeout_s=plan.timeout_s),
        requests=plan.requests,
        timelines_at=target,
    )
