"""The rules by which evidence is read: each looks for one kind of bottleneck and says what it saw. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from trilith.measure.diagnose.findings.batches import batch_too_large, batch_too_small
from trilith.measure.diagnose.findings.finding import Change, Finding
from trilith.measure.diagnose.findings.from_outside import seen_from_outside
from trilith.measure.diagnose.findings.from_timelines import seen_by_timelines
from trilith.measure.diagnose.findings.model_code import model_execution
from trilith.measure.diagnose.findings.outside import client_bound, room
from trilith.measure.diagnose.findings.python_code import (
    blocked_loop,
    encoding,
    full_of_python,
    interpreter_lock,
)
from trilith.measure.diagnose.findings.serial import serial_calls
from trilith.measure.diagnose.findings.waiting import cold_starts, hot_replica, too_few, window_too_long
from trilith.measure.diagnose.view import View

__all__ = ["RULES", "Change", "Finding", "Rule"]

Rule = Callable[[View], Iterator[Finding]]

RULES: Final[tuple[Rule, ...]] = (
    client_bound,
    room,
    seen_from_outside,
    seen_by_timelines,
    model_execution,
    batch_too_small,
    batch_too_large,
    window_too_long,
    cold_starts,
    hot_replica,
    too_few,
    interpreter_lock,
    encoding,
    blocked_loop,
    serial_calls,
    full_of_python,
)
