"""Services with a known bottleneck, each of them diagnosed, and what its first advice gives beside what was predicted.

    python -m benchmarks.diagnose [--runs 3] [--cases "hot,serial"] [--duration 1] [--json FILE]

Of every run: was the floor right, was the stage? After the first: the change that was advised is made, and bad and
changed take turns under the same load. Takes a quarter of a minute a run and case, and as much again for a change.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
from pathlib import Path

import msgspec
import uvloop
from benchmarks.diagnose.cases import CASES, Case
from benchmarks.diagnose.running import CaseFailed, plan_of, running
from rich.console import Console
from rich.table import Table

from trilith.errors import TrilithError
from trilith.measure import BenchPlan, read_conditions, run_bench
from trilith.measure.diagnose import Change, Verdict, diagnose
from trilith.measure.diagnose.verified import gain_of

_ROUNDS = 3


class Outcome(msgspec.Struct, kw_only=True):
    """What became of one case."""

    case: str
    floor: str
    stage: str
    runs: int = 0
    right_floor: int = 0
    right_stage: int = 0
    said: list[str] = []
    predicted: float | None = None
    measured: float | None = None
    why_not: str = ""

    @property
    def off(self) -> float | None:
        """How far the prediction was from what was measured, as a share of that."""
        if self.predicted is None or self.measured is None:
            return None
        return abs(self.predicted - self.measured) / self.measured


def run_case(case: Case, runs: int, duration_s: float, noisiest: float) -> Outcome:
    """Diagnoses a case so many times, and tries its advice."""
    outcome = Outcome(case=case.name, floor=case.floor, stage=case.stage, said=[])
    change: Change | None = None
    for _ in range(runs):
        try:
            verdict = _diagnosed(case, duration_s, noisiest)
        except (CaseFailed, TrilithError) as error:
            outcome.said.append(f"failed: {str(error).splitlines()[0]}")
            outcome.runs += 1
            continue
        outcome.runs += 1
        outcome.right_floor += verdict.floor == case.floor
        outcome.right_stage += verdict.stage == case.stage
        outcome.said.append(verdict.stage or verdict.sentence[:60])
        if change is None and verdict.stage == case.stage and verdict.changes:
            change = verdict.changes[0]
    if case.helps and change is not None and change.gain is not None:
        outcome.predicted = change.gain.value
        try:
            outcome.measured = _tried(case, change, duration_s)
        except (CaseFailed, ValueError) as error:
            outcome.why_not = str(error).splitlines()[0]
    return outcome


def _diagnosed(case: Case, duration_s: float, noisiest: float) -> Verdict:
    with running(case) as (pid, port):
        plan = plan_of(case, port, "", pid, duration_s=duration_s)
        return diagnose(plan, largest=32, noisiest=noisiest).verdict


def _tried(case: Case, change: Change, duration_s: float) -> float:
    """The measured gain: bad and changed run side by side and get the load in turn."""
    value = next((str(each) for each in change.settings.values()), "") or "changed"
    with running(case) as (pid, port), running(case, value) as (changed_pid, changed_port):
        before = plan_of(case, port, "", pid, duration_s=duration_s)
        after = plan_of(case, changed_port, value, changed_pid, duration_s=duration_s)
        gains = [gain_of(change, _measured(before, change.load), _measured(after, change.load)) for _ in range(_ROUNDS)]
    return statistics.median(gains)


def _measured(plan: BenchPlan, load: int) -> tuple[float, float]:
    report = uvloop.run(run_bench(dataclasses.replace(plan, concurrency=(load,)), sample_timelines=False))
    [level] = report.levels
    return level.requests_per_s, level.latency.p50_s


def _table(outcomes: list[Outcome]) -> Table:
    table = Table("case", "floor", "stage", "right floor", "right stage", "predicted", "measured", "off", box=None)
    for each in outcomes:
        table.add_row(
            each.case,
            each.floor,
            each.stage,
            f"{each.right_floor}/{each.runs}",
            f"{each.right_stage}/{each.runs}",
            "-" if each.predicted is None else f"{each.predicted:.2f} x",
            each.why_not or ("-" if each.measured is None else f"{each.measured:.2f} x"),
            "-" if each.off is None else f"{each.off:.0%}",
        )
    return table


def main() -> int:
    """Runs the suite; 0 when each floor was right in nine runs of ten."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cases", default="", help="parts of names, separated by commas")
    parser.add_argument("--duration", type=float, default=1.0, help="seconds of each load")
    parser.add_argument("--max-noise", type=float, default=1.0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    wanted = [part.strip() for part in arguments.cases.split(",")]
    outcomes: list[Outcome] = []
    console = Console(highlight=False)
    for case in CASES:
        if any(part in case.name for part in wanted):
            sys.stderr.write(f"{case.name} ...\n")
            outcomes.append(run_case(case, arguments.runs, arguments.duration, arguments.max_noise))
            console.print(_table(outcomes[-1:]), f"   said: {', '.join(outcomes[-1].said)}")
    console.print(_table(outcomes))
    near = [each for each in outcomes if each.off is not None and each.off <= 0.2]
    stages = [each for each in outcomes if each.right_stage >= 0.9 * each.runs]
    console.print(f"{len(outcomes)} cases; right stage in {len(stages)}; gain within 20 % in {len(near)}")
    if arguments.json is not None:
        arguments.json.write_bytes(
            msgspec.json.format(msgspec.json.encode({"conditions": read_conditions(), "cases": outcomes}))
        )
    return 0 if all(each.right_floor >= 0.9 * each.runs for each in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
