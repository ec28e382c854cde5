"""What may be turned: settings with the values that are tried, and the configurations that these make. Pure.

Rule 1: a configuration says a value for every knob, so two of them are the same when their values are.
Rule 2: distance is by rank. A person who writes [1, 2, 4, 8] means steps of equal interest; what is no number (a
    backend) is as far from one value as from any other.
Rule 3: a knob that changes what is answered says so. Nobody turns it without a check that the answers are right.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from trilith.config import path_steps
from trilith.errors import InvalidConfig

Value = bool | int | float | str | None
Configuration = tuple[Value, ...]
"""A value for each knob, in the order of the space."""

TOGETHER: Final = "+"
"""Stands between settings that get one value."""

MOST_CONFIGURATIONS: Final = 200_000

_CHANGES_OUTPUTS: Final = re.compile(
    r"models\.(?:\"[^\"]*\"|[^.\"]+)\.(?:backend|parameters|session\.(?:denormal_as_zero|optimization|providers|entries))"
    r"(?:\.|$)"
)
"""Settings by which a model may answer otherwise: another backend, or another precision of the same one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """One setting and the values that are tried.

    Attributes:
        path: as `trilith serve --set` takes it; several with ` + ` between them get one value.
        values: in their order; numbers ascend.
        current: the value without tuning; None where that is not known, or is no value at all.
        changes_outputs: whether it may change what is answered.
    """

    path: str
    values: tuple[Value, ...]
    current: Value = None
    changes_outputs: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """The settings that it turns."""
        return tuple(each.strip() for each in self.path.split(TOGETHER))

    @property
    def is_number(self) -> bool:
        """Whether its values have an order."""
        return all(isinstance(value, int | float) and not isinstance(value, bool) for value in self.values)


def knob(path: str, given: object, *, current: Value = None) -> Knob:
    """A knob of what a file says of it: a list of values, or `{values: [...], changes_outputs: true}`.

    Raises:
        InvalidConfig: the path is none, or there are no values, or one stands twice or is no plain value.
    """
    paths = [each.strip() for each in path.split(TOGETHER)]
    for each in paths:
        path_steps(each)
    changes = any(_CHANGES_OUTPUTS.match(each) for each in paths)
    if isinstance(given, Mapping):
        unknown = set(given) - {"values", "changes_outputs"}
        if unknown or "values" not in given:
            raise InvalidConfig(f"{path}: expected a list of values, or {{values: [...], changes_outputs: true}}")
        said = given.get("changes_outputs", changes)
        if not isinstance(said, bool):
            raise InvalidConfig(f"{path}: changes_outputs must be true or false, got {said!r}")
        changes, given = said or changes, given["values"]
    if not isinstance(given, list | tuple) or not given:
        raise InvalidConfig(f"{path}: expected a list of values, as [1, 2, 4], got {given!r:.100}")
    for value in given:
        if not isinstance(value, bool | int | float | str | None) or value != value:
            raise InvalidConfig(f"{path}: values must be numbers, texts, true, false or null, got {value!r:.100}")
    values = tuple(dict.fromkeys((type(value) is bool, value) for value in given))
    if len(values) != len(given):
        raise InvalidConfig(f"{path}: a value stands twice in {list(given)}")
    found = Knob(path=path, values=tuple(value for _, value in values), changes_outputs=changes)
    if current is not None and current not in found.values:
        found = replace(found, values=(*found.values, current))
    if found.is_number:
        found = replace(found, values=tuple(sorted(found.values, key=_number)))
    return replace(found, current=current)


def _number(value: Value) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


class Space:
    """All configurations of some knobs.

    Attributes:
        knobs: in order.
        size: how many configurations there are.
    """

    def __init__(self, knobs: Sequence[Knob]) -> None:
        """Takes the knobs.

        Raises:
            InvalidConfig: there is none, two have one path, or they make too many configurations.
        """
        self.knobs = tuple(knobs)
        paths = [path for each in self.knobs for path in each.paths]
        if not paths:
            raise InvalidConfig("there is nothing to tune: no setting has two values to choose from")
        twice = next((path for path in paths if paths.count(path) > 1), None)
        if twice is not None:
            raise InvalidConfig(f"{twice}: stands twice among what is tuned; leave one out")
        self.size = math.prod(len(each.values) for each in self.knobs)
        if self.size > MOST_CONFIGURATIONS:
            raise InvalidConfig(
                f"{self.size:,} configurations are too many; tune fewer settings at a time, or give them fewer values "
                f"(at most {MOST_CONFIGURATIONS:,})"
            )
        self._columns = [_column(each) for each in self.knobs]
        self._starts = list(itertools.accumulate((width for width, _ in self._columns), initial=0))

    @property
    def start(self) -> Configuration:
        """What there is without tuning, as far as that is known; for the rest the first values."""
        return tuple(each.current if each.current is not None else each.values[0] for each in self.knobs)

    @property
    def groups(self) -> tuple[range, ...]:
        """Which coordinates belong to each knob."""
        return tuple(range(begin, end) for begin, end in itertools.pairwise(self._starts))

    def __iter__(self) -> Iterator[Configuration]:
        """Every configuration, the last knob's values fastest."""
        return itertools.product(*(each.values for each in self.knobs))

    def coordinates(self, configuration: Configuration) -> list[float]:
        """Where a configuration lies: numbers from 0 to 1 by rank, a place of its own for each other value."""
        found: list[float] = []
        for (_, places), value in zip(self._columns, configuration, strict=True):
            found += places[type(value) is bool, value]
        return found

    def settings(self, configuration: Configuration) -> dict[str, Value]:
        """The values by path."""
        pairs = zip(self.knobs, configuration, strict=True)
        return {path: value for each, value in pairs for path in each.paths}

    def configuration(self, settings: Mapping[str, Any]) -> Configuration | None:
        """The configuration of these values; None where it is none of this space."""
        found = tuple(settings.get(each.paths[0]) for each in self.knobs)
        there = all(value in each.values for each, value in zip(self.knobs, found, strict=True))
        return found if there and self.settings(found) == settings else None

    def outputs_of(self, configuration: Configuration) -> Configuration:
        """The values of the knobs that may change what is answered."""
        return tuple(value for each, value in zip(self.knobs, configuration, strict=True) if each.changes_outputs)


def _column(each: Knob) -> tuple[int, dict[tuple[bool, Value], list[float]]]:
    """How many coordinates a knob has, and where its values lie."""
    count = len(each.values)
    keys = [(type(value) is bool, value) for value in each.values]
    if each.is_number or count <= 2:
        return 1, {key: [at / max(1, count - 1)] for at, key in enumerate(keys)}
    half = math.sqrt(0.5)  # any two are at a distance of 1
    return count, {key: [half if other == at else 0.0 for other in range(count)] for at, key in enumerate(keys)}
