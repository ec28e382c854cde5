"""Metrics where repositories are namespaces: two models of one name are told apart by the label `namespace`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from trilith.runtime.protocol.triton_metrics import tag_names
from trilith.runtime.statistics import ModelStatistics
from trilith.telemetry import Snapshot

if TYPE_CHECKING:
    from trilith.runtime.protocol.port import ModelPort

Families = Callable[[Sequence[ModelStatistics], Sequence["ModelPort"], Sequence[str]], list[Snapshot]]
"""Makes the families of models, from what they have done and the names of their further labels."""


def in_namespaces(
    counted: Sequence[ModelStatistics], models: Sequence[ModelPort], families: Families
) -> list[Snapshot]:
    """The families of all models; with the label, where one of them is of a namespace."""
    tags = tag_names(models)
    spaces = sorted({*(found.namespace for found in counted), *(model.namespace for model in models)})
    if not any(spaces):
        return families(counted, models, tags)
    merged: dict[str, Snapshot] = {}
    for space in spaces:
        of_space = [each for each in counted if each.namespace == space]
        for family in families(of_space, [each for each in models if each.namespace == space], tags):
            samples = [((*labels, space), value) for labels, value in family.samples]
            before = merged.get(family.name)
            merged[family.name] = replace(
                family,
                label_names=(*family.label_names, "namespace"),
                samples=[*(before.samples if before is not None else ()), *samples],
            )
    return list(merged.values())
