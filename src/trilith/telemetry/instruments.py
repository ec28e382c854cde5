"""Metrics of a program's own: `trilith.counter`, `trilith.gauge`, `trilith.histogram`.

Rule 1: an instrument is declared by its name, anywhere and as often as one likes, always in the same way. The same name
    is the same metric in every process of a server; who owns the sum is the gateway.
Rule 2: adding to one is a few hundred nanoseconds, from any thread. What has changed is taken by who sends it on.
Rule 3: labels are bounded: what is beyond `MOST_SERIES` of them counts under `other`.
"""

from __future__ import annotations

import abc
import math
import re
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from trilith.errors import InvalidConfig
from trilith.telemetry.deltas import FamilyDelta, SeriesDelta
from trilith.telemetry.families import LATENCY_BOUNDS_S, OVERFLOW_LABEL, Kind

MOST_SERIES: Final = 1000
_MOST_INSTRUMENTS: Final = 500
_MOST_BOUNDS: Final = 100
_LONGEST_LABEL: Final = 200
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,199}")
_RESERVED: Final = ("trilith_", "nv_", "process_", "python_")
_RESERVED_LABELS: Final = frozenset({"le", "quantile", "replica", "service"})

Labels = tuple[str, ...]


class _Instrument(abc.ABC):
    """What the three have in common: a declaration, and series that changed."""

    kind: Kind

    def __init__(
        self, owner: Instruments, name: str, help: str, label_names: tuple[str, ...], bounds: tuple[float, ...]
    ) -> None:
        self.name = name
        self.help = help
        self.label_names = label_names
        self.bounds = bounds
        self._owner = owner
        self._lock = owner.lock
        self._known: dict[Labels, float] = {}

    def _labels(self, given: dict[str, object]) -> Labels:
        names = self.label_names
        if not names and not given:
            return ()
        if given.keys() != set(names):
            wanted = ", ".join(f"{name}=..." for name in names) or "no label"
            raise TypeError(f"{self.name} takes {wanted}; got {', '.join(given) or 'none'}")
        labels = tuple(str(given[name])[:_LONGEST_LABEL] for name in names)
        if labels in self._known or len(self._known) < MOST_SERIES:
            return labels
        return (OVERFLOW_LABEL,) * len(names)

    def _number(self, value: float, *, least: float = -math.inf) -> float:
        number = float(value)
        if not math.isfinite(number) or number < least:
            wanted = "a finite number" if least == -math.inf else f"a finite number of at least {least:g}"
            raise ValueError(f"{self.name}: expected {wanted}, got {value!r}")
        return number

    def _changed(self) -> None:
        self._owner.changed()

    @abc.abstractmethod
    def take(self) -> list[SeriesDelta]:
        """What has changed since the last time. The lock is held."""

    def again(self) -> None:  # noqa: B027 - most have no state
        """A new owner knows nothing: what is a state, not a change, is told again. The lock is held."""


class Counter(_Instrument):
    """A number that only grows."""

    kind = "counter"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._grown: dict[Labels, float] = {}

    def add(self, amount: float = 1.0, /, **labels: object) -> None:
        """Adds `amount`.

        Raises:
            ValueError: it is negative, or no finite number.
            TypeError: the labels are not those that are declared.
        """
        number = self._number(amount, least=0.0)
        with self._lock:
            key = self._labels(labels)
            self._known[key] = self._known.get(key, 0.0) + number
            self._grown[key] = self._grown.get(key, 0.0) + number
        self._changed()

    def value(self, **labels: object) -> float:
        """What this process has added, for unit tests."""
        return self._known.get(self._labels(labels), 0.0)

    def take(self) -> list[SeriesDelta]:
        """What has changed since the last time."""
        grown, self._grown = self._grown, {}
        return [SeriesDelta(labels, amount) for labels, amount in grown.items()]


