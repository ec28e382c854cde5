"""The options of `trilith bench` as values: each error names its option."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cyclopts import Parameter

from trilith.errors import InvalidConfig

if TYPE_CHECKING:
    from trilith.measure import BenchPlan, Body, SubjectSpec, Target


def _file_or_dash(_: object, value: Path | None) -> None:
    if value is not None and str(value).startswith("-") and str(value) != "-":
        raise ValueError(f"expected a file, or - for standard output; got {value}")


OR_DASH: Final = Parameter(allow_leading_hyphen=True, validator=_file_or_dash)
"""How an option is declared that takes a file, or - for standard output."""


def parse_duration_s(option: str, text: str) -> float:
    """Reads `500ms`, `5s`, `2m`, `1h` or a number of seconds.

    Raises:
        InvalidConfig: it is none of them.
    """
    from trilith.measure import parse_time_s

    seconds = parse_time_s(text)
    if seconds is None:
        raise InvalidConfig(f"{option} {text!r}: expected a time like 500ms, 5s or 2m")
    return seconds


def positive_s(option: str, text: str) -> float:
    """The same for what cannot be 0.

    Raises:
        InvalidConfig: it is none, or 0.
    """
    seconds = parse_duration_s(option, text)
    if seconds <= 0:
        raise InvalidConfig(f"{option} must be longer than 0, got {text!r}")
    return seconds


def parse_rates(text: str) -> tuple[float, ...]:
    """Reads `50,100,200.5`, requests a second.

    Raises:
        InvalidConfig: it is not a list of numbers above 0, up to 1,000,000.
    """
    rates = []
    for part in text.split(","):
        try:
            rate = float(part)
        except ValueError:
            rate = 0.0
        if not 0 < rate <= 1e6:
            raise InvalidConfig(f"--rate {text!r}: expected requests a second, above 0 and up to 1000000, like 50,100")
        rates.append(rate)
    return tuple(rates)


def read_replay(path: Path) -> tuple[float, ...]:
    """The instants, in seconds, of a recording.

    Raises:
        InvalidConfig: the file cannot be read, or is no recording.
    """
    from trilith.measure import read_recording

    try:
        text = path.read_text("utf-8", "replace")
    except OSError as error:
        raise InvalidConfig(f"--replay {path}: cannot be read: {error.strerror}") from error
    return read_recording(text, f"--replay {path}")


def parse_concurrency(text: str) -> tuple[int, ...]:
    """Reads `1,8,32`.

    Raises:
        InvalidConfig: it is not a list of whole numbers from 1 to 10,000.
    """
    levels = [part.strip() for part in text.split(",")]
    if not all(level.isdecimal() and 1 <= int(level) <= 10_000 for level in levels):
        raise InvalidConfig(f"--concurrency {text!r}: expected whole numbers from 1 to 10000, like 1,8,32")
    return tuple(int(level) for level in levels)


def given_bodies(
    target: Target, data: tuple[str, ...], content_type: str | None, method: str | None
) -> tuple[tuple[Body, ...], tuple[str, ...]]:
    """The bodies to send and what the report calls them."""
    from trilith.measure import example_body, made_name, read_bodies

    if not data and method in (None, "POST"):
        example = example_body(target)
        if example is not None:
            return (example,), (made_name(example),)
    return read_bodies(data, content_type or "")


def parse_headers(header: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Reads `NAME:VALUE` lines.

    Raises:
        InvalidConfig: one is none.
    """
    pairs = []
    for line in header:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise InvalidConfig(f"--header {line!r}: expected NAME:VALUE")
        pairs.append((name.strip(), value.strip()))
    return tuple(pairs)


def existing(pid: int | None) -> int | None:
    """The process id, if there is such a process.

    Raises:
        InvalidConfig: there is none.
    """
    from trilith.measure import process_tree

    if pid is not None and not process_tree(pid):
        raise InvalidConfig(f"--pid {pid}: there is no such process on this machine")
    return pid


def of_scenario(path: Path, spec: SubjectSpec, levels: BenchPlan) -> tuple[tuple[SubjectSpec, ...], BenchPlan]:
    """The targets and levels of a scenario file; what it leaves out is the command line's.

    Raises:
        InvalidConfig: the file is wrong, or an option says what the file says.
    """
    from trilith.measure import read_scenario

    if spec.data or spec.model or spec.proto or spec.headers or spec.method:
        raise InvalidConfig(
            "--scenario: its targets say what is sent; --data, --model, --proto, --header, --method are theirs"
        )
    read = read_scenario(path, spec.url, duration_s=levels.duration_s, timeout_s=spec.timeout_s, seed=levels.seed)
    if read.levels and (levels.rates_per_s or levels.recording or levels.search):
        raise InvalidConfig(f"--scenario {path}: its phases say how much load; without --rate, --replay and --search")
    levels = replace(
        levels,
        levels=read.levels,
        slo=levels.slo or read.slo,
        seed=levels.seed if read.seed is None else read.seed,
        timeout_s=read.timeout_s,
    )
    return read.specs, levels
