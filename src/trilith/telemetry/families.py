"""Counters, gauges and histograms as plain numbers in plain objects.

Rule 1: the request path adds to a number; text is made when someone scrapes.
Rule 2: labels are bounded. A family keeps at most `max_series` label sets; what comes after counts under `other`, so
    that no client can make the process grow by inventing names.
Rule 3: nothing here knows Prometheus. `exposition.py` writes its text from `Snapshot`s.

Not locked: each family belongs to one thread. A reader in another thread sees numbers that are at most one update old.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, Literal, TypeVar

from trilith.errors import Bug
from trilith.telemetry.quantiles import Quantiles

Kind = Literal["counter", "gauge", "histogram", "summary"]
Labels = tuple[str, ...]

OVERFLOW_LABEL: Final = "other"
"""The value of every label of the series that takes what is beyond `max_series`."""

LATENCY_BOUNDS_S: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0),
)
"""Upper bounds of latency buckets in seconds, 100 µs to a minute. Triton's own (0.1, 0.5, 2, 5) are among them."""
BATCH_BOUNDS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
"""Upper bounds of the sizes of batches."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """The state of one histogram series.

    Attributes:
        bounds: upper bounds of the buckets, ascending, without infinity.
        cumulative: observations <= each bound, then all observations; one longer than `bounds`.
        total: the sum of all observations.
    """

    bounds: tuple[float, ...]
    cumulative: tuple[int, ...]
    total: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One family at one moment.

    Attributes:
        name: the metric's name; a counter's ends in `_total`, but for those that have Triton's names.
        kind: counter, gauge, histogram or summary.
        help: one sentence.
        label_names: names of the labels.
        samples: label values (as many as names) and the value: a number, or `Buckets` for a histogram, or
            `Quantiles` for a summary.
    """

    name: str
    kind: Kind
    help: str
    label_names: Labels = ()
    samples: Sequence[tuple[Labels, float | Buckets | Quantiles]] = ()


class Number:
    """One series of a counter or a gauge."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def add(self, amount: float = 1) -> None:
        """Adds `amount`; for a counter it is never negative."""
        self.value += amount


class Distribution:
    """One series of a histogram."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Counts one observation, or several equal ones."""
        self._counts[bisect_left(self._bounds, value)] += times
        self.total += value * times

    def buckets(self) -> Buckets:
        """The state now."""
        return Buckets(self._bounds, tuple(itertools.accumulate(self._counts)), self.total)


Series = TypeVar("Series", Number, Distribution)


class Family(ABC, Generic[Series]):
    """All series of one name. Made by `Metrics`, which owns it."""

    __slots__ = ("_max_series", "_series", "help", "kind", "label_names", "name")

    def __init__(self, name: str, kind: Kind, help: str, label_names: Labels, max_series: int) -> None:
        self.name = name
        self.kind = kind
        self.help = help
        self.label_names = label_names
        self._max_series = max_series
        self._series: dict[Labels, Series] = {}

    def labelled(self, *labels: str) -> Series:
        """The series with these label values, made on first use; callers on a hot path keep it.

        Raises:
            Bug: not as many values as the family has labels.
        """
        series = self._series.get(labels)
        if series is not None:
            return series
        if len(labels) != len(self.label_names):
            raise Bug(f"metric {self.name} has the labels {self.label_names}, got the values {labels}")
        if len(self._series) >= self._max_series and labels != self._overflow():
            return self.labelled(*self._overflow())
        return self._series.setdefault(labels, self._make())

    def snapshot(self) -> Snapshot:
        """All series now, in order of their labels."""
        samples = [(labels, self._value(series)) for labels, series in sorted(self._series.copy().items())]
        return Snapshot(name=self.name, kind=self.kind, help=self.help, label_names=self.label_names, samples=samples)

    def _overflow(self) -> Labels:
        return (OVERFLOW_LABEL,) * len(self.label_names)

    @abstractmethod
    def _make(self) -> Series: ...

    @abstractmethod
    def _value(self, series: Series) -> float | Buckets: ...


class NumberFamily(Family[Number]):
    """A counter or a gauge."""

    __slots__ = ()

    def _make(self) -> Number:
        return Number()

    def _value(self, series: Number) -> float:
        return series.value


class HistogramFamily(Family[Distribution]):
    """A histogram."""

    __slots__ = ("_bounds",)

    def __init__(self, name: str, help: str, label_names: Labels, max_series: int, bounds: tuple[float, ...]) -> None:
        super().__init__(name, "histogram", help, label_names, max_series)
        self._bounds = bounds

    def _make(self) -> Distribution:
        return Distribution(self._bounds)

    def _value(self, series: Distribution) -> Buckets:
        return series.buckets()
