"""Tries a change: a copy of the running server with the changed setting, and both under the same load in turn. Doer.

Rule 1: the running server is not touched but by requests; the copy is ended whatever happens (see `measure.copies`).
Rule 2: they take turns in short rounds, so that what slows the machine down slows both.
Rule 3: what cannot be tried by a setting is said to be so; nothing is changed in anybody's code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import uvloop

from trilith.config import path_steps, setting_path
from trilith.errors import SetupError
from trilith.measure.bench import BenchPlan, run_bench
from trilith.measure.copies import CopyPlan, running_copy
from trilith.measure.diagnose.collect import Progress
from trilith.measure.diagnose.findings.finding import Change
from trilith.measure.diagnose.server_view import server_at
from trilith.measure.diagnose.verified import Verified, gain_of, verified
from trilith.measure.load import Target

_ROUNDS: Final = 4


def verify(plan: BenchPlan, changes: Sequence[Change], *, on_progress: Progress | None = None) -> Verified:
    """Tries the first of the changes that a setting can make; without one it says why nothing was tried.

    Raises:
        KeyboardInterrupt: it was stopped by hand.
    """
    if not changes:
        return Verified(change=Change(what="Nothing"), why_not="no change is proposed, so there is none to try")
    tell = on_progress or (lambda _: None)
    change = next((each for each in changes if each.settings), None)
    if change is None:
        why = "it changes code, not a setting; change it, and let `trilith compare` measure both"
        return Verified(change=changes[0], why_not=why)
    if plan.traffic:
        return Verified(
            change=change, why_not="a copy is tried over plain HTTP only; give the URL of the same method there"
        )
    copied = copy_of(plan.target, change)
    if isinstance(copied, str):
        return Verified(change=change, why_not=copied)
    tell("starting a copy with " + ", ".join(f"{path}={value}" for path, value in change.settings.items()))
    try:
        with running_copy(copied) as copy:
            target = Target.parse(copy.url(plan.target.path))
            changed = dataclasses.replace(plan, target=target, server_pid=None)
            running = dataclasses.replace(plan, server_pid=None)
            gains = []
            for number in range(_ROUNDS):
                tell(f"round {number + 1} of {_ROUNDS}: the running one and its copy in turn")
                # Who is first takes turns too: what the first leaves behind, a warm cache say, then helps both.
                pair = (running, changed) if number % 2 == 0 else (changed, running)
                figures = {id(each): _measured(each, change.load) for each in pair}
                gains.append(gain_of(change, figures[id(running)], figures[id(changed)]))
    except (SetupError, ValueError) as error:
        return Verified(change=change, why_not=str(error))
    return verified(change, gains)


def copy_of(target: Target, change: Change) -> CopyPlan | str:
    """The running server with the change, or why there can be no copy of it."""
    report = server_at(target)
    if report is None:
        return "no Trilith server of this user on this machine listens there"
    record = report.record
    if record.options is None:
        return "the server was not started by `trilith serve`, or by another version of it"
    changed = {setting_path(path_steps(path)): value for path, value in change.settings.items()}
    return CopyPlan(
        target=record.target,
        settings={**record.settings, **changed},
        options=record.options,
        folder=Path(record.folder),
    )


def _measured(plan: BenchPlan, load: int) -> tuple[float, float]:
    report = uvloop.run(run_bench(dataclasses.replace(plan, concurrency=(load,)), sample_timelines=False))
    if report.interrupted or not report.levels:
        raise KeyboardInterrupt
    [level] = report.levels
    return level.requests_per_s, level.latency.p50_s
