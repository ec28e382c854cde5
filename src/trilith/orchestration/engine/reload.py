"""Which files changed, for `--reload`."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path

from trilith.service import PROTO_SUFFIXES


def source_folder(target: str) -> Path:
    """The folder whose Python files matter: that of the target's file, or of its top package, or the current one."""
    module = target.rpartition(":")[0] or target
    path = Path(module)
    if path.suffix == ".py":
        return path.resolve().parent
    package = Path.cwd() / module.partition(".")[0]
    return package if package.is_dir() else Path.cwd()


async def source_changes(folder: Path) -> AsyncIterator[list[str]]:
    """The names of the Python files, and of those that declare gRPC services, that changed, batch by batch."""
    from watchfiles import PythonFilter, awatch  # a native library; only with --reload

    logging.getLogger("watchfiles").setLevel(logging.WARNING)  # it says what the agent says with the names
    async for changes in awatch(
        folder, watch_filter=PythonFilter(extra_extensions=PROTO_SUFFIXES), step=50, debounce=200
    ):
        yield sorted({Path(path).name for _, path in changes})