class Gauge(_Instrument):
    """A number that goes up and down. Each process has its own."""

    kind = "gauge"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._set: set[Labels] = set()

    def set(self, value: float, /, **labels: object) -> None:
        """Makes it `value`.

        Raises:
            ValueError: it is no finite number.
            TypeError: the labels are not those that are declared.
        """
        number = self._number(value)
        with self._lock:
            key = self._labels(labels)
            self._known[key] = number
            self._set.add(key)
        self._changed()

    def add(self, amount: float = 1.0, /, **labels: object) -> None:
        """Adds `amount`, which may be negative.

        Raises:
            ValueError: it is no finite number.
            TypeError: the labels are not those that are declared.
        """
        number = self._number(amount)
        with self._lock:
            key = self._labels(labels)
            self._known[key] = self._known.get(key, 0.0) + number
            self._set.add(key)
        self._changed()

    def value(self, **labels: object) -> float:
        """What it is in this process, for unit tests."""
        return self._known.get(self._labels(labels), 0.0)

    def take(self) -> list[SeriesDelta]:
        """What has changed since the last time."""
        found, self._set = self._set, set()
        return [SeriesDelta(labels, self._known[labels]) for labels in found]

    def again(self) -> None:
        """All of it is told again."""
        self._set = set(self._known)


class Histogram(_Instrument):
    """A distribution in buckets."""

    kind = "histogram"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._counts: dict[Labels, list[int]] = {}
        self._totals: dict[Labels, float] = {}

    def observe(self, value: float, /, **labels: object) -> None:
        """Counts one observation.

        Raises:
            ValueError: it is no finite number.
            TypeError: the labels are not those that are declared.
        """
        number = self._number(value)
        with self._lock:
            key = self._labels(labels)
            self._known[key] = self._known.get(key, 0.0) + 1
            counts = self._counts.get(key)
            if counts is None:
                counts = self._counts[key] = [0] * (len(self.bounds) + 1)
            counts[bisect_left(self.bounds, number)] += 1
            self._totals[key] = self._totals.get(key, 0.0) + number
        self._changed()

    def count(self, **labels: object) -> int:
        """How many observations this process has made, for unit tests."""
        return int(self._known.get(self._labels(labels), 0))

    def take(self) -> list[SeriesDelta]:
        """What has changed since the last time."""
        counts, self._counts = self._counts, {}
        totals, self._totals = self._totals, {}
        return [SeriesDelta(labels, totals[labels], tuple(buckets)) for labels, buckets in counts.items()]


Kept = TypeVar("Kept", bound=_Instrument)


