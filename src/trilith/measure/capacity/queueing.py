"""How long requests wait when they come by chance: the tail of a queue with several servers. Pure.

Erlang's C formula gives the chance to wait at all (A. K. Erlang, 1917); the mean wait is that of M/M/m scaled for
service times of any spread (A. O. Allen and J. Cunneen; in A. O. Allen, "Probability, Statistics, and Queueing Theory",
1990, section 5.3); and who waits, waits for an exponential time, which is exact for M/M/m and close to the truth for
others at the loads that matter (W. Whitt, "Approximations for the GI/G/m queue", Production and Operations Management
2, 1993).

Rule: times in seconds, rates a second. At or above the capacity a wait is infinite, never an error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_PRECISION: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Atom:
    """A service time in seconds, and the share of all requests that have it."""

    seconds: float
    share: float


def erlang_c(servers: int, offered: float) -> float:
    """The chance, 0 to 1, that a request finds all `servers` busy; `offered` is rate times service time.

    Raises:
        ValueError: there is no server.
    """
    if servers < 1:
        raise ValueError(f"a queue has at least one server, got {servers}")
    if offered <= 0:
        return 0.0
    if offered >= servers:
        return 1.0
    blocked = 1.0  # Erlang B by its recursion, which cannot overflow
    for server in range(1, servers + 1):
        blocked = offered * blocked / (server + offered * blocked)
    busy = offered / servers
    return blocked / (1.0 - busy + busy * blocked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The wait at one load.

    Attributes:
        chance: that a request waits at all, 0 to 1.
        mean_s: of those that wait, in seconds; infinite at or above the capacity.
    """

    chance: float
    mean_s: float

    def beyond(self, seconds: float) -> float:
        """The chance to wait longer than that."""
        if seconds < 0:
            return 1.0
        if math.isinf(self.mean_s):
            return self.chance
        return self.chance * math.exp(-seconds / self.mean_s) if self.mean_s > 0 else 0.0


def waiting(rate_per_s: float, capacity_per_s: float, servers: int, variation: float, scale: float = 1.0) -> Waiting:
    """The wait of requests that come at random (Poisson).

    Args:
        rate_per_s: how many come a second.
        capacity_per_s: how many all servers together can answer a second.
        servers: how many there are.
        variation: squared coefficient of variation of service times: 0 for equal ones, 1 for exponential ones.
        scale: what a measurement says that waits are beside this model.
    """
    busy = rate_per_s / capacity_per_s
    if busy >= 1.0:
        return Waiting(chance=1.0, mean_s=math.inf)
    mean_s = scale * (1.0 + variation) / 2.0 / (capacity_per_s - rate_per_s)
    return Waiting(chance=erlang_c(servers, busy * servers), mean_s=mean_s)


def response_quantile_s(service: Sequence[Atom], wait: Waiting, fraction: float) -> float:
    """The time, wait and service together, that `fraction` (0 to 1) of all requests do not exceed."""
    if math.isinf(wait.mean_s):
        return math.inf

    allowed = 1.0 - fraction
    low_s, high_s = 0.0, max(atom.seconds for atom in service)
    while late_share(service, wait, high_s) > allowed:
        low_s, high_s = high_s, 2 * high_s + wait.mean_s
    while high_s - low_s > _PRECISION * high_s:
        middle_s = (low_s + high_s) / 2
        low_s, high_s = (middle_s, high_s) if late_share(service, wait, middle_s) > allowed else (low_s, middle_s)
    return high_s


def late_share(service: Sequence[Atom], wait: Waiting, seconds: float) -> float:
    """The share of all requests, 0 to 1, that take longer than that, wait and service together."""
    return sum(atom.share * wait.beyond(seconds - atom.seconds) for atom in service)
