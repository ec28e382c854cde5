"""What Python models count for themselves (`pb_utils.MetricFamily`), added up over instances, versions and models.

Rule 1: as in Triton one name is one family of the server, and the same labels are one series, whoever counts.
Rule 2: what does not fit (a name that is taken by another kind, or is none, or too many series) is left out and logged
    once: a model's metrics never stop its answers.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterable
from typing import Final, cast

from trilith.core.foreign import shortened
from trilith.runtime.backends.python.messages import Counted, Declared
from trilith.telemetry import Snapshot
from trilith.telemetry.families import Buckets, Distribution, Kind, Number

_log: Final = logging.getLogger("trilith.runtime")
_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z")
_LABEL: Final = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*\Z")
_OWN: Final = ("trilith_", "nv_", "python_", "process_")
_MAX_FAMILIES: Final = 1000
_MAX_SERIES: Final = 1000

_Labels = tuple[tuple[str, str], ...]


class _Family:
    def __init__(self, kind: Kind, help: str) -> None:
        self.kind = kind
        self.help = help
        self.series: dict[_Labels, Number | Distribution] = {}


class CountedByModels:
    """The families of all models of a runtime. Any thread may call it."""

    def __init__(self) -> None:
        self._families: dict[str, _Family] = {}
        self._lock = threading.Lock()
        self._refused: set[str] = set()

    def declare(self, model: str, declared: Declared) -> None:
        """Adds a family; the same name and kind again is the same family."""
        name = declared.name
        if not _NAME.match(name) or name.startswith(_OWN) or declared.kind not in ("counter", "gauge", "histogram"):
            self._refuse(model, name, f"it is no name for a {declared.kind:.20} of a model's own")
            return
        with self._lock:
            known = self._families.get(name)
            if known is None and len(self._families) < _MAX_FAMILIES:
                self._families[name] = _Family(cast(Kind, declared.kind), " ".join(declared.help.split()))
                return
        if known is None:
            self._refuse(model, name, f"there are {_MAX_FAMILIES} families already")
        elif known.kind != declared.kind:
            self._refuse(model, name, f"it is a {known.kind} already, and {declared.kind} was asked for")

    def count(self, model: str, counted: Counted) -> None:
        """Changes a series."""
        if not all(map(_LABEL.match, counted.labels)):
            self._refuse(model, counted.name, f"{sorted(counted.labels)} are no names of labels")
            return
        with self._lock:
            family = self._families.get(counted.name)
            if family is None:
                return
            labels = tuple(sorted(counted.labels.items()))
            series = family.series.get(labels)
            if series is None and len(family.series) < _MAX_SERIES:
                series = Distribution(tuple(counted.buckets)) if family.kind == "histogram" else Number()
                family.series[labels] = series
            if isinstance(series, Number) and family.kind != "histogram":
                if counted.change == "add":
                    series.add(counted.value)
                elif counted.change == "set":
                    series.value = counted.value
            elif isinstance(series, Distribution) and counted.change == "observe":
                series.observe(counted.value)
        if series is None:
            self._refuse(model, counted.name, f"it has {_MAX_SERIES} series already")

    def snapshots(self) -> list[Snapshot]:
        """Every family now."""
        with self._lock:
            return [_snapshot(name, family) for name, family in sorted(self._families.items())]

    def _refuse(self, model: str, name: str, why: str) -> None:
        if name not in self._refused and len(self._refused) < _MAX_FAMILIES:
            self._refused.add(name)
            _log.warning("model '%s': its metric %r is left out: %s", model, name, shortened(why, 1000))


def _snapshot(name: str, family: _Family) -> Snapshot:
    names = sorted({key for labels in family.series for key, _ in labels})
    return Snapshot(
        name=name,
        kind=family.kind,
        help=family.help,
        label_names=tuple(names),
        samples=[(_values(names, labels), _value(series)) for labels, series in sorted(family.series.items())],
    )


def _values(names: Iterable[str], labels: _Labels) -> tuple[str, ...]:
    given = dict(labels)
    return tuple(given.get(name, "") for name in names)


def _value(series: Number | Distribution) -> float | Buckets:
    return series.value if isinstance(series, Number) else series.buckets()
