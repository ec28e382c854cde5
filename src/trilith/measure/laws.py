"""The laws of queues, as functions: what must hold between load, throughput and time whatever the server is. Pure.

Rule 1: units are in the names: seconds, requests a second, requests. A share is 0 to 1.
Rule 2: a law that needs a figure nobody measured does not guess one.

Little's law: J. D. C. Little, "A Proof for the Queuing Formula L = lambda W", 1961. Utilisation law and asymptotic
bounds of closed systems: E. D. Lazowska et al., "Quantitative System Performance", 1984, chapters 3 and 5. Universal
scalability: N. J. Gunther, "Guerrilla Capacity Planning", 2007, chapters 4 to 6.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

_SINGULAR: Final = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure and the interval in which it most likely is."""

    value: float
    low: float
    high: float


def in_system(throughput_per_s: float, time_s: float) -> float:
    """Little's law: how many requests are somewhere, when so many a second stay for so long."""
    return throughput_per_s * time_s


def utilisation(throughput_per_s: float, service_s: float, servers: int = 1) -> float:
    """The utilisation law: the share of the time that each of `servers` alike is busy.

    Raises:
        ValueError: there is no server.
    """
    if servers < 1:
        raise ValueError(f"a station has at least one server, got {servers}")
    return throughput_per_s * service_s / servers


def service_demand(busy_s: float, elapsed_s: float, throughput_per_s: float) -> float:
    """Seconds of a station that one request needs: its busy time over the requests that were answered meanwhile.

    0.0 when nothing was answered.
    """
    answered = throughput_per_s * elapsed_s
    return busy_s / answered if answered > 0 else 0.0


def throughput_bound(load: float, time_alone_s: float, demand_s: float, servers: float = 1.0) -> float:
    """The most that a closed system of `load` requests in flight can answer a second.

    Two things bound it: each request takes at least the time that it takes alone, and the fullest station, which
    spends `demand_s` on each request, has `servers`. Infinite when neither takes time.
    """
    bounds = [math.inf]
    if time_alone_s > 0:
        bounds.append(load / time_alone_s)
    if demand_s > 0:
        bounds.append(servers / demand_s)
    return min(bounds)


def knee(time_alone_s: float, demand_s: float, servers: float = 1.0) -> float:
    """The load from which on requests must wait for the fullest station; infinite when it takes no time."""
    return time_alone_s * servers / demand_s if demand_s > 0 else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalability:
    """A fitted universal scalability law: X(n) = rate * n / (1 + contention * (n - 1) + coherency * n * (n - 1)).

    Attributes:
        rate_per_s: throughput of one request in flight.
        contention: share of the work that only one request can have at a time.
        coherency: what each pair of requests costs: above 0 throughput falls again with the load.
        error: root of the mean squared relative error of the fit.
    """

    rate_per_s: float
    contention: float
    coherency: float
    error: float

    def throughput_per_s(self, load: float) -> float:
        """At so many requests in flight."""
        return self.rate_per_s * load / (1 + self.contention * (load - 1) + self.coherency * load * (load - 1))

    @property
    def best_load(self) -> float:
        """Where throughput is highest; infinite while it only rises."""
        return math.sqrt(max(0.0, 1 - self.contention) / self.coherency) if self.coherency > 0 else math.inf

    @property
    def ceiling_per_s(self) -> float:
        """The highest throughput at any load; infinite when nothing is shared."""
        if self.coherency > 0:
            return self.throughput_per_s(max(1.0, self.best_load))
        return self.rate_per_s / min(1.0, self.contention) if self.contention > 0 else math.inf


def fit_scalability(points: Iterable[tuple[float, float]]) -> Scalability | None:
    """Fits the law to (load, throughput a second); None for fewer than two loads with a throughput.

    Least squares of relative errors: n / X is linear in the three unknowns; none may be negative.
    """
    usable = [(load, throughput) for load, throughput in points if load > 0 and throughput > 0]
    if len({load for load, _ in usable}) < 2:
        return None
    best: Scalability | None = None
    for use_contention, use_coherency in itertools.product((True, False), repeat=2):
        rows = []
        for load, throughput in usable:
            weight = throughput / load
            row = [weight]
            row += [weight * (load - 1)] if use_contention else []
            row += [weight * load * (load - 1)] if use_coherency else []
            rows.append(row)
        found = _least_squares(rows, [1.0] * len(rows))
        if found is None or found[0] <= 0 or min(found) < 0:
            continue
        rest = found[1:]
        contention = rest.pop(0) / found[0] if use_contention else 0.0
        coherency = rest.pop(0) / found[0] if use_coherency else 0.0
        fitted = Scalability(rate_per_s=1 / found[0], contention=contention, coherency=coherency, error=0.0)
        squares = [(fitted.throughput_per_s(load) / throughput - 1) ** 2 for load, throughput in usable]
        error = math.sqrt(sum(squares) / len(squares))
        if best is None or error < best.error - _SINGULAR:
            best = Scalability(rate_per_s=fitted.rate_per_s, contention=contention, coherency=coherency, error=error)
    return best


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCost:
    """What a batch of n costs: t(n) = fixed + each * n, in seconds."""

    fixed_s: float
    each_s: float

    def seconds(self, size: float) -> float:
        """A batch of that size."""
        return self.fixed_s + self.each_s * size

    def gain(self, size: float, other: float) -> float:
        """How many times as many items a second batches of `other` give than batches of `size`."""
        per_item_s = self.seconds(other) / other
        return self.seconds(size) / size / per_item_s if per_item_s > 0 else 1.0


def fit_batch_cost(points: Iterable[tuple[float, float, float]]) -> BatchCost | None:
    """Fits t(n) to (size, seconds, how often); None for fewer than two sizes. Neither part is negative."""
    usable = [(size, seconds, weight) for size, seconds, weight in points if size > 0 and seconds > 0 and weight > 0]
    if len({size for size, _, _ in usable}) < 2:
        return None
    rows, values = [], []
    for size, seconds, weight in usable:
        scale = math.sqrt(weight) / seconds
        rows.append([scale, scale * size])
        values.append(math.sqrt(weight))
    found = _least_squares(rows, values)
    if found is None:
        return None
    fixed_s, each_s = found
    weights = sum(weight for _, _, weight in usable)
    if fixed_s < 0:
        return BatchCost(fixed_s=0.0, each_s=sum(s / n * w for n, s, w in usable) / weights)
    if each_s < 0:
        return BatchCost(fixed_s=sum(s * w for _, s, w in usable) / weights, each_s=0.0)
    return BatchCost(fixed_s=fixed_s, each_s=each_s)


def _least_squares(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float] | None:
    """Solves the normal equations by elimination with pivots; None when they do not decide all unknowns."""
    size = len(rows[0])
    scales = [math.sqrt(sum(row[at] ** 2 for row in rows)) or 1.0 for at in range(size)]
    scaled = [[row[at] / scales[at] for at in range(size)] for row in rows]
    matrix = [
        [sum(row[i] * row[j] for row in scaled) for j in range(size)]
        + [sum(row[i] * value for row, value in zip(scaled, values, strict=True))]
        for i in range(size)
    ]
    for column in range(size):
        pivot = max(range(column, size), key=lambda at: abs(matrix[at][column]))
        if abs(matrix[pivot][column]) < _SINGULAR:
            return None
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        for other in range(size):
            if other != column:
                factor = matrix[other][column] / matrix[column][column]
                matrix[other] = [a - factor * b for a, b in zip(matrix[other], matrix[column], strict=True)]
    return [matrix[at][size] / matrix[at][at] / scales[at] for at in range(size)]
