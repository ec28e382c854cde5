"""A capacity plan as a table and sentences for a person, and as JSON. Builds text; it prints nothing itself. Pure."""

from __future__ import annotations

import math
from typing import Any

import msgspec
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trilith.measure.capacity.check import CheckResult, percentile, rate
from trilith.measure.capacity.sizing import CapacityPlan, Size
from trilith.measure.units import duration


def render_capacity(plan: CapacityPlan, checked: CheckResult | None = None) -> RenderableType:
    """The sizes around the answer, what to doubt, the answer in words, and what a check of it gave."""
    parts: list[RenderableType] = [Text(model_sentence(plan)), "", size_table(plan)]
    parts.extend(Text(note, style="yellow") for note in plan.notes)
    parts.append(Text(capacity_sentence(plan), style="bold"))
    if checked is not None:
        parts.append(Text(checked.sentence, style="bold" if checked.holds else "bold red"))
    return Group(*parts)


def model_sentence(plan: CapacityPlan) -> str:
    """What one replica can do."""
    model = plan.model
    cpu = "" if model.cpu_per_request_s is None else f", {duration(model.cpu_per_request_s)} of CPU each"
    return (
        f"One replica answers up to {rate(model.capacity_per_s)}, {model.servers} at a time; a request that waits for"
        f" no other takes {duration(model.mean_s)} in the mean{cpu}."
    )


def capacity_sentence(plan: CapacityPlan) -> str:
    """The answer: replicas, machines, how busy they are, what it costs, and how much is left."""
    demand, chosen = plan.demand, plan.chosen
    spare = f", {demand.spare} of them spare" if demand.spare else ""
    machines = _count(chosen.machines, "machine")
    of_cores = "" if demand.cores_per_machine is None else f" of {demand.cores_per_machine:g} cores"
    cost = "" if chosen.per_million is None else f"; a million requests cost {chosen.per_million:.3g}"
    less = (
        ""
        if plan.replicas_at_less == chosen.replicas
        else f" If a replica answers 10 % less than was measured, it takes {plan.replicas_at_less}."
    )
    return (
        f"{rate(demand.rate_per_s)} at {percentile(demand)} within {duration(demand.limit_s)} take"
        f" {_count(chosen.replicas, 'replica')}{spare} on {machines}{of_cores}, {chosen.busy:.0%} busy, with a"
        f" {percentile(demand)} of about {duration(chosen.tail_s)}{cost}. That is good for up to"
        f" {rate(plan.highest_rate_per_s)}.{less}"
    )


def size_table(plan: CapacityPlan) -> Table:
    """One line a number of replicas."""
    demand = plan.demand
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    with_cores, with_price = plan.chosen.cores_in_use is not None, plan.chosen.per_million is not None
    names = ["replicas", "machines", "busy", "p50", percentile(demand), *(["cores in use"] if with_cores else [])]
    for name in [*names, *(["per million"] if with_price else [])]:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for size in sorted([plan.chosen, *plan.beside], key=lambda each: each.replicas):
        cells = [
            f"{size.replicas:,}",
            f"{size.machines:,}",
            f"{size.busy:.0%}",
            _time(size.median_s),
            _time(size.tail_s),
        ]
        cells += [f"{size.cores_in_use:.1f}"] if size.cores_in_use is not None else []
        cells += [f"{size.per_million:.3g}"] if size.per_million is not None else []
        table.add_row(*cells, _said(size, plan), style="bold" if size is plan.chosen else "")
    return table


def capacity_to_json(plan: CapacityPlan, checked: CheckResult | None = None) -> bytes:
    """The whole plan, indented. Durations are in seconds; what is infinite is null."""
    raw: dict[str, Any] = _finite(msgspec.to_builtins(plan))
    raw["schema"] = "trilith-plan/1"
    raw["sentence"] = capacity_sentence(plan)
    raw["check"] = None if checked is None else _finite(msgspec.to_builtins(checked))
    return msgspec.json.format(msgspec.json.encode(raw), indent=2) + b"\n"


def _said(size: Size, plan: CapacityPlan) -> str:
    if size is plan.chosen:
        return "this one"
    if size.fits:
        return ""
    if size.busy >= 1:
        return "cannot keep up"
    return "too busy" if size.tail_s <= plan.demand.limit_s else "too slow"


def _time(seconds: float) -> str:
    return "-" if math.isinf(seconds) else duration(seconds)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _finite(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: _finite(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_finite(inner) for inner in value]
    return value
