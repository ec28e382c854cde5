"""The other bottleneck, iteration: what each step from an edit to an answer takes, and which is the slowest. Pure."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from trilith.measure.units import duration

INSTALL: Final = "install"
START: Final = "start to ready"
EDIT: Final = "edit to answer"

_ADVICE: Final = {
    INSTALL: "Keep an environment and pin what is in it; install anew only when the pins change.",
    START: "Import what is heavy where it is used, load models by `trilith.model` (once a machine, not once a"
    " replica), and"
    " leave what is slow to make to `__init__`.",
    EDIT: "With --reload only processes whose files changed start again: put what is slow to load into a service"
    " or a model"
    " of its own.",
}
_IMPORT: Final = re.compile(r"^import time:\s+\d+ \|\s+(\d+) \| (\S+)$", re.MULTILINE)
_SHOWN: Final = 3


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step.

    Attributes:
        name: of it.
        seconds: that it took, or None when it was not timed.
        note: what it consists of, or why it was not timed.
    """

    name: str
    seconds: float | None
    note: str = ""


class Workflow(msgspec.Struct, frozen=True, kw_only=True):
    """All steps of a target."""

    target: str
    steps: tuple[Step, ...]

    @property
    def slowest(self) -> Step | None:
        """That which takes longest; None when none was timed."""
        timed = [step for step in self.steps if step.seconds is not None]
        return max(timed, key=lambda step: step.seconds or 0.0, default=None)

    @property
    def sentence(self) -> str:
        """The slowest step, and what helps."""
        slowest = self.slowest
        if slowest is None or slowest.seconds is None:
            return "No step could be timed."
        whole_s = sum(step.seconds or 0.0 for step in self.steps)
        return (
            f"The slowest step is {slowest.name}: {duration(slowest.seconds)} of {duration(whole_s)}."
            f" {_ADVICE.get(slowest.name, '')}".rstrip()
        )


def slow_imports(text: str) -> list[tuple[str, float]]:
    """The modules that take longest to import, with what they import: from what `python -X importtime` writes.

    Only those that the file itself imports; seconds.
    """
    found = [(name, int(microseconds) / 1e6) for microseconds, name in _IMPORT.findall(text)]
    return sorted(found, key=lambda each: -each[1])[:_SHOWN]
