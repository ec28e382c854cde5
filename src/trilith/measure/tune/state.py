"""What a search has measured, on disk, so that it goes on where it was.

Rule 1: the file is replaced whole, after each measurement. Whenever it ends, it holds what was measured until then.
Rule 2: a file of another search is refused, not continued, with what differs: figures of another load, of code that was
        edited since, of a weaker check or of another machine mean something else.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec

from trilith.errors import InvalidConfig, SetupError
from trilith.measure.conditions import read_conditions
from trilith.measure.copies import CopyPlan
from trilith.measure.tune.measuring import Check, CommandCheck, Load
from trilith.measure.tune.objective import Objective, Observation
from trilith.measure.tune.space import Space

_PASSING: Final = ("at", "load_average_1min")  # what says when, not where


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement.

    Attributes:
        settings: of the configuration.
        part: of the search that it belongs to; see `Proposal`.
        observation: what it brought.
    """

    settings: dict[str, bool | int | float | str | None]
    part: str
    observation: Observation


class SearchState(msgspec.Struct, frozen=True, kw_only=True):
    """A search.

    Attributes:
        search: what it is of, as digests; see `search_key`.
        target: what is tuned, for people.
        objective: in words, for people.
        entries: in order.
    """

    search: dict[str, str]
    target: str
    objective: str
    entries: list[Entry] = []


def search_key(
    copy: CopyPlan,
    space: Space,
    objective: Objective,
    load: Load,
    *,
    check: Check | None = None,
    files: Iterable[Path] = (),
) -> dict[str, str]:
    """What tells one search from another: a digest of each of its parts, by what people call it.

    Args:
        copy: how a copy is started.
        space: what is searched.
        objective: what is wanted.
        load: what copies get.
        check: of the answers; a command counts with the files that it names.
        files: of the target: files, and folders with all that is in them.

    Raises:
        SetupError: a file cannot be read.
    """
    bodies = [hashlib.sha256(body.content).hexdigest() for body in load.bodies]
    knobs = [(knob.path, knob.values, knob.current, knob.changes_outputs) for knob in space.knobs]
    times = load.duration_s, load.warmup_s, load.timeout_s
    folder = copy.folder or Path()
    parts: dict[str, Any] = {
        "the target": [copy.target, str(folder.resolve()), dict(copy.settings), copy.options],
        "the target's files": content_digest(files),
        "the space": knobs,
        "the objective": objective,
        "the load": [bodies, load.makes_body, load.path, load.method, load.headers, load.concurrency, times],
        "the check": _check_key(check),
        "the machine": {key: value for key, value in read_conditions().items() if key not in _PASSING},
    }
    return {name: hashlib.sha256(msgspec.json.encode(part)).hexdigest()[:16] for name, part in parts.items()}


def content_digest(files: Iterable[Path]) -> str:
    """A digest of the content of files, and of all files in folders, with their paths.

    What is hidden and what Python compiled is left out.

    Raises:
        SetupError: one cannot be read.
    """
    found = hashlib.sha256()
    try:
        for place in sorted(set(files)):
            for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
                inner = file.relative_to(place).parts
                if (place.is_dir() and not file.is_file()) or any(
                    part.startswith(".") or part == "__pycache__" for part in inner
                ):
                    continue
                with file.open("rb") as content:
                    digest = hashlib.file_digest(content, "sha256").hexdigest()
                found.update(f"{file}\0{digest}\n".encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise SetupError(f"{error.filename}: cannot be read: {error.strerror}") from error
    return found.hexdigest()


def _check_key(check: Check | None) -> list[Any]:
    if check is None:
        return []
    if not isinstance(check, CommandCheck):
        return [getattr(check, "__module__", ""), getattr(check, "__qualname__", type(check).__qualname__)]
    try:
        words = shlex.split(check.command)
    except ValueError:  # an open quote is the shell's to complain about
        words = check.command.split()
    return [check.command, content_digest(Path(word) for word in words if Path(word).is_file())]


def read_state(path: Path, search: dict[str, str]) -> SearchState | None:
    """The search that a file holds; None when there is no file.

    Raises:
        InvalidConfig: it is of another search, or no search at all.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidConfig(f"--state {path}: cannot be read: {error.strerror}") from error
    try:
        state = msgspec.json.decode(content, type=SearchState)
    except msgspec.MsgspecError as error:
        raise InvalidConfig(f"--state {path}: is no state of a search: {error}") from error
    differs = [name for name in sorted({*search, *state.search}) if search.get(name) != state.search.get(name)]
    if differs:
        raise InvalidConfig(
            f"--state {path}: holds another search ({state.target}: {state.objective}); remove it to begin anew, or "
            f"name another file. What is not the same: {', '.join(differs)}"
        )
    return state


def write_state(path: Path, state: SearchState) -> None:
    """Replaces the file.

    Raises:
        SetupError: it cannot be written.
    """
    temporary = ""
    try:
        number, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        with os.fdopen(number, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(state), indent=1))
        Path(temporary).replace(path)
    except OSError as error:
        if temporary:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
        raise SetupError(f"--state {path}: cannot be written: {error.strerror}") from error
