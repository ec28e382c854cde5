"""The goals of the project as numbers, and what was measured beside them. Pure: nothing here measures or prints.

A goal's figures come in rounds. What is compared with the bound is their median, because a shared machine drifts; the
table shows the smallest and the largest beside it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.table import Table

Samples = Mapping[str, Sequence[float]]
"""Figures of each round, by the key of their goal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """One number that Trilith wants to keep.

    Attributes:
        key: how measurements name it.
        group: the measurement that gives it; what `--only` chooses by.
        text: what the number is.
        unit: of the bound and the figures.
        bound: the number itself.
        at_least: whether figures must not be below the bound; else they must not be above it.
    """

    key: str
    group: str
    text: str
    unit: str
    bound: float
    at_least: bool = False

    def holds(self, value: float) -> bool:
        """Whether a figure meets the bound."""
        return value >= self.bound if self.at_least else value <= self.bound


def _beside(key: str, text: str, peer: str, bound: float) -> Goal:
    group = key.partition(".")[0]
    return Goal(key=key, group=group, text=f"{text}: rate / {peer}", unit="x", bound=bound, at_least=True)


def _learned(key: str, text: str) -> Goal:
    return Goal(key=key, group="learned", text=f"{text}: learned / best size", unit="x", bound=0.95, at_least=True)


def _triton(group: str, how: str) -> tuple[Goal, ...]:
    """Trilith's Python models and those in its process beside Triton's Python models."""
    return (
        _beside(f"{group}.python-http", f"Python model, HTTP{how}", "Triton", 1.5),
        _beside(f"{group}.python-grpc", f"Python model, gRPC{how}", "Triton", 1.5),
        _beside(f"{group}.identity-http", f"in process, HTTP{how}", "Triton", 2.0),
        _beside(f"{group}.identity-grpc", f"in process, gRPC{how}", "Triton", 2.5),
    )


GOALS = (
    Goal(key="echo.cpu", group="echo", text="echo service: CPU a request", unit="us", bound=45.0),
    Goal(key="peers.mosec", group="peers", text="echo: rate / mosec", unit="x", bound=2.5, at_least=True),
    Goal(key="peers.ray-fast", group="peers", text="echo: rate / Ray Serve, fast", unit="x", bound=10.0, at_least=True),
    Goal(key="peers.bentoml", group="peers", text="echo: rate / BentoML", unit="x", bound=35.0, at_least=True),
    Goal(key="peers.granian", group="peers", text="echo: rate / bare granian", unit="x", bound=0.8, at_least=True),
    Goal(key="oip.http", group="oip", text="identity model, HTTP JSON: CPU a request", unit="us", bound=50.0),
    Goal(key="oip.grpc", group="oip", text="identity model, gRPC: CPU a request", unit="us", bound=50.0),
    Goal(key="oip.aio", group="oip", text="gRPC: CPU of grpc.aio / ours", unit="x", bound=3.5, at_least=True),
    *_triton("triton", ""),
    *_triton("triton-alone", ", one by one"),
    _beside("pytriton.http", "Python model, HTTP", "PyTriton", 5.0),
    _beside("pytriton.grpc", "Python model, gRPC", "PyTriton", 5.0),
    Goal(key="burst.last", group="burst", text="100 at 200/s, 100 ms for 16: last answer", unit="s", bound=0.9),
    _learned("learned.mlp", "wide network"),
    _learned("learned.ocr-rec", "padded crops"),
    Goal(key="ocr.pages", group="ocr", text="OCR: pages/s served / bare loop", unit="x", bound=0.90, at_least=True),
    Goal(key="ocr.cpu", group="ocr", text="OCR: CPU a page served / bare loop", unit="x", bound=1.05),
    Goal(key="service.grpc", group="service", text="echo over gRPC: CPU a call", unit="us", bound=60.0),
    Goal(key="service.picture", group="service", text="picture in and out: CPU / bare", unit="x", bound=1.10),
    Goal(key="service.upload", group="service", text="p99 beside 16 MB uploads: more", unit="ms", bound=20.0),
    _beside("batched.bentoml", "batched method", "BentoML", 2.0),
    _beside("batched.mosec", "batched method", "mosec", 1.0),
    Goal(key="streams.growth", group="streams", text="32 streams, one slow: memory that grows", unit="MiB", bound=4.0),
    Goal(key="streams.items", group="streams", text="items that arrive / asked", unit="x", bound=0.95, at_least=True),
    Goal(key="start.first", group="start", text="first answer after `trilith serve`", unit="s", bound=1.0),
    Goal(key="import.time", group="import", text="`import trilith`", unit="ms", bound=60.0),
    Goal(key="import.heavy", group="import", text="heavy libraries that it loads", unit="", bound=0.0),
)
GROUPS = tuple(dict.fromkeys(goal.group for goal in GOALS))

Outcome = Literal["met", "missed", "not measured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A goal and what was measured of it.

    Attributes:
        goal: the goal.
        samples: the figures of the rounds; empty when it could not be measured.
    """

    goal: Goal
    samples: tuple[float, ...]

    @property
    def median(self) -> float | None:
        """What is compared, or None."""
        return statistics.median(self.samples) if self.samples else None

    @property
    def outcome(self) -> Outcome:
        """How it stands."""
        median = self.median
        if median is None:
            return "not measured"
        return "met" if self.goal.holds(median) else "missed"


def judge(groups: Iterable[str], measured: Samples) -> list[Verdict]:
    """A verdict for each goal of the groups, in the order of `GOALS`."""
    chosen = frozenset(groups)
    return [Verdict(goal=goal, samples=tuple(measured.get(goal.key, ()))) for goal in GOALS if goal.group in chosen]


def as_table(verdicts: Sequence[Verdict], title: str) -> Table:
    """The verdicts side by side."""
    table = Table(title=title, title_justify="left")
    table.add_column("goal")
    for name in ("bound", "median", "smallest", "largest", "rounds"):
        table.add_column(name, justify="right")
    table.add_column("outcome")
    colours = {"met": "green", "missed": "red", "not measured": "yellow"}
    for verdict in verdicts:
        goal, outcome, samples = verdict.goal, verdict.outcome, verdict.samples
        table.add_row(
            goal.text,
            f"{'>=' if goal.at_least else '<='} {_number(goal.bound)} {goal.unit}".rstrip(),
            *_spread(samples),
            str(len(samples)),
            f"[{colours[outcome]}]{outcome}[/]",
        )
    return table


def as_report(
    verdicts: Sequence[Verdict], conditions: Mapping[str, object], failures: Mapping[str, str], *, quick: bool
) -> dict[str, object]:
    """Everything as JSON-ready values."""
    return {
        "schema": "trilith-goals/1",
        "quick": quick,
        "conditions": dict(conditions),
        "failures": dict(failures),
        "goals": [
            {
                "key": verdict.goal.key,
                "text": verdict.goal.text,
                "unit": verdict.goal.unit,
                "bound": verdict.goal.bound,
                "at_least": verdict.goal.at_least,
                "samples": list(verdict.samples),
                "median": verdict.median,
                "outcome": verdict.outcome,
            }
            for verdict in verdicts
        ],
    }


def _spread(samples: Sequence[float]) -> tuple[str, str, str]:
    if not samples:
        return "-", "-", "-"
    return _number(statistics.median(samples)), _number(min(samples)), _number(max(samples))


def _number(value: float) -> str:
    """Three digits are as much as such a measurement is worth."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == round(value) else f"{value:.3g}"
