"""The one owner of all metrics of a process.

Rule 1: whoever counts asks `Metrics` for a family once and keeps it; there is no global registry.
Rule 2: what already counts for itself (a model's statistics, a server's connections) is a source: it is asked at
    scrape, so the same number is never kept twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from trilith.errors import Bug
from trilith.telemetry.families import LATENCY_BOUNDS_S, HistogramFamily, NumberFamily, Snapshot

Source = Callable[[], Iterable[Snapshot]]

_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*\Z")
_MAX_SERIES: Final = 1000


class Metrics:
    """Owns families and sources, and gathers them."""

    def __init__(self) -> None:
        self._families: dict[str, NumberFamily | HistogramFamily] = {}
        self._sources: list[Source] = []

    def counter(
        self, name: str, help: str, label_names: tuple[str, ...] = (), *, max_series: int = _MAX_SERIES
    ) -> NumberFamily:
        """A number that only grows. Its name ends in `_total`.

        Raises:
            Bug: the name is malformed or taken.
        """
        if not name.endswith("_total"):
            raise Bug(f"the name of a counter ends in _total, got {name}")
        family = NumberFamily(name, "counter", help, label_names, max_series)
        self._own(name, family)
        return family

    def gauge(
        self, name: str, help: str, label_names: tuple[str, ...] = (), *, max_series: int = _MAX_SERIES
    ) -> NumberFamily:
        """A number that goes up and down.

        Raises:
            Bug: the name is malformed or taken.
        """
        family = NumberFamily(name, "gauge", help, label_names, max_series)
        self._own(name, family)
        return family

    def histogram(
        self,
        name: str,
        help: str,
        label_names: tuple[str, ...] = (),
        *,
        bounds: tuple[float, ...] = LATENCY_BOUNDS_S,
        max_series: int = _MAX_SERIES,
    ) -> HistogramFamily:
        """A distribution in buckets with the ascending upper `bounds`.

        Raises:
            Bug: the name is malformed or taken, or the bounds do not ascend.
        """
        if list(bounds) != sorted(set(bounds)):
            raise Bug(f"the bounds of histogram {name} must ascend, got {bounds}")
        family = HistogramFamily(name, help, label_names, max_series, bounds)
        self._own(name, family)
        return family

    def add_source(self, source: Source) -> None:
        """Asks `source` for snapshots at each scrape, in the scraping thread."""
        self._sources.append(source)

    def collect(self) -> list[Snapshot]:
        """Everything, now."""
        snapshots = [family.snapshot() for family in self._families.values()]
        for source in self._sources:
            snapshots.extend(source())
        return snapshots

    def _own(self, name: str, family: NumberFamily | HistogramFamily) -> None:
        if not _NAME.match(name):
            raise Bug(f"the name of a metric is lower-case letters, digits and underscores, got {name!r}")
        if name in self._families:
            raise Bug(f"the metric {name} exists; keep the family that its owner made")
        self._families[name] = family
