"""What a search has measured, on disk, so that it goes on where it was.

Rule 1: the file is replaced whole, after each measurement. Whenever it ends, it holds what was measured until then.
Rule 2: a file of another search is refused, not continued: figures of another load mean something else.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from trilith.errors import InvalidConfig, SetupError
from trilith.measure.copies import CopyPlan
from trilith.measure.tune.measuring import Load
from trilith.measure.tune.objective import Objective, Observation
from trilith.measure.tune.space import Space


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement.

    Attributes:
        settings: of the configuration.
        observation: what it brought.
    """

    settings: dict[str, bool | int | float | str | None]
    observation: Observation


class SearchState(msgspec.Struct, frozen=True, kw_only=True):
    """A search.

    Attributes:
        search: what it is of; see `search_key`.
        target: what is tuned, for people.
        objective: in words, for people.
        entries: in order.
    """

    search: str
    target: str
    objective: str
    entries: list[Entry] = []


def search_key(copy: CopyPlan, space: Space, objective: Objective, load: Load) -> str:
    """What tells one search from another: target, settings, space, objective and load."""
    bodies = [hashlib.sha256(body.content).hexdigest() for body in load.bodies]
    knobs = [(knob.path, knob.values, knob.current) for knob in space.knobs]
    said: list[Any] = [copy.target, str(copy.folder), dict(copy.settings), copy.options, knobs]
    said += [objective, bodies, load.path, load.method, load.headers, load.concurrency, load.duration_s]
    return hashlib.sha256(msgspec.json.encode(said)).hexdigest()[:16]


def read_state(path: Path, search: str) -> SearchState | None:
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
    if state.search != search:
        raise InvalidConfig(
            f"--state {path}: holds another search ({state.target}: {state.objective}); remove it to begin anew, or "
            "name another file"
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
