"""How many replicas and machines a rate takes. Pure.

Rule 1: the smallest number at which utilisation and the predicted latency are within their bounds; each one of the next
        smaller number is shown with what it misses. More replicas may be slower: four on a machine share one queue, and
        five on two are queues of two and three.
Rule 2: replicas of one machine share a queue, as those of one Trilith server do; machines share the load by chance.
Rule 3: a replica on another machine answers as much as the measured one did. Where CPU time was measured, a machine
        holds as many replicas as it has cores for when they are full.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from trilith.errors import InvalidConfig
from trilith.measure.capacity.service_model import ServiceModel
from trilith.measure.units import duration

MOST_REPLICAS: Final = 100_000
_HALVINGS: Final = 20
_LESS_CAPACITY: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What is asked for.

    Attributes:
        rate_per_s: requests a second.
        limit_s: the latency that `fraction` of the requests must not exceed.
        fraction: 0.99 for p99.
        most_busy: the highest utilisation that is allowed, 0 to 1.
        cores_per_machine: how many a machine has, or None for machines like the measured one.
        price_per_hour: of one machine, in any currency, or None.
        spare: replicas more than the load needs, so that one may fail; more of them where just so many would be slower.
        replicas_per_machine: given, instead of found by CPU time; None to find it.

    Raises:
        InvalidConfig: a value is out of range.
    """

    rate_per_s: float
    limit_s: float
    fraction: float = 0.99
    most_busy: float = 0.8
    cores_per_machine: float | None = None
    price_per_hour: float | None = None
    spare: int = 0
    replicas_per_machine: int | None = None

    def __post_init__(self) -> None:
        if not self.rate_per_s > 0 or not self.limit_s > 0:
            raise InvalidConfig(
                f"expected a rate and a latency above 0, got {self.rate_per_s:g}/s and {self.limit_s:g} s"
            )
        if not 0 < self.fraction < 1 or not 0 < self.most_busy < 1:
            raise InvalidConfig("expected a percentile and a highest utilisation between 0 and 100 %")
        if self.spare < 0 or (self.replicas_per_machine is not None and self.replicas_per_machine < 1):
            raise InvalidConfig("expected no negative number of spare replicas, and one replica or more a machine")
        if self.cores_per_machine is not None and not self.cores_per_machine > 0:
            raise InvalidConfig(f"a machine has more than 0 cores, got {self.cores_per_machine:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """So many replicas under the load.

    Attributes:
        replicas: how many.
        machines: how many they need.
        busy: their utilisation, 0 to 1 and above where they cannot keep up.
        median_s: predicted p50.
        tail_s: predicted latency of the fraction that was asked for; infinite where they cannot keep up.
        fits: whether utilisation and latency are within their bounds.
        cores_in_use: CPU seconds a second, or None when not measured.
        per_million: what a million requests cost, or None without a price.
    """

    replicas: int
    machines: int
    busy: float
    median_s: float
    tail_s: float
    fits: bool
    cores_in_use: float | None
    per_million: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPlan:
    """The answer.

    Attributes:
        demand: what was asked for.
        model: of one replica.
        replicas_per_machine: how many a machine holds.
        chosen: the smallest size that fits, spare replicas included.
        beside: the sizes next to it.
        highest_rate_per_s: what the chosen size can take without its spare replicas.
        replicas_at_less: how many it would take if a replica answered 10 % less than measured.
        notes: what a reader must know before believing it.
    """

    demand: Demand
    model: ServiceModel
    replicas_per_machine: int
    chosen: Size
    beside: tuple[Size, ...]
    highest_rate_per_s: float
    replicas_at_less: int
    notes: tuple[str, ...]


def plan_capacity(model: ServiceModel, demand: Demand, measured_replicas: int = 1) -> CapacityPlan:
    """The smallest number of replicas that meets the demand.

    Raises:
        InvalidConfig: no number of them does; the message says why.
    """
    alone_s = model.quantile_s(0.0, demand.fraction)
    if alone_s > demand.limit_s:
        raise InvalidConfig(
            f"no number of replicas gives p{demand.fraction * 100:g} {duration(demand.limit_s)}: of requests that have"
            f" one for themselves it is {duration(alone_s)} already ({duration(model.mean_s)} in the mean). Make"
            " the request quicker, or allow more time"
        )
    per_machine = _per_machine(model, demand, measured_replicas)
    needed = _needed(model, demand, per_machine)
    chosen = _size(model, demand, per_machine, _needed(model, demand, per_machine, needed + demand.spare))
    slower = replace(model, capacity_per_s=_LESS_CAPACITY * model.capacity_per_s)
    less = _needed(slower, demand, per_machine)
    numbers = sorted(
        {needed - 1, needed, needed + 1, chosen.replicas + 1, math.ceil(1.5 * needed)} - {0, chosen.replicas}
    )
    return CapacityPlan(
        demand=demand,
        model=model,
        replicas_per_machine=per_machine,
        chosen=chosen,
        beside=tuple(_size(model, demand, per_machine, number) for number in numbers),
        highest_rate_per_s=_highest_rate(model, demand, per_machine, needed),
        replicas_at_less=_needed(slower, demand, per_machine, less + demand.spare),
        notes=(*model.doubts, *_notes(model, demand, chosen)),
    )


def _per_machine(model: ServiceModel, demand: Demand, measured_replicas: int) -> int:
    if demand.replicas_per_machine is not None:
        return demand.replicas_per_machine
    if demand.cores_per_machine is None or model.cpu_per_request_s is None:
        return measured_replicas
    cores_of_one = model.cpu_per_request_s * model.capacity_per_s
    return max(1, int(demand.cores_per_machine / cores_of_one + 1e-9))


def _needed(model: ServiceModel, demand: Demand, per_machine: int, at_least: int = 1) -> int:
    """The smallest number that fits.

    Of so many machines, full ones are the quickest, so their number is found first. Then it is that of the replicas
    on the machine with the fewest, and last how many machines have one more: within each of these, more is quicker.
    """
    lowest = max(at_least, math.ceil(demand.rate_per_s / (model.capacity_per_s * demand.most_busy) - 1e-9))
    if lowest > MOST_REPLICAS:
        raise InvalidConfig(f"{demand.rate_per_s:,.0f}/s would take more than {MOST_REPLICAS:,} replicas")

    def fits(replicas: int) -> bool:
        return _fits(model, demand, per_machine, replicas)

    most = math.ceil(MOST_REPLICAS / per_machine)
    machines = _first(math.ceil(lowest / per_machine), most, lambda count: fits(count * per_machine))
    if machines is None:
        raise InvalidConfig(f"not even {MOST_REPLICAS:,} replicas give {duration(demand.limit_s)} by this model")
    lowest, highest = max(lowest, (machines - 1) * per_machine + 1), machines * per_machine
    fewest = _first(lowest // machines, per_machine, lambda each: fits(min(highest, (each + 1) * machines - 1)))
    fewest = per_machine if fewest is None else fewest
    found = _first(max(lowest, fewest * machines), min(highest, (fewest + 1) * machines - 1), fits)
    return highest if found is None else found


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int | None:
    """The smallest number of which something holds that holds of all larger ones too; None when it does of none."""
    if low > high or not holds(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high


def _spread(replicas: int, per_machine: int) -> tuple[int, int]:
    """Machines, and replicas on the one with the fewest: waits are longest there."""
    machines = math.ceil(replicas / per_machine)
    return machines, replicas // machines


def _busy(model: ServiceModel, demand: Demand, replicas: int) -> float:
    return demand.rate_per_s / (replicas * model.capacity_per_s)


def _fits(model: ServiceModel, demand: Demand, per_machine: int, replicas: int) -> bool:
    if _busy(model, demand, replicas) > demand.most_busy + 1e-9:
        return False
    _, together = _spread(replicas, per_machine)
    late = model.late_share(demand.rate_per_s * together / replicas, demand.limit_s, together)
    return late <= 1.0 - demand.fraction


def _size(model: ServiceModel, demand: Demand, per_machine: int, replicas: int) -> Size:
    machines, together = _spread(replicas, per_machine)
    rate_per_s = demand.rate_per_s * together / replicas
    price = demand.price_per_hour
    return Size(
        replicas=replicas,
        machines=machines,
        busy=_busy(model, demand, replicas),
        median_s=model.quantile_s(rate_per_s, 0.5, together),
        tail_s=model.quantile_s(rate_per_s, demand.fraction, together),
        fits=_fits(model, demand, per_machine, replicas),
        cores_in_use=None if model.cpu_per_request_s is None else model.cpu_per_request_s * demand.rate_per_s,
        per_million=None if price is None else machines * price / (demand.rate_per_s * 3600) * 1e6,
    )


def _highest_rate(model: ServiceModel, demand: Demand, per_machine: int, replicas: int) -> float:
    low, high = demand.rate_per_s, replicas * model.capacity_per_s * demand.most_busy
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        fits = _fits(model, replace(demand, rate_per_s=middle), per_machine, replicas)
        low, high = (middle, high) if fits else (low, middle)
    return low


def _notes(model: ServiceModel, demand: Demand, chosen: Size) -> Iterator[str]:
    if demand.cores_per_machine is not None and model.cpu_per_request_s is None:
        yield (
            "Without the CPU time of a request, cores say nothing: a machine is taken to hold as many replicas as the"
            " measured one. Measure with --pid, or give --replicas-per-machine."
        )
    if demand.cores_per_machine is not None and model.cpu_per_request_s is not None:
        of_one = model.cpu_per_request_s * model.capacity_per_s
        if of_one > demand.cores_per_machine:
            yield (
                f"A full replica uses {of_one:.1f} cores, more than the {demand.cores_per_machine:g} of a machine: one"
                " there answers less than was measured."
            )
    if chosen.replicas > 1:
        yield "More replicas are taken to give as much more: what they share (a disk, memory) is not in the model."
