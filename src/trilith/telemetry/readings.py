"""Families of what already counts for itself: a table of them is read at each scrape.

Rule: a family is described once, and says how it is read of a count. Nothing is kept here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from trilith.telemetry.families import Buckets, Kind, Labels, Snapshot
from trilith.telemetry.quantiles import Quantiles

CountedT = TypeVar("CountedT", contravariant=True)


@dataclass(frozen=True, slots=True)
class Reading(Generic[CountedT]):
    """One family.

    Attributes:
        name: the metric's name.
        kind: counter, gauge, histogram or summary.
        help: one sentence.
        label_names: names of the labels.
        read: of what was counted: label values (as many as names) and the value of each series.
    """

    name: str
    kind: Kind
    help: str
    label_names: Labels
    read: Callable[[CountedT], Iterable[tuple[Labels, float | Buckets | Quantiles]]]


def snapshots(readings: Iterable[Reading[CountedT]], counted: CountedT) -> list[Snapshot]:
    """All families of a table, now."""
    return [
        Snapshot(
            name=reading.name,
            kind=reading.kind,
            help=reading.help,
            label_names=reading.label_names,
            samples=list(reading.read(counted)),
        )
        for reading in readings
    ]
