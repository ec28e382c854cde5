"""The Python source of a revision as it was when the revision began, for every replica of it.

A replica that is replaced while the files on disk have moved on would otherwise be of another revision than it says.

Rule 1: only source is kept: modules keep their `__file__`, and read models and data from where they lie.
Rule 2: what is not in the snapshot (installed packages, files of later) is imported as always.
"""

from __future__ import annotations

import os
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Final

import msgspec

from trilith.errors import SetupError

_SKIPPED: Final = frozenset(
    ("__pycache__", "node_modules", "site-packages", "venv", "env", "build", "dist", "__pypackages__")
)
_MOST_BYTES: Final = 64 << 20


def take_snapshot(folder: Path, snapshot: Path) -> None:
    """Writes the source of all Python files under `folder` to the file `snapshot`.

    Raises:
        SetupError: there is too much of it, or it cannot be read.
    """
    sources: dict[str, bytes] = {}
    total = 0
    try:
        for parent, folders, files in os.walk(folder.resolve()):
            folders[:] = [name for name in folders if name not in _SKIPPED and not name.startswith(".")]
            for name in files:
                if name.endswith(".py"):
                    path = Path(parent, name)
                    sources[str(path)] = source = path.read_bytes()
                    total += len(source)
                    if total > _MOST_BYTES:
                        raise SetupError(
                            f"--reload keeps the Python files under {folder} for each revision, and they are more than"
                            f" {_MOST_BYTES >> 20} MiB; serve from a smaller folder"
                        )
        snapshot.write_bytes(msgspec.msgpack.encode(sources))
    except OSError as error:
        raise SetupError(f"the Python files under {folder} cannot be kept for --reload: {error}") from error


def use_snapshot(snapshot: Path) -> None:
    """From now on this process imports the files of the snapshot as they were. Call it before the target is loaded."""
    sources = msgspec.msgpack.decode(snapshot.read_bytes(), type=dict[str, bytes])
    from_disk = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, fullname: str) -> CodeType | None:
        path = os.path.realpath(loader.path)
        source = sources.get(path)
        if source is None:
            return from_disk(loader, fullname)
        return compile(source, loader.path, "exec", dont_inherit=True)

    # The one place through which both ways of loading a source file go: by name, and by path as `load_target` does.
    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
