"""Backends that are a folder with a `model.py`, which serves every model that names it; Triton's Python-based backends.

    FOLDER/NAME/model.py      `backend: "NAME"`
    FOLDER/NAME/other.py      `backend: "NAME" runtime: "other.py"`

Rule 1: the folder is looked at when a model is loaded: a backend may come, or change, while the server runs.
Rule 2: a backend that comes with Trilith keeps its name. Where a configuration says `runtime`, the folder's is meant.
Rule 3: no name leads out of the folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from trilith.runtime.backends.port import BackendKind

SCRIPT: Final = "model.py"
_PYTHON: Final = ".py"


def kind_name(backend: str, runtime: str) -> str:
    """The name under which a registry has the backend of a configuration that says these two."""
    return f"{backend}/{runtime}" if runtime.endswith(_PYTHON) else backend


class BackendsOfFolder(Mapping[str, BackendKind]):
    """Backends by name, and by `NAME/RUNTIME.py`: those that are given, then those of a folder.

    Args:
        given: by name.
        folder: where the others lie; None for none.
        make: makes one of its script.
    """

    def __init__(
        self, given: Mapping[str, BackendKind], folder: Path | None, make: Callable[[Path], BackendKind]
    ) -> None:
        self._given = given
        self._folder = folder
        self._make = make

    def __getitem__(self, name: str) -> BackendKind:
        found = self._given.get(name)
        if found is not None:
            return found
        backend, _, runtime = name.partition("/")
        script = self._script(backend, runtime or SCRIPT)
        if script is None:
            raise KeyError(name)
        return self._make(script)

    def __iter__(self) -> Iterator[str]:
        yield from self._given
        try:
            names = sorted(child.name for child in self._folder.iterdir()) if self._folder is not None else []
        except OSError:  # it has gone: so have its backends, and each model that names one is told that there is none
            return
        yield from (name for name in names if name not in self._given and self._script(name, SCRIPT) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _script(self, backend: str, runtime: str) -> Path | None:
        parts = (backend, runtime)
        if self._folder is None or any(part in ("", ".", "..") or "/" in part or "\0" in part for part in parts):
            return None
        path = self._folder / backend / runtime
        try:
            return path if path.is_file() else None
        except OSError:  # a name that is too long, a folder that may not be entered
            return None
