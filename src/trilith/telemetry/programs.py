"""The metrics of a server's programs, summed up: each replica tells what has changed, this is who owns the sums.

Rule 1: counters and histograms are sums over all replicas that ever were: one that has ended has still counted.
Rule 2: a gauge is its replica's, and goes with it.
Rule 3: what replicas say is bounded as what clients say is: names, series, and declarations that contradict.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable
from typing import Final

from trilith.telemetry.deltas import FamilyDelta
from trilith.telemetry.families import OVERFLOW_LABEL, Buckets, Kind, Labels, Snapshot

_log: Final = logging.getLogger("trilith.metrics")
_MOST_FAMILIES: Final = 1000
_MOST_SERIES: Final = 1000


class ProgramMetrics:
    """Sums of one server. A source of `Metrics`."""

    def __init__(self) -> None:
        self._families: dict[str, _Family] = {}
        self._refused: set[str] = set()

    def add(self, replica_id: int, revision: int, families: Iterable[FamilyDelta]) -> None:
        """What a replica tells. A declaration of a newer revision replaces one that it contradicts."""
        for delta in families:
            found = self._families.get(delta.name)
            if found is None or (not found.agrees(delta) and revision > found.revision):
                if found is None and len(self._families) >= _MOST_FAMILIES:
                    self._refuse(delta.name, f"there are {_MOST_FAMILIES} metrics already")
                    continue
                found = self._families[delta.name] = _Family(delta, revision)
            elif not found.agrees(delta):
                self._refuse(delta.name, f"it is a {found.kind} with the labels {list(found.label_names)}")
                continue
            found.add(replica_id, delta)

    def gone(self, replica_id: int) -> None:
        """A replica has ended: its gauges go."""
        for family in self._families.values():
            family.gone(replica_id)

    def __call__(self) -> list[Snapshot]:
        """All of them, now."""
        return [family.snapshot() for _, family in sorted(self._families.items())]

    def _refuse(self, name: str, why: str) -> None:
        if name not in self._refused and len(self._refused) < _MOST_FAMILIES:
            self._refused.add(name)
            _log.warning("what a replica counts as %s is left out: %s", name, why)


class _Family:
    def __init__(self, declared: FamilyDelta, revision: int) -> None:
        self.name = declared.name
        self.kind: Kind = declared.kind
        self.help = declared.help
        self.label_names = declared.label_names
        self.bounds = declared.bounds
        self.revision = revision
        self._numbers: dict[Labels, float] = {}
        self._counts: dict[Labels, list[int]] = {}
        self._gauges: dict[int, dict[Labels, float]] = {}

    def agrees(self, delta: FamilyDelta) -> bool:
        """Whether it is declared alike."""
        return (self.kind, self.label_names, self.bounds) == (delta.kind, delta.label_names, delta.bounds)

    def add(self, replica_id: int, delta: FamilyDelta) -> None:
        for series in delta.series:
            labels = series.labels
            if self.kind == "gauge":
                self._gauges.setdefault(replica_id, {})[labels] = series.value
                continue
            if labels not in self._numbers and len(self._numbers) >= _MOST_SERIES:
                labels = (OVERFLOW_LABEL,) * len(self.label_names)
            self._numbers[labels] = self._numbers.get(labels, 0.0) + series.value
            if self.kind == "histogram":
                counts = self._counts.setdefault(labels, [0] * (len(self.bounds) + 1))
                for at, count in enumerate(series.counts[: len(counts)]):
                    counts[at] += count

    def gone(self, replica_id: int) -> None:
        self._gauges.pop(replica_id, None)

    def snapshot(self) -> Snapshot:
        samples: list[tuple[Labels, float | Buckets]] = []
        names = self.label_names
        if self.kind == "gauge":
            names = ("replica", *names)
            for replica_id, series in sorted(self._gauges.items()):
                samples += [((str(replica_id), *labels), value) for labels, value in sorted(series.items())]
        elif self.kind == "counter":
            samples += sorted(self._numbers.items())
        else:
            for labels, total in sorted(self._numbers.items()):
                cumulative = tuple(itertools.accumulate(self._counts[labels]))
                samples.append((labels, Buckets(self.bounds, cumulative, total)))
        return Snapshot(name=self.name, kind=self.kind, help=self.help, label_names=names, samples=samples)