class Instruments:
    """All instruments of a process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._found: dict[str, _Instrument] = {}
        self._on_change: Callable[[], None] | None = None
        self._told = False

    def on_change(self, callback: Callable[[], None] | None) -> None:
        """Calls `callback`, in whatever thread, at the first change after each `take`. None: nobody wants to know."""
        self._on_change = callback
        self._told = False
        if callback is not None:
            self.changed()

    def changed(self) -> None:
        """Something has changed."""
        if not self._told and self._on_change is not None:
            self._told = True
            self._on_change()

    def take(self, *, again: bool = False) -> list[FamilyDelta]:
        """What has changed since the last time. `again`: for somebody new, who knows no gauge."""
        self._told = False
        with self.lock:
            families = []
            for each in self._found.values():
                if again:
                    each.again()
                series = each.take()
                if series:
                    families.append(
                        FamilyDelta(
                            name=each.name,
                            kind=each.kind,
                            help=each.help,
                            label_names=each.label_names,
                            bounds=each.bounds,
                            series=series,
                        )
                    )
        return families

    def declare(
        self,
        kind: type[Kept],
        name: str,
        help: str,
        labels: Iterable[str],
        bounds: Sequence[float] = (),
        *,
        own: bool = False,
    ) -> Kept:
        """The instrument of that name; the one that there is, when it was declared before. `own`: it is Trilith's.

        Raises:
            InvalidConfig: a name or a bound is none, or it was declared otherwise before.
        """
        names = _checked(kind.kind, name, labels, own=own)
        limits = _checked_bounds(name, bounds)
        with self.lock:
            found = self._found.get(name)
            if found is None:
                if len(self._found) >= _MOST_INSTRUMENTS:
                    raise InvalidConfig(f"metric {name}: a process has at most {_MOST_INSTRUMENTS} metrics of its own")
                found = self._found[name] = kind(self, name, help or f"{name}.", names, limits)
                return found
        if not isinstance(found, kind) or found.label_names != names or found.bounds != limits:
            raise InvalidConfig(
                f"metric {name} was declared before as a {found.kind} with the labels {list(found.label_names)}"
                f"{f' and the bounds {list(found.bounds)}' if found.bounds else ''}; declare it alike"
            )
        return found


def _checked(kind: str, name: str, labels: Iterable[str], *, own: bool) -> tuple[str, ...]:
    if not _is_name(name):
        raise InvalidConfig(f"the name of a metric is lower-case letters, digits and underscores, got {name!r}")
    if not own and name.startswith(_RESERVED):
        raise InvalidConfig(f"metric {name}: names that begin with {', '.join(_RESERVED)} are taken")
    if kind == "counter" and not name.endswith("_total"):
        raise InvalidConfig(f"metric {name}: the name of a counter ends in _total: {name}_total")
    if isinstance(labels, str):
        raise InvalidConfig(f"metric {name}: labels are a list of names, got {labels!r}")
    names = tuple(labels)
    for label in names:
        if not _is_name(label) or label.startswith("__"):
            raise InvalidConfig(f"metric {name}: a label is lower-case letters, digits, underscores, got {label!r}")
        if label in _RESERVED_LABELS:
            raise InvalidConfig(f"metric {name}: the label {label!r} is taken; name it otherwise")
    if len(set(names)) < len(names):
        raise InvalidConfig(f"metric {name}: a label stands twice in {list(names)}")
    return names


def _is_name(given: object) -> bool:
    return isinstance(given, str) and _NAME.fullmatch(given) is not None


def _checked_bounds(name: str, bounds: Sequence[float]) -> tuple[float, ...]:
    limits = tuple(map(float, bounds))
    if list(limits) != sorted(set(limits)) or not all(map(math.isfinite, limits)) or len(limits) > _MOST_BOUNDS:
        raise InvalidConfig(
            f"metric {name}: bounds are at most {_MOST_BOUNDS} finite numbers that ascend, got {list(bounds)}"
        )
    return limits


instruments: Final = Instruments()
"""Those of this process."""


def counter(name: str, help: str = "", labels: Iterable[str] = ()) -> Counter:
    """A number that only grows: requests, pages, tokens. Its name ends in `_total`.

    Args:
        name: lower-case letters, digits and underscores.
        help: one sentence for who reads the metrics.
        labels: names of labels; each call of `add` gives their values.

    Raises:
        InvalidConfig: a name is none, or it was declared otherwise before.
    """
    return instruments.declare(Counter, name, help, labels)


def gauge(name: str, help: str = "", labels: Iterable[str] = ()) -> Gauge:
    """A number that goes up and down: a length, a temperature. Each replica has its own, under the label `replica`.

    Args:
        name: lower-case letters, digits and underscores.
        help: one sentence for who reads the metrics.
        labels: names of labels; each call of `set` or `add` gives their values.

    Raises:
        InvalidConfig: a name is none, or it was declared otherwise before.
    """
    return instruments.declare(Gauge, name, help, labels)


def histogram(
    name: str, help: str = "", labels: Iterable[str] = (), *, bounds: Sequence[float] = LATENCY_BOUNDS_S
) -> Histogram:
    """A distribution: durations, sizes, scores.

    Args:
        name: lower-case letters, digits and underscores.
        help: one sentence for who reads the metrics.
        labels: names of labels; each call of `observe` gives their values.
        bounds: upper bounds of the buckets, ascending; without, those of durations in seconds.

    Raises:
        InvalidConfig: a name or a bound is none, or it was declared otherwise before.
    """
    return instruments.declare(Histogram, name, help, labels, bounds)
