"""What families of models have in common, whoever named them: one series a model, labelled by its name and version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from trilith.runtime.statistics import ModelStatistics
from trilith.telemetry import Kind, Reading

MODEL_LABELS: Final = ("model", "version")

ByModel = Sequence[tuple[tuple[str, str], ModelStatistics]]
"""What models have done, each with its labels."""


def by_model(statistics: Sequence[ModelStatistics]) -> ByModel:
    """The statistics with the labels of their models."""
    return [((found.name, str(found.version)), found) for found in statistics]


def per_model(name: str, kind: Kind, help: str, number: Callable[[ModelStatistics], float]) -> Reading[ByModel]:
    """A family of one number for each model."""
    return Reading(name, kind, help, MODEL_LABELS, lambda counted: ((at, number(found)) for at, found in counted))
