"""What a service can do, from what was measured of it. Pure.

Rule 1: the utilisation law: how busy a service is, is its rate as a share of the highest rate that it ever answered.
Rule 2: service times are the latencies of one request at a time; how many are served at once is capacity times their
        mean. A service that batches looks like one with many servers, which is how it behaves.
Rule 3: where the service was also measured under requests that come at random (an open loop), the model's waits are
        scaled until they are the measured ones. Without that they are a textbook's. A wait that the noise of the two
        p99s explains is none that was measured, and a scale at the end of its range is none that was found.
Rule 4: what the measurement cannot carry is said, not guessed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from trilith.errors import InvalidConfig
from trilith.measure.capacity.queueing import Atom, Waiting, late_share, response_quantile_s, waiting

_TAIL: Final = 0.99
_FULL_GAIN: Final = 1.1
_LOADS_FOR_SCALE: Final = (0.3, 0.95)
_SCALES: Final = (0.05, 20.0)
_HALVINGS: Final = 20
_STEPS: Final = ((0.0, 0.9, 18), (0.9, 0.99, 9), (0.99, 1.0, 10))
_FAILED: Final = 0.01
_LEAST_ANSWERS: Final = 1000
_ENOUGH_FOR_MEDIAN: Final = 3
_SURE_Z: Final = 1.96
_SCALES_DIFFER: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPoint:
    """The service under one load.

    Attributes:
        concurrency: requests in flight, of a closed loop.
        rate_per_s: requests sent a second, of an open loop; None for a closed one.
        answered_per_s: good answers a second.
        latency: seconds by fraction: 0.0 is the shortest, 1.0 the longest; at least 0.5 and 0.99.
        mean_s: mean latency.
        answers: number of good ones.
        failed_share: of all requests, 0 to 1.
        cpu_per_request_s: CPU seconds of the server, or None.
        spoiled: whether the generator was the limit.
    """

    concurrency: int
    rate_per_s: float | None
    answered_per_s: float
    latency: dict[float, float]
    mean_s: float
    answers: int
    failed_share: float = 0.0
    cpu_per_request_s: float | None = None
    spoiled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceModel:
    """One replica, as far as capacity goes.

    Attributes:
        capacity_per_s: the highest rate that one replica answers.
        servers: how many requests one replica serves at once.
        service: service times.
        mean_s: their mean.
        variation: their squared coefficient of variation.
        wait_scale: measured waits as a multiple of the model's; 1.0 where none were measured.
        measured_waits: whether they were.
        cpu_per_request_s: CPU seconds a request, or None.
        doubts: what a reader must know before believing it.
    """

    capacity_per_s: float
    servers: int
    service: tuple[Atom, ...]
    mean_s: float
    variation: float
    wait_scale: float = 1.0
    measured_waits: bool = False
    cpu_per_request_s: float | None = None
    doubts: tuple[str, ...] = ()

    def quantile_s(self, rate_per_s: float, fraction: float, replicas: int = 1) -> float:
        """The latency in seconds that `fraction` of the requests do not exceed, with one queue before all replicas.

        Args:
            rate_per_s: of all replicas together.
            fraction: 0 to 1.
            replicas: how many share the queue.
        """
        return response_quantile_s(self.service, self._waiting(rate_per_s, replicas), fraction)

    def late_share(self, rate_per_s: float, seconds: float, replicas: int = 1) -> float:
        """The share of the requests, 0 to 1, that take longer than that."""
        return late_share(self.service, self._waiting(rate_per_s, replicas), seconds)

    def _waiting(self, rate_per_s: float, replicas: int) -> Waiting:
        return waiting(
            rate_per_s, replicas * self.capacity_per_s, replicas * self.servers, self.variation, self.wait_scale
        )


def fit_service(points: Sequence[MeasuredPoint], replicas: int = 1) -> ServiceModel:
    """The model of one replica.

    Args:
        points: closed and open loops, in any order; one of them with one request in flight.
        replicas: how many the measured service had.

    Raises:
        InvalidConfig: there is no good answer, or no measurement of a request that has the service for itself.
    """
    good = [point for point in points if point.answers and point.answered_per_s > 0]
    if not good:
        raise InvalidConfig("there is nothing to plan by: no level of the measurement has a good answer")
    alone = _alone(good)
    service = _atoms(alone.latency)
    mean_s = sum(atom.seconds * atom.share for atom in service)
    variance = sum(atom.share * (atom.seconds - mean_s) ** 2 for atom in service)
    capacity_per_s = max(point.answered_per_s for point in good) / replicas
    model = ServiceModel(
        capacity_per_s=capacity_per_s,
        servers=max(1, round(capacity_per_s * mean_s)),
        service=service,
        mean_s=mean_s,
        variation=variance / mean_s**2 if mean_s > 0 else 0.0,
        cpu_per_request_s=_cpu(good),
    )
    waits = [(point.rate_per_s, _scale(model, point, replicas, alone)) for point in good]
    scales = [scale for _, scale in waits if isinstance(scale, float)]
    unfit = [f"{rate_per_s:,.0f} a second {why}" for rate_per_s, why in waits if isinstance(why, str)]
    # Two have no median: the longer wait counts.
    scale = statistics.median(scales) if len(scales) >= _ENOUGH_FOR_MEDIAN else max(scales, default=1.0)
    return ServiceModel(
        capacity_per_s=model.capacity_per_s,
        servers=model.servers,
        service=service,
        mean_s=mean_s,
        variation=model.variation,
        wait_scale=scale,
        measured_waits=bool(scales),
        cpu_per_request_s=model.cpu_per_request_s,
        doubts=(*_doubts(good, alone), *_doubts_of_waits(scales, unfit)),
    )


def _alone(points: Sequence[MeasuredPoint]) -> MeasuredPoint:
    """The load under which requests wait least for each other."""
    closed = [point for point in points if point.rate_per_s is None]
    single = [point for point in closed if point.concurrency == 1]
    if single:
        return max(single, key=lambda point: point.answers)
    most = max(point.answered_per_s for point in points)
    idle = [point for point in points if point.rate_per_s is not None and point.rate_per_s < 0.2 * most]
    if not idle:
        raise InvalidConfig(
            "there is no measurement of one request at a time, which says what a request takes when it waits for no"
            " other; measure with --concurrency 1 too, as `trilith bench --concurrency 1,8,32` does"
        )
    return min(idle, key=lambda point: point.rate_per_s or 0.0)


def _atoms(latency: dict[float, float]) -> tuple[Atom, ...]:
    """The distribution between the known quantiles, as steps; finer in the tail."""
    known = sorted(latency.items())
    found = []
    for low, high, count in _STEPS:
        share = (high - low) / count
        found += [Atom(_quantile(known, low + (step + 0.5) * share), share) for step in range(count)]
    return tuple(found)


def _quantile(known: Sequence[tuple[float, float]], fraction: float) -> float:
    before = known[0]
    for after in known:
        if after[0] >= fraction:
            width = after[0] - before[0]
            part = (fraction - before[0]) / width if width > 0 else 0.0
            return before[1] + part * (after[1] - before[1])
        before = after
    return before[1]


def _cpu(points: Iterable[MeasuredPoint]) -> float | None:
    """Of the fullest level that has it: idle servers use CPU time for nothing."""
    measured = [point for point in points if point.cpu_per_request_s]
    return max(measured, key=lambda point: point.answered_per_s).cpu_per_request_s if measured else None


def _scale(model: ServiceModel, point: MeasuredPoint, replicas: int, alone: MeasuredPoint) -> float | str | None:
    """By what the model's waits must be multiplied to give this open loop's p99, or why that cannot be told.

    None of what is no open loop, or of another load.
    """
    if point.rate_per_s is None:
        return None
    if unfit := _unfit(point):
        return unfit
    rate_per_s, measured_s = point.rate_per_s, point.latency[_TAIL]
    if not _LOADS_FOR_SCALE[0] <= rate_per_s / (replicas * model.capacity_per_s) <= _LOADS_FOR_SCALE[1]:
        return None
    if _around_tail(point)[0] <= _around_tail(alone)[1]:
        return "had a p99 within the noise of that of a request that has the service for itself"

    def p99_s(scale: float) -> float:
        wait = waiting(rate_per_s, replicas * model.capacity_per_s, replicas * model.servers, model.variation, scale)
        return response_quantile_s(model.service, wait, _TAIL)

    low, high = _SCALES
    if not p99_s(low) < measured_s < p99_s(high):
        return f"had waits less than {low:g} or more than {high:g} times those"
    for _ in range(_HALVINGS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if p99_s(middle) < measured_s else (low, middle)
    return high


def _around_tail(point: MeasuredPoint) -> tuple[float, float]:
    """Between which latencies the true p99 most likely is: of the ranks that so many answers leave open."""
    reach = _SURE_Z * math.sqrt(_TAIL * (1 - _TAIL) / point.answers)
    known = sorted(point.latency.items())
    return _quantile(known, _TAIL - reach), _quantile(known, min(1.0, _TAIL + reach))


def _doubts(points: Sequence[MeasuredPoint], alone: MeasuredPoint) -> Iterator[str]:
    closed = sorted((point for point in points if point.rate_per_s is None), key=lambda point: point.concurrency)
    if len(closed) >= 2 and closed[-1].answered_per_s > _FULL_GAIN * max(point.answered_per_s for point in closed[:-1]):
        yield (
            f"At {closed[-1].concurrency} requests in flight it was not yet full, so it can do more than"
            f" {closed[-1].answered_per_s:,.0f}/s: measure with more, and fewer replicas will do."
        )
    if len(closed) == 1:
        yield "It was measured at one level only, which need not be its limit: measure with more in flight too."
    fullest = max(points, key=lambda point: point.answered_per_s)
    if fullest.spoiled:
        yield "The generator was the limit of the highest rate, not the service: it can do more."
    if fullest.failed_share > 0.01:
        yield f"At the highest rate {fullest.failed_share:.1%} of the requests failed; only good answers were counted."
    if alone.answers < 100:
        yield f"One request at a time was measured {alone.answers} times only: its p99 is a guess."


def _doubts_of_waits(scales: Sequence[float], unfit: Sequence[str]) -> Iterator[str]:
    if scales and max(scales) > _SCALES_DIFFER * min(scales):
        which = "their median" if len(scales) >= _ENOUGH_FOR_MEDIAN else "the longer one"
        yield (
            f"Waits were {min(scales):.2g} to {max(scales):.2g} times a textbook's, by the load that was measured:"
            f" {which} is used, and another load may wait otherwise."
        )
    if scales:
        return
    why = "no level was an open loop between 30 % and 95 % of the capacity."
    if unfit:
        why = "of the open loops " + ", ".join(unfit) + "; measure longer, or on a quieter machine."
    yield "Waits are a textbook's (Erlang C, Allen and Cunneen), not measured: " + why


def _unfit(point: MeasuredPoint) -> str:
    """Why waits of an open loop are not those of the service, or ""."""
    if point.failed_share > _FAILED:
        return f"had {point.failed_share:.1%} failures"
    if point.answers < _LEAST_ANSWERS:
        return f"had {point.answers} answers (a p99 needs {_LEAST_ANSWERS:,})"
    return "was spoiled by the generator, which sent late or had no core" if point.spoiled else ""
