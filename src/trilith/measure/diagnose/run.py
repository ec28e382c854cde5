"""One diagnosis from plan to result. Doer."""

from __future__ import annotations

from trilith.measure.bench import BenchPlan
from trilith.measure.conditions import read_conditions
from trilith.measure.diagnose.collect import Progress, collect
from trilith.measure.diagnose.diagnosis import Diagnosis
from trilith.measure.diagnose.verdict import NOISIEST, decide
from trilith.measure.diagnose.verify import verify
from trilith.measure.diagnose.view import View
from trilith.measure.diagnose.waterfall import waterfalls


def diagnose(
    plan: BenchPlan,
    *,
    largest: int = 64,
    noisiest: float = NOISIEST,
    try_change: bool = False,
    tells_time: bool | None = None,
    on_progress: Progress | None = None,
) -> Diagnosis:
    """Measures and decides; see `collect` and `decide` for the arguments.

    With `try_change` the first change that a setting can make is tried on a copy.

    Raises:
        SetupError: the target does not answer, or says that the request is wrong.
        ProcessLookupError: the server's process is gone.
    """
    conditions = read_conditions()
    collected = collect(plan, largest=largest, tells_time=tells_time, on_progress=on_progress)
    verdict = decide(collected.evidence, noisiest=noisiest)
    view = View(collected.evidence)
    load = view.knee.load
    return Diagnosis(
        verdict=verdict,
        evidence=collected.evidence,
        waterfalls=waterfalls(collected.samples.get(load, []), view.locked(view.knee)),
        waterfall_load=load,
        verified=verify(plan, verdict.changes, on_progress=on_progress)
        if try_change and not collected.evidence.interrupted
        else None,
        conditions=conditions,
    )
