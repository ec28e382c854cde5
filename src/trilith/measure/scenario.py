"""A scenario file: several targets with weights, and phases of load, as YAML.

Rule 1: what a file leaves out is the command line's: a phase without a duration has `--duration`, and a file without
        phases is loaded as any other target, by levels or by a search.
Rule 2: files that it names lie beside it, and so it can be moved with them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from trilith.config import load_yaml
from trilith.errors import InvalidConfig
from trilith.measure.levels import Arrivals, LevelPlan
from trilith.measure.load.arrivals import read_recording
from trilith.measure.slo import Slo, parse_time_s
from trilith.measure.subject import SubjectSpec

_Positive = Annotated[float, msgspec.Meta(gt=0)]
_Number = Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class TargetEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One target of a scenario file; the options of `trilith bench` by the same names."""

    url: str = ""
    name: str = ""
    weight: _Positive = 1.0
    data: str | list[str | dict[str, Any] | list[Any]] = []
    method: str | None = None
    content_type: str = ""
    headers: dict[str, str] = {}
    proto: str | None = None
    model: str = ""
    model_version: str = ""
    shapes: dict[str, tuple[int, ...]] = {}
    input_data: str = "random"
    connections: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0


class PhaseEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One phase of a scenario file: `concurrency`, `rate` or `replay` says how much load."""

    name: str = ""
    concurrency: _Number | None = None
    rate: _Positive | None = None
    arrivals: Literal["poisson", "constant"] = "poisson"
    replay: str | None = None
    replay_speed: _Positive = 1.0
    in_flight: _Number = 64
    duration: str | float | None = None
    warmup: str | float = 0.0


class ScenarioFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A scenario file."""

    targets: Annotated[list[TargetEntry], msgspec.Meta(min_length=1)]
    url: str = ""
    phases: list[PhaseEntry] = []
    slo: str | None = None
    seed: int | None = None
    timeout: str | float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What a scenario file says.

    Attributes:
        specs: the targets.
        levels: the phases; none when the file has none.
        slo: the promise, or None.
        seed: None when the file does not say.
        timeout_s: seconds for a request.
    """

    specs: tuple[SubjectSpec, ...]
    levels: tuple[LevelPlan, ...]
    slo: Slo | None
    seed: int | None
    timeout_s: float


def read_scenario(path: Path, url: str, *, duration_s: float, timeout_s: float, seed: int = 0) -> Scenario:
    """Reads a scenario file.

    Args:
        path: of the file.
        url: of the server, instead of the file's own; "" for that.
        duration_s: of phases that do not say.
        timeout_s: where the file does not say.
        seed: of random data, where the file does not say.

    Raises:
        InvalidConfig: it cannot be read, or says something that is not possible.
    """
    file = load_yaml(path, ScenarioFile)
    if file.timeout is not None:
        timeout_s = _time_s(file.timeout, f"{path}: timeout")
    base = (url or file.url).rstrip("/")
    file_seed = seed if file.seed is None else file.seed
    return Scenario(
        specs=tuple(
            _spec(entry, base, path, index, timeout_s=timeout_s, seed=file_seed)
            for index, entry in enumerate(file.targets)
        ),
        levels=tuple(_level(entry, path, index, duration_s) for index, entry in enumerate(file.phases)),
        slo=None if file.slo is None else Slo.parse(file.slo, f"{path}: slo"),
        seed=file.seed,
        timeout_s=timeout_s,
    )


def _spec(entry: TargetEntry, base: str, path: Path, index: int, *, timeout_s: float, seed: int) -> SubjectSpec:
    url = entry.url if "://" in entry.url else f"{base}/{entry.url.lstrip('/')}".rstrip("/")
    if "://" not in url:
        raise InvalidConfig(
            f"{path}: targets[{index}].url {entry.url!r}: expected a whole URL, or a path and the server's URL as `url`"
            " at the top of the file or on the command line"
        )
    data = [entry.data] if isinstance(entry.data, str) else entry.data
    beside = path.parent
    return SubjectSpec(
        url=url,
        name=entry.name or url,
        weight=entry.weight,
        data=tuple(_datum(each, beside) for each in data),
        method=entry.method,
        content_type=entry.content_type,
        headers=tuple(entry.headers.items()),
        proto=None if entry.proto is None else beside / entry.proto,
        model=entry.model,
        version=entry.model_version,
        shapes=entry.shapes,
        input_data=entry.input_data if entry.input_data in ("zero", "random") else str(beside / entry.input_data),
        connections=entry.connections,
        timeout_s=timeout_s,
        seed=seed,
    )


def _datum(value: str | dict[str, Any] | list[Any], beside: Path) -> str:
    """A text of JSON as it is, a value as JSON, and anything else as the name of a file."""
    if not isinstance(value, str):
        return json.dumps(value)
    return value if value.lstrip()[:1] in ("{", "[", '"') else str(beside / value)


def _level(entry: PhaseEntry, path: Path, index: int, duration_s: float) -> LevelPlan:
    where = f"{path}: phases[{index}]"
    given = [name for name in ("concurrency", "rate", "replay") if getattr(entry, name) is not None]
    if len(given) != 1:
        raise InvalidConfig(
            f"{where}: expected one of concurrency, rate and replay, got {' and '.join(given) or 'none'}"
        )
    if entry.duration is not None:
        duration_s = _time_s(entry.duration, f"{where}.duration")
        if duration_s <= 0:
            raise InvalidConfig(f"{where}.duration must be longer than 0, got {entry.duration!r}")
    arrivals: Arrivals = "closed" if entry.concurrency else "replay" if entry.replay else entry.arrivals
    load = f"{entry.rate:g}/s" if entry.rate else "replay" if entry.replay else str(entry.concurrency)
    return LevelPlan(
        name=entry.name or load,
        concurrency=entry.concurrency or entry.in_flight,
        duration_s=duration_s,
        warmup_s=_time_s(entry.warmup, f"{where}.warmup"),
        arrivals=arrivals,
        rate_per_s=entry.rate or 0.0,
        recording=_recording(path.parent / entry.replay, f"{where}.replay") if entry.replay else (),
        speed=entry.replay_speed,
    )


def _recording(path: Path, where: str) -> tuple[float, ...]:
    try:
        return read_recording(path.read_text("utf-8", "replace"), f"{where} {path}")
    except OSError as error:
        raise InvalidConfig(f"{where} {path}: cannot be read: {error.strerror}") from error


def _time_s(value: str | float, where: str) -> float:
    seconds = parse_time_s(value) if isinstance(value, str) else float(value)
    if seconds is None or seconds < 0:
        raise InvalidConfig(f"{where} {value!r}: expected a time like 500ms, 5s or 2m")
    return seconds
