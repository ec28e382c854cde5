"""When a method calls others in a row that could run side by side, as far as who is called has room. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from trilith.measure.diagnose.evidence import Level, Station
from trilith.measure.diagnose.findings.batches import curve
from trilith.measure.diagnose.findings.finding import LATENCY, PYTHON_FLOOR, Change, Finding, around, percent
from trilith.measure.diagnose.view import View, service_of
from trilith.measure.laws import fit_batch_cost
from trilith.measure.units import duration

_SERIAL: Final = 0.4
_LEAST_GAIN: Final = 1.2
_OTHERS_WAIT: Final = 0.3
_GENERATOR_FULL: Final = 0.85
_TAKES_TURNS: Final = 0.5


def serial_calls(view: View) -> Iterator[Finding]:
    """A method calls others one after the other, where each could have run beside the next."""
    level = view.alone
    if not view.root:
        return
    called, calls = _most_called(level, view.root)
    below = [stage for stage in level.stages if stage.share > 0 and service_of(stage) == called]
    share = sum(stage.share for stage in below)
    alone_s = sum(stage.per_call_s * stage.calls for stage in below)
    spent_s = sum(stage.mean_s for stage in below)
    # Calls that run side by side take more by themselves than together.
    if calls < 1.8 or share < _SERIAL or spent_s < 0.75 * alone_s:
        return
    together_s, bound = _together(view, called, calls, spent_s)
    gain = 1 / max(0.05, 1 - share * (1 - together_s / spent_s))
    if gain < _LEAST_GAIN:
        return
    yield Finding(
        floor=PYTHON_FLOOR,
        stage="serial-calls",
        where=view.root,
        sentence=f"{view.root} makes {calls:.0f} calls one after the other, and each of them could run beside the"
        f" others.",
        evidence=(
            f"One request alone spends {percent(share)} of {duration(level.latency.mean_s)} in calls of {called}.",
            f"They take {duration(alone_s)} added up and {duration(spent_s)} of its time: nothing of them overlaps.",
        ),
        weight=min(0.95, 1 - 1 / gain + 0.15),
        sure=0.85,
        changes=(
            Change(
                what="Await them together (`asyncio.gather`), if none needs another's result.",
                metric=LATENCY,
                load=level.load,
                gain=around(gain, below=0.2, above=0.1),
                why=f"{calls:.0f} calls in {duration(together_s)} together instead of {duration(spent_s)} in a row"
                + (f": {bound}." if bound else "."),
            ),
        ),
    )


def _together(view: View, called: str, calls: float, spent_s: float) -> tuple[float, str]:
    """What the calls of one request take side by side at the least, in seconds, and what bounds it ("": nothing)."""
    bounds = [(spent_s / calls, "")]
    station = view.alone.station("service", called) or view.alone.station("model", called)
    if station is not None:
        bounds += _of_places(view, station, calls, spent_s)
        bounds += _of_processors(view, station)
    if _is_full(view, called):
        # However the calls are made, so many requests a second are what it is able to answer: utilisation law.
        most = view.best.requests_per_s
        bounds.append((1 / most, f"{called} answers those of {most:,.0f} requests a second at most"))
    seconds, why = max(bounds)
    return min(seconds, spent_s), why


def _of_places(view: View, station: Station, calls: float, spent_s: float) -> Iterator[tuple[float, str]]:
    if station.batch_max:
        size = min(calls, station.batch_max)
        cost = fit_batch_cost((point.size, point.seconds, point.count) for point in curve(view, station))
        # Without batches of two sizes nothing says what a larger one costs: as much an item.
        one_s = spent_s / calls
        batch_s = one_s * size if cost is None else one_s * cost.seconds(size) / cost.seconds(1)
        yield batch_s * math.ceil(calls / size / station.servers), f"in batches of {size:.0f}"
    elif station.slots < calls:
        yield spent_s / max(1, station.slots), f"{station.name} takes {station.slots} at a time"


def _of_processors(view: View, station: Station) -> Iterator[tuple[float, str]]:
    """What they compute needs cores; what is Python needs the lock of a process as well."""
    processes = view.alone.of(station)
    if not processes or view.alone.requests_per_s <= 0 or not station.pids:
        return
    computed_s = sum(process.cpu for process in processes) / view.alone.requests_per_s
    yield computed_s / view.cores, f"they compute for {duration(computed_s)}, and there are {view.cores} cores"
    most = max(
        (view.lock_wait(level, each) or 0.0 for level in view.levels for each in _same(level, station)), default=0
    )
    if most >= _TAKES_TURNS:
        yield (
            computed_s / max(1, station.servers),
            f"they compute for {duration(computed_s)}, and hold the interpreter's lock of {station.name} meanwhile",
        )


def _same(level: Level, station: Station) -> list[Station]:
    found = level.station(station.kind, station.name)
    return [found] if found is not None else []


def _is_full(view: View, called: str) -> bool:
    """Whether it is who is called that more load finds full: not the caller, not the client."""
    level = view.full
    if not view.saturated or level.generator_cpu + level.generator_wait > _GENERATOR_FULL:
        return False
    # A caller without a free place keeps requests from itself; those that it makes in a row hold the place longer.
    before = view.share(level, ("queued", "sent"), ("sent", "started"), service=view.root, floor=3)
    caller = level.station("service", view.root)
    inside = sum(stage.share for stage in level.stages if service_of(stage) == called)
    return before < _OTHERS_WAIT and inside > before and (caller is None or caller.utilisation < 0.9)


def _most_called(level: Level, root: str) -> tuple[str, float]:
    """The service or model that a request calls most often by one method, and how often.

    Calls of different methods may need each other's results; those of one most often do not.
    """
    calls = [
        (stage.calls, service_of(stage))
        for stage in level.stages
        if stage.floor in (1, 2) and service_of(stage) != root
    ]
    most, name = max(calls, default=(0.0, ""))
    return name, most
