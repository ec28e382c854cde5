"""What a process says of its program's metrics: what has changed since it said so last."""

from __future__ import annotations

import msgspec

from trilith.telemetry.families import Kind


class SeriesDelta(msgspec.Struct, array_like=True, frozen=True):
    """One series.

    Attributes:
        labels: the values of its labels.
        value: what a counter has grown by; what a gauge is; what the observations of a histogram add up to.
        counts: of a histogram: how many observations each bucket has got, the one beyond the last bound included.
    """

    labels: tuple[str, ...]
    value: float
    counts: tuple[int, ...] = ()


class FamilyDelta(msgspec.Struct, frozen=True, kw_only=True):
    """The series of one name that have changed, and how the name is declared."""

    name: str
    kind: Kind
    help: str
    label_names: tuple[str, ...]
    bounds: tuple[float, ...]
    series: list[SeriesDelta]
