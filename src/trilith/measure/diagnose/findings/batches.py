"""When batches have the wrong size: what they cost by their size says what another size would give. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trilith.measure.diagnose.evidence import BatchPoint, Station
from trilith.measure.diagnose.findings.finding import MODEL_FLOOR, Change, Finding, around
from trilith.measure.diagnose.view import View
from trilith.measure.laws import fit_batch_cost
from trilith.measure.units import duration

_WORTH: Final = 1.25
_FULL: Final = 0.8
_LARGEST: Final = 64
_LEAST_RUNS: Final = 4
_FURTHEST: Final = 4
"""A fit is believed up to so many times the largest batch that was seen."""


def curve(view: View, station: Station) -> list[BatchPoint]:
    """What batches of each size took, over all levels.

    Of a size that was seen at several loads the quickest mean counts: what disturbs a batch only makes it longer.
    """
    joined: dict[float, list[BatchPoint]] = {}
    for level in view.levels:
        seen = level.station(station.kind, station.name)
        for point in seen.batches if seen is not None else ():
            joined.setdefault(round(point.size * 2) / 2, []).append(point)
    found = []
    for size, points in sorted(joined.items()):
        count = sum(point.count for point in points)
        enough = [point for point in points if 5 * point.count >= count]
        seconds = min(point.seconds for point in enough)
        found.append(BatchPoint(size=size, seconds=seconds, count=count))
    return found


def batch_too_small(view: View) -> Iterator[Finding]:
    """Batches are always full, and a batch costs far less than its size times one."""
    level = view.full
    for station in level.stations:
        points = curve(view, station)
        if not station.batch_max or station.mean_batch < _FULL * station.batch_max or station.utilisation < 0.7:
            continue
        # One that runs beside no other costs less than when all do: only what was full is compared with what was full.
        cost = fit_batch_cost((point.size, point.seconds, point.count) for point in points)
        if cost is None or len(points) < 2:
            continue
        room_for = min(_FURTHEST * station.batch_max, max(1, level.load // (2 * station.servers)))
        size, best = station.batch_max, station.batch_max
        while size < min(_LARGEST, room_for):
            size = min(2 * size, room_for, _LARGEST)
            if cost.gain(best, size) > 1.1:
                best = size
        gain = cost.gain(station.mean_batch, best)
        if gain < _WORTH:
            continue
        path = f"models.{station.name}.max_batch_size" if station.kind == "model" else _path(view, station)
        yield Finding(
            floor=MODEL_FLOOR,
            stage="batch-too-small",
            where=station.name,
            sentence=f"{station.name} runs batches of {station.batch_max} at most, and larger ones cost little more.",
            evidence=(
                f"At {level.load} in flight a batch has {station.mean_batch:.1f} of {station.batch_max}: they are"
                f" always full.",
                "A batch takes " + _shown(points) + f": {duration(cost.fixed_s)} whatever its size, and"
                f" {duration(cost.each_s)} for each.",
            ),
            weight=min(0.95, 0.2 + 1 - 1 / gain),
            sure=0.9 if min(point.count for point in points) >= _LEAST_RUNS else 0.7,
            changes=(
                Change(
                    what=f"Let batches of {station.name} have {best}.",
                    load=level.load,
                    gain=around(gain, below=0.2, above=0.15),
                    settings={path: best},
                    why=f"By the fitted cost a batch of {best} takes {duration(cost.seconds(best))}, which is"
                    f" {duration(cost.seconds(best) / best)} each instead of"
                    f" {duration(cost.seconds(station.mean_batch) / station.mean_batch)}.",
                ),
            ),
        )


def batch_too_large(view: View) -> Iterator[Finding]:
    """A smaller batch was seen to cost less an item."""
    level = view.full
    for station in level.stations:
        points = [point for point in curve(view, station) if point.count >= 2]
        if not station.batch_max or len(points) < 2 or station.utilisation < 0.7:
            continue
        best = min(points, key=lambda point: point.seconds / point.size)
        now = max(points, key=lambda point: point.size)
        mean = [point for point in station.batches if point.size > 0]
        now_s = sum(p.seconds * p.count for p in mean) / sum(p.size * p.count for p in mean) if mean else 0.0
        gain = now_s / (best.seconds / best.size)
        size = max(1, round(best.size))
        if gain < _WORTH or size >= station.mean_batch or now.size <= best.size:
            continue
        path = f"models.{station.name}.max_batch_size" if station.kind == "model" else _path(view, station)
        yield Finding(
            floor=MODEL_FLOOR,
            stage="batch-too-large",
            where=station.name,
            sentence=f"Batches of {station.name} are too large: an item of a large one costs more than of a"
            f" smaller one.",
            evidence=(
                f"At {level.load} in flight a batch has {station.mean_batch:.1f}, and takes {duration(now_s)} an item.",
                "A batch takes " + _shown(points) + f": least an item at {size}, {duration(best.seconds / best.size)}.",
            ),
            weight=min(0.95, 0.3 + 1 - 1 / gain),
            sure=0.9,
            changes=(
                Change(
                    what=f"Let batches of {station.name} have {size} at most.",
                    load=level.load,
                    gain=around(gain),
                    settings={path: size},
                    why="That size was seen, and what it cost.",
                ),
            ),
        )


def _shown(points: list[BatchPoint]) -> str:
    return ", ".join(f"{duration(point.seconds)} at {point.size:g}" for point in points)


def _path(view: View, station: Station) -> str:
    for stage in view.alone.stages:
        service, _, method = stage.name.partition(" ")[2].rpartition(".")
        if service == station.name:
            return f"{service}.{method}.max_batch"
    return f"{station.name}.max_batch"
