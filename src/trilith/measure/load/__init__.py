"""Load on an HTTP endpoint: prepare requests, run a closed loop, get counts and durations."""

from trilith.measure.load.closed_loop import ClosedLoop, LoadPlan
from trilith.measure.load.outcome import GeneratorLoad, LoadOutcome
from trilith.measure.load.recorder import Recorder, TimelineSample
from trilith.measure.load.target import Body, PreparedRequest, Target, prepare

__all__ = [
    "Body",
    "ClosedLoop",
    "GeneratorLoad",
    "LoadOutcome",
    "LoadPlan",
    "PreparedRequest",
    "Recorder",
    "Target",
    "TimelineSample",
    "prepare",
]
