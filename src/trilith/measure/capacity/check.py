"""A plan beside what the running service did under its rate. Pure.

Rule 1: the running service has fewer replicas than the plan, mostly; it gets the share of the load that so many would.
Rule 2: a generator that was late, or the limit itself, proves nothing and says so; and so do few answers: of ten, none
        is as slow as one of a hundred.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trilith.measure.capacity.sizing import CapacityPlan, Demand
from trilith.measure.results import LevelResult
from trilith.measure.units import duration

_FAILED_SHARE = 0.001
_BY_CHANCE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """What the replay gave.

    Attributes:
        rate_per_s: requests sent a second.
        predicted_s: the latency that the model gives for it.
        measured_s: the latency that was measured; infinite when nothing was answered.
        holds: whether it is within the bound, of enough answers, and no more than one of a thousand requests failed.
        proves: whether the generator kept up, and there were enough answers.
        sentence: all that in words.
    """

    rate_per_s: float
    predicted_s: float
    measured_s: float
    holds: bool
    proves: bool
    sentence: str


def share_of_running(plan: CapacityPlan, replicas: int) -> float:
    """Requests a second that the running service would get, as `replicas` of the planned ones, without spare ones."""
    needed = plan.chosen.replicas - plan.demand.spare
    return plan.demand.rate_per_s * min(1.0, replicas / needed)


def check_of(plan: CapacityPlan, replicas: int, level: LevelResult) -> CheckResult:
    """Judges a replay at `share_of_running`."""
    demand = plan.demand
    rate_per_s = share_of_running(plan, replicas)
    predicted_s = plan.model.quantile_s(rate_per_s, demand.fraction, replicas)
    quantiles = {
        0.5: level.latency.p50_s,
        0.9: level.latency.p90_s,
        0.99: level.latency.p99_s,
        **dict(level.percentiles),
    }
    measured_s = quantiles.get(demand.fraction, level.latency.max_s) if level.latency.count else math.inf
    failed_share = level.failed / max(1, level.failed + level.latency.count)
    within = measured_s <= demand.limit_s and failed_share <= _FAILED_SHARE
    fewest = fewest_answers(demand.fraction)
    few = within and level.latency.count < fewest
    proves = not level.spoiled and not few
    whose = "the whole rate" if rate_per_s >= demand.rate_per_s else f"the share of {replicas} of the replicas"
    measured = "nothing was answered" if math.isinf(measured_s) else f"{percentile(demand)} was {duration(measured_s)}"
    verdict = "It holds." if within else "IT DOES NOT HOLD."
    if few:
        verdict = (
            f"That proves nothing: {level.latency.count} answers say nothing about {percentile(demand)}, which takes"
            f" {fewest}; check for {duration(math.ceil(1.1 * fewest / rate_per_s))} or longer."
        )
    if level.spoiled:
        verdict = "That proves nothing: the generator itself was late."
    failed = f", {failed_share:.1%} failed" if level.failed else ""
    return CheckResult(
        rate_per_s=rate_per_s,
        predicted_s=predicted_s,
        measured_s=measured_s,
        holds=within and not few,
        proves=proves,
        sentence=(
            f"Checked at {rate(rate_per_s)}, {whose}: {measured}{failed}; planned were"
            f" {'more than can be answered' if math.isinf(predicted_s) else duration(predicted_s)}, allowed are"
            f" {duration(demand.limit_s)}. {verdict}"
        ),
    )


def fewest_answers(fraction: float) -> int:
    """So many answers that one slower than the true percentile is among them in 95 of 100 cases: 299 for 0.99."""
    return math.ceil(math.log(_BY_CHANCE) / math.log(fraction))


def percentile(demand: Demand) -> str:
    """`p99`."""
    return f"p{demand.fraction * 100:g}"


def rate(per_s: float) -> str:
    """`2,000/s`."""
    return f"{per_s:,.0f}/s" if per_s >= 100 else f"{per_s:.3g}/s"
