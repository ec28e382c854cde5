"""Which files changed, for `--reload`."""

from __future__ import annotations

import fnmatch
import logging
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

from trilith.service import PROTO_SUFFIXES

_SUFFIXES: Final = (".py", ".pyx", ".pyd", *PROTO_SUFFIXES)


def source_folder(target: str) -> Path:
    """The folder whose Python files matter: that of the target's file, or of its top package, or the current one."""
    module = target.rpartition(":")[0] or target
    path = Path(module)
    if path.suffix == ".py":
        return path.resolve().parent
    package = Path.cwd() / module.partition(".")[0]
    return package if package.is_dir() else Path.cwd()


def is_source(name: str, include: Sequence[str]) -> bool:
    """Whether a file is one whose change matters: of Python, of those that declare gRPC services, or asked for.

    Args:
        name: of the file.
        include: patterns of names, as a shell has them.
    """
    return name.endswith(_SUFFIXES) or any(fnmatch.fnmatchcase(name, pattern) for pattern in include)


async def source_changes(folder: Path, include: Sequence[str]) -> AsyncIterator[list[str]]:
    """The names of the sources (`is_source`) that changed, batch by batch."""
    from watchfiles import Change, DefaultFilter, awatch  # a native library; only with --reload

    usual = DefaultFilter()  # without `.git`, `__pycache__` and their like

    def matters(change: Change, path: str) -> bool:
        return usual(change, path) and is_source(Path(path).name, include)

    logging.getLogger("watchfiles").setLevel(logging.WARNING)  # it says what the agent says with the names
    async for changes in awatch(folder, watch_filter=matters, step=50, debounce=200):
        yield sorted({Path(path).name for _, path in changes})
