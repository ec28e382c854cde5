"""Does `trilith compare` find no difference where there is none? Two copies of one service, compared again and again.

    python benchmarks/compare_identical.py [--tries 20] [--rounds 20] [--round-duration 0.5] [--json FILE]

Prints the interval of each try. The goal: it holds 1 in at least 17 of 20 tries. Exit status 1 when it is missed.
`--settle` compares until the interval is that wide, as `trilith compare --until` does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from pathlib import Path

from trilith.measure import SubjectSpec
from trilith.measure.compare import ComparePlan, CompareReport, Comparing, Contestant
from trilith.measure.copies import CopyPlan, RunningCopy, running_copy

APP = Path(__file__).parent / "apps" / "echo.py"
BODY = '{"x": [1.0, 2.0, 3.0]}'
GOAL = 17 / 20


def plan_of(copies: list[RunningCopy], options: argparse.Namespace) -> ComparePlan:
    """The comparison of two copies of the echo service."""
    return ComparePlan(
        contestants=tuple(
            Contestant(name=name, url=copy.url("/echo"), server_pid=copy.pid)
            for name, copy in zip("AB", copies, strict=True)
        ),
        concurrency=options.concurrency,
        rounds=options.rounds,
        round_s=options.round_duration,
        until_width=options.settle,
        warmup_s=0.1,
    )


def compared(plan: ComparePlan) -> CompareReport:
    comparing = Comparing(plan, [SubjectSpec(url=each.url, data=(BODY,)) for each in plan.contestants])
    comparing.look()
    asyncio.run(comparing.run())
    return comparing.report()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tries", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=20, help="of each try")
    parser.add_argument("--round-duration", type=float, default=0.5, help="seconds of each copy in each round")
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--settle", type=float, help="end a try when its interval is that wide: 0.15")
    parser.add_argument("--json", type=Path, help="write the tries to this file")
    options = parser.parse_args()
    tries = []
    with running_copy(CopyPlan(target=f"{APP}:echo")) as first, running_copy(CopyPlan(target=f"{APP}:echo")) as second:
        for number in range(options.tries):
            # Who is the baseline changes too: a true difference between two processes then shows on either side.
            copies = [first, second] if number % 2 == 0 else [second, first]
            report = compared(plan_of(copies, options))
            ratios = report.comparisons[0].ratios
            tries.append({key: [ratio.low, ratio.ratio, ratio.high] for key, ratio in ratios.items()})
            found = ratios["throughput"]
            held = "holds 1" if found.contains(1.0) else "MISSES 1"
            print(f"{number + 1:3}: {found.low:.3f} to {found.high:.3f}  {held}", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(tries, indent=1))
    return summary(tries)


def summary(tries: list[dict[str, list[float]]]) -> int:
    """Prints how often each figure's interval held 1, and how wide it was."""
    for key in tries[0]:
        intervals = [each[key] for each in tries if key in each]
        held = sum(1 for low, _, high in intervals if low <= 1.0 <= high)
        width = statistics.median(high / low - 1 for low, _, high in intervals)
        print(f"{key:10}: holds 1 in {held} of {len(intervals)} tries; median width {width:.1%}")
    held = sum(1 for each in tries if each["throughput"][0] <= 1.0 <= each["throughput"][2])
    return 0 if held >= GOAL * len(tries) else 1


if __name__ == "__main__":
    sys.exit(main())
