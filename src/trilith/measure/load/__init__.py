"""Load on endpoints: prepare requests, run a closed or an open loop, get counts and durations."""

from trilith.measure.load.closed_loop import ClosedLoop
from trilith.measure.load.open_loop import OpenLoop
from trilith.measure.load.outcome import GeneratorLoad, LoadOutcome
from trilith.measure.load.plan import LoadPlan, Traffic
from trilith.measure.load.recorder import Recorder, TimelineSample
from trilith.measure.load.target import Body, PreparedRequest, Target, prepare

__all__ = [
    "Body",
    "ClosedLoop",
    "GeneratorLoad",
    "LoadOutcome",
    "LoadPlan",
    "OpenLoop",
    "PreparedRequest",
    "Recorder",
    "Target",
    "TimelineSample",
    "Traffic",
    "prepare",
]
