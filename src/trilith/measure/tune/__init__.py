"""`trilith tune` as a library: search settings of a target for what is wanted of it, by running copies of it.

    result = tune(TunePlan(copy=CopyPlan(target="app.py:Ocr"), space=space, objective=Objective(), load=load))

The decider (`Tuner`) is pure, so that it can be tried on surfaces that are known.
"""

from trilith.measure.copies import CopyFailed, CopyPlan, RunningCopy, running_copy
from trilith.measure.tune.decider import Tuner
from trilith.measure.tune.declaration import Declared
from trilith.measure.tune.declared import read_declared
from trilith.measure.tune.defaults import current_value, default_space
from trilith.measure.tune.measuring import Bench, Check, Load, command_check
from trilith.measure.tune.objective import Figures, Objective, Observation
from trilith.measure.tune.patch import SETTINGS_FILE, FileChange, changed_settings, plan_changes
from trilith.measure.tune.proposal import Proposal
from trilith.measure.tune.report import as_values, explanation, shown, step_line, trade_offs
from trilith.measure.tune.run import Step, TunePlan, TuneResult, tune
from trilith.measure.tune.space import Configuration, Knob, Space, knob
from trilith.measure.tune.verdict import Effect, Row, Verdict, judge

__all__ = [
    "SETTINGS_FILE",
    "Bench",
    "Check",
    "Configuration",
    "CopyFailed",
    "CopyPlan",
    "Declared",
    "Effect",
    "Figures",
    "FileChange",
    "Knob",
    "Load",
    "Objective",
    "Observation",
    "Proposal",
    "Row",
    "RunningCopy",
    "Space",
    "Step",
    "TunePlan",
    "TuneResult",
    "Tuner",
    "Verdict",
    "as_values",
    "changed_settings",
    "command_check",
    "current_value",
    "default_space",
    "explanation",
    "judge",
    "knob",
    "plan_changes",
    "read_declared",
    "running_copy",
    "shown",
    "step_line",
    "trade_offs",
    "tune",
]
