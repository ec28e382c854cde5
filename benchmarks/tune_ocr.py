"""`trilith tune` against an exhaustive sweep, on the OCR example: is its winner as good, and how soon is it there?

    python benchmarks/tune_ocr.py [--seconds 6] [--callers 2] [--short] [--json FILE]

Both search the same space with the same page. The sweep measures every configuration once for `--seconds`; then the two
winners are measured in turn, so that a machine whose speed drifts slows both. The goal: a winner within 10 % of the
sweep's, in a fifth of its time. The whole takes an hour and a half; `--short`, of two settings, some minutes.

With OpenVINO installed the backend is searched too, guarded by the character error rate of the page.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

# The example is a folder of modules, not a package.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples" / "ocr"))

from accuracy import character_error_rate
from lines import Line, row_texts
from pages import STYLES, Page, invoice
from served import ServerFailed, post

from trilith.config import Settings
from trilith.errors import TrilithError
from trilith.measure import Body, read_conditions
from trilith.measure.tune import (
    Bench,
    Configuration,
    CopyPlan,
    Load,
    Objective,
    RunningCopy,
    Space,
    Step,
    TunePlan,
    current_value,
    explanation,
    knob,
    read_declared,
    running_copy,
    shown,
    step_line,
    tune,
)

ROOT = Path(__file__).resolve().parent.parent
APP = f"{ROOT}/examples/ocr/app.py:Ocr"
_ROUNDS = 3
_ERROR_MARGIN = 0.002

FULL = {
    "Recognizer.replicas": [1, 2],
    "Recognizer.read.max_batch + models.ocr-rec.max_batch_size": [1, 2, 4, 8],
    "models.ocr-rec.instances": [1, 2],
    "models.ocr-rec.session.intra_op_threads": [1, 2],
}
SHORT = {"Recognizer.read.max_batch + models.ocr-rec.max_batch_size": [1, 4], "models.ocr-rec.instances": [1, 2]}
BACKEND = {"models.ocr-rec.backend + models.ocr-det.backend": ["onnxruntime", "openvino"]}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of both."""

    ratio: float
    time_share: float
    tuned: str
    swept: str


def main() -> int:
    options = _options()
    try:
        outcome = _run(options)
    except (TrilithError, ServerFailed) as error:
        print(f"it could not be measured: {error}", file=sys.stderr)
        return 1
    print(f"tuned: {outcome.tuned}\nswept: {outcome.swept}")
    print(f"the tuned one does {outcome.ratio:.3f} x the pages of the other, in {outcome.time_share:.0%} of the time")
    if options.json is not None:
        report = {**asdict(outcome), "conditions": read_conditions()}
        options.json.write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    return 0 if outcome.ratio >= 0.9 and (options.short or outcome.time_share <= 0.2) else 1


def _run(options: argparse.Namespace) -> Outcome:
    page = invoice(STYLES["clean"])
    declared = read_declared(APP, folder=ROOT, settings=Settings())
    wanted = SHORT if options.short else FULL
    if not options.short and importlib.util.find_spec("openvino") is not None:
        wanted = wanted | BACKEND
    space = Space(
        [
            knob(path, values, current=current_value(declared, [each.strip() for each in path.split("+")]))
            for path, values in wanted.items()
        ]
    )
    load = Load(
        path="/read",
        bodies=(Body(content=page.png(), content_type="image/png"),),
        concurrency=(options.callers,),
        duration_s=options.seconds,
        warmup_s=options.seconds / 4,
        timeout_s=120.0,
    )
    copy, objective = CopyPlan(target=APP, folder=ROOT), Objective()
    check = reads_as_well(page, copy)
    print(f"{space.size} configurations; the search", flush=True)
    budget = max(2.0, space.size / 5)
    plan = TunePlan(copy=copy, space=space, objective=objective, load=load, check=check, budget=budget)
    begun = time.monotonic()
    result = tune(plan, lambda step: _told(step, plan))
    tuned_s = time.monotonic() - begun
    for line in explanation(result):
        print(line)
    if result.interrupted or result.verdict.winner is None:
        raise ServerFailed("the search found nothing")
    bench = Bench(space, copy, load, check)
    try:
        print("the sweep", flush=True)
        begun = time.monotonic()
        swept = _sweep(bench, space, objective)
        swept_s = time.monotonic() - begun
        ratio = _in_turn(bench, result.verdict.winner, swept, objective)
    finally:
        bench.close()
    return Outcome(ratio, tuned_s / swept_s, shown(space, result.verdict.winner), shown(space, swept))


def _told(step: Step, plan: TunePlan) -> None:
    if step.observation is not None:
        print(step_line(step, plan.space, plan.objective, plan.measurements), flush=True)


def _sweep(bench: Bench, space: Space, objective: Objective) -> Configuration:
    scores: dict[Configuration, float] = {}
    for number, configuration in enumerate(sorted(space, key=lambda each: each != space.start), 1):
        seen = bench.measure(configuration, 1.0)
        if seen.levels:
            scores[configuration] = objective.score(objective.best(seen.levels))
        told = f"{math.exp(scores[configuration]):.3f} pages/s" if seen.levels else seen.failure
        print(f"{number:>3}/{space.size}  {shown(space, configuration)}: {told}", flush=True)
    return max(scores, key=lambda each: scores[each])


def _in_turn(bench: Bench, tuned: Configuration, swept: Configuration, objective: Objective) -> float:
    """The pages of the one as a multiple of the other's: the median of some rounds."""
    if tuned == swept:
        return 1.0
    ratios = []
    for number in range(_ROUNDS):
        pair = (tuned, swept) if number % 2 == 0 else (swept, tuned)
        scores = {each: objective.score(objective.best(bench.measure(each, 1.0).levels)) for each in pair}
        ratios.append(math.exp(scores[tuned] - scores[swept]))
    return statistics.median(ratios)


def reads_as_well(page: Page, plan: CopyPlan) -> Callable[[RunningCopy], str]:
    """A check: the page is read with about as few errors as by the example as it is."""
    with running_copy(plan) as copy:
        usual = _errors(page, copy)

    def check(copy: RunningCopy) -> str:
        errors = _errors(page, copy)
        return "" if errors <= usual + _ERROR_MARGIN else f"{errors:.2%} of the characters are wrong, not {usual:.2%}"

    return check


def _errors(page: Page, copy: RunningCopy) -> float:
    answer = post(int(copy.http.rpartition(":")[2]), "/read", page.png(), {"content-type": "image/png"})
    if answer.status != 200:
        raise ServerFailed(f"status {answer.status}: {answer.body.decode('utf-8', 'replace'):.500}")
    return character_error_rate(row_texts([Line(**line) for line in json.loads(answer.body)]), page.lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=6.0, help="of a measurement")
    parser.add_argument("--callers", type=int, default=2, help="pages in flight")
    parser.add_argument("--short", action="store_true", help="two settings, to see that it works")
    parser.add_argument("--json", type=Path, help="write the result there")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
