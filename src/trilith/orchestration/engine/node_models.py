"""The models that an application's revisions need of the node: loaded once, kept while somebody needs them.

Rule: a model whose folder has not changed is not loaded again. Reloading code is no reason to reload weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from trilith.errors import TrilithError
from trilith.runtime import Runtime, find_model

Fingerprint = tuple[str, tuple[tuple[str, int, int], ...]]


class NodeModels:
    """Loads and unloads in one runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._loaded: dict[str, Fingerprint] = {}

    async def load(self, references: Iterable[str], roots: Sequence[str]) -> list[str]:
        """Loads what is missing or has changed; why each one that failed did."""
        failures = []
        for reference in references:
            try:
                folder = find_model(reference, [Path(root) for root in roots])
                fingerprint = _fingerprint(folder)
                if self._loaded.get(reference) != fingerprint:
                    await self._runtime.load(reference, folder)
                    self._loaded[reference] = fingerprint
            except TrilithError as error:
                failures.append(error.message)
        return failures

    async def keep_only(self, references: Iterable[str]) -> None:
        """Unloads what no revision needs any more."""
        for reference in set(self._loaded) - set(references):
            del self._loaded[reference]
            await self._runtime.unload(reference)


def _fingerprint(folder: Path) -> Fingerprint:
    files = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found = path.stat()
            files.append((str(path.relative_to(folder)), found.st_mtime_ns, found.st_size))
    return str(folder), tuple(files)
