"""A search as text: lines while it runs, the table of trade-offs, and the winner in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from rich.table import Table

from trilith.measure.tune.objective import Objective, Observation
from trilith.measure.tune.run import Step, TuneResult
from trilith.measure.tune.space import Configuration, Space, Value
from trilith.measure.tune.verdict import Row, Verdict

_MOST_ROWS: Final = 12
_DROPPED: Final = ("models.", "services.")


def step_line(step: Step, space: Space, objective: Objective, budget: float) -> str:
    """One measurement, done."""
    observation = step.observation or Observation()
    said = f"{step.number:>3}  {min(1.0, step.spent / budget):>4.0%}  {shown(space, step.proposal.configuration)}"
    if observation.failure:
        return f"{said}: {observation.failure}"
    best = objective.best(observation.levels)
    missed = "" if objective.meets(best) else ", misses a bound"
    return f"{said}: {best.throughput_per_s:,.4g}/s, p99 {best.p99_s * 1e3:,.3g} ms{missed} ({step.proposal.part})"


def shown(space: Space, configuration: Configuration) -> str:
    """A configuration in short: what differs from the start; `as it is` for the start itself."""
    pairs = zip(space.knobs, configuration, space.start, strict=True)
    said = [f"{short(knob.path)}={value_text(value)}" for knob, value, start in pairs if value != start]
    return " ".join(said) or "as it is"


def short(path: str) -> str:
    """A path without what every such path begins with."""
    first, _, more = path.partition(" + ")
    for dropped in _DROPPED:
        first = first.removeprefix(dropped)
    return first + (" +" if more else "")


def value_text(value: Value) -> str:
    """A value as YAML has it."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def trade_offs(verdict: Verdict, space: Space) -> Table:
    """The configurations that no other one beats in everything, with the start and the winner."""
    told = [row for row in verdict.rows if row.is_pareto or row.is_start or row.is_winner][:_MOST_ROWS]
    table = Table(title="Trade-offs", title_justify="left", box=None, pad_edge=False, header_style="")
    for name in ("", "per s", "in flight", "p50 ms", "p99 ms", "CPU ms", "failed", "times"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    table.add_column("settings", overflow="fold")
    for row in told:
        table.add_row(*_cells(row), shown(space, row.configuration))
    return table


def _cells(row: Row) -> Sequence[str]:
    figures = row.figures
    mark = "best" if row.is_winner else "now" if row.is_start else "" if row.meets else "misses"
    return (
        mark,
        f"{figures.throughput_per_s:,.4g}",
        str(figures.concurrency),
        f"{figures.p50_s * 1e3:,.3g}",
        f"{figures.p99_s * 1e3:,.3g}",
        "" if figures.cpu_s is None else f"{figures.cpu_s * 1e3:,.3g}",
        f"{figures.failed:.1%}" if figures.failed else "0",
        str(row.times),
    )


def explanation(result: TuneResult) -> list[str]:
    """The winner in sentences: what it brings, what that comes from, and what is not known."""
    verdict, tuner = result.verdict, result.tuner
    objective, space = tuner.objective, tuner.space
    lines = []
    if result.interrupted:
        lines.append(f"Stopped after {tuner.spent:g} of {tuner.budget:g} measurements; what follows is what is known.")
    if verdict.winner is None:
        lines.append("Nothing could be measured.")
    else:
        lines.append(_gain(verdict, objective))
        for effect in verdict.effects:
            change = f"{value_text(effect.before)} -> {value_text(effect.after)}"
            worth = f"{100 * (effect.ratio - 1):+.0f} %" if effect.matters else "next to nothing"
            lines.append(f"  {effect.path}: {change}: {worth}")
        unchanged = [
            short(knob.path)
            for knob, value, start in zip(space.knobs, verdict.winner, space.start, strict=True)
            if value == start
        ]
        if unchanged and verdict.effects:
            lines.append(f"  Best as they are: {', '.join(unchanged)}")
    lines += [f"  {note[0].upper()}{note[1:]}." for note in verdict.notes]
    lines += [f"  {shown(space, where)}: {why}" for why, where in verdict.failures]
    return lines


def _gain(verdict: Verdict, objective: Objective) -> str:
    figures = next(row.figures for row in verdict.rows if row.is_winner)
    said = f"{figures.throughput_per_s:,.4g} answers a second, p99 {figures.p99_s * 1e3:,.3g} ms"
    if not verdict.meets:
        return f"No configuration keeps the bounds ({objective}). The nearest: {said}."
    if len(verdict.rows) == 1:
        return f"Only one configuration could be measured: {said}."
    if verdict.ratio is None:
        return f"The best by what was measured while searching: {said}. How much that gains only the final tells."
    if verdict.winner is not None and not verdict.effects:
        return f"It is best as it is: {said}."
    what = "the throughput" if objective.kind == "throughput" else "the answers for a CPU second"
    sure = f"most likely {verdict.low:.2f} to {verdict.high:.2f}, by {verdict.rounds} rounds"
    now = next((row for row in verdict.rows if row.is_start), None)
    if now is not None and not now.meets:
        return f"The best: {said}: {verdict.ratio:.2f} x {what} of what there is now, which misses a bound."
    if verdict.rounds == 1:
        return (
            f"The best: {said}: {verdict.ratio:.2f} x {what} of what there is now, in the single round that the budget "
            "allows; how sure that is takes more (--budget)."
        )
    doubt = (
        ""
        if verdict.low > 1.0
        else "; that may be no gain at all: measure longer (--duration) or more often (--budget)"
    )
    return f"The best: {said}: {verdict.ratio:.2f} x {what} of what there is now ({sure}{doubt})."


def as_values(result: TuneResult) -> dict[str, Any]:
    """All of it as plain values, for JSON."""
    verdict, tuner = result.verdict, result.tuner
    space = tuner.space
    return {
        "objective": str(tuner.objective),
        "interrupted": result.interrupted,
        "measurements": sum(len(each.observations) for each in tuner.evidence.values()),
        "budget": tuner.budget,
        "spent": tuner.spent,
        "configurations": space.size,
        "winner": None if verdict.winner is None else space.settings(verdict.winner),
        "meets": verdict.meets,
        "ratio": verdict.ratio,
        "rounds": verdict.rounds,
        "interval": [verdict.low, verdict.high if math.isfinite(verdict.high) else None],
        "effects": [
            {"path": each.path, "before": each.before, "after": each.after, "ratio": each.ratio}
            for each in verdict.effects
        ],
        "rows": [
            {
                "settings": space.settings(row.configuration),
                "throughput_per_s": row.figures.throughput_per_s,
                "concurrency": row.figures.concurrency,
                "p50_s": row.figures.p50_s,
                "p99_s": row.figures.p99_s,
                "cpu_s": row.figures.cpu_s,
                "failed": row.figures.failed,
                "meets": row.meets,
                "pareto": row.is_pareto,
                "start": row.is_start,
                "winner": row.is_winner,
                "times": row.times,
            }
            for row in verdict.rows
        ],
        "failures": [{"settings": space.settings(where), "why": why} for why, where in verdict.failures],
        "notes": list(verdict.notes),
    }
