"""The models that an application's revisions need of the node: loaded once, kept while somebody needs them.

Rule: a model whose folder has not changed is not loaded again. Reloading code is no reason to reload weights.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from trilith.errors import SetupError, TrilithError, UnknownReference
from trilith.runtime import Runtime, find_model, stamp_of

_log: Final = logging.getLogger("trilith.gateway")
Fingerprint = tuple[str, tuple[tuple[str, int, int, int], ...]]


class NodeModels:
    """Loads and unloads in one runtime; one revision after the other, the models of one at the same time."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._loaded: dict[str, Fingerprint] = {}
        self._lock = asyncio.Lock()

    async def load(self, references: Iterable[str], roots: Sequence[str]) -> None:
        """Loads what is missing or has changed. What cannot be loaded is logged.

        Raises:
            UnknownReference: a model is in none of the roots. A name that resolves to nothing is a mistake, which no
                waiting mends; a file that cannot be loaded now may be there later.
        """
        folders = [Path(root) for root in roots]
        async with self._lock:
            await asyncio.gather(*(self._load_one(reference, folders) for reference in references))

    async def keep_only(self, references: Iterable[str]) -> None:
        """Unloads what no revision needs any more."""
        async with self._lock:
            for reference in set(self._loaded) - set(references):
                del self._loaded[reference]
                await self._runtime.unload(reference)

    async def _load_one(self, reference: str, roots: Sequence[Path]) -> None:
        try:
            folder, fingerprint = await asyncio.to_thread(_look, reference, roots)
            if self._loaded.get(reference) != fingerprint:
                await self._runtime.load(reference, folder)
                self._loaded[reference] = fingerprint
        except UnknownReference:
            raise
        except TrilithError as error:
            _log.debug("model '%s': %s", reference, error.message)  # the runtime has said so already
        except OSError as error:  # a file went while it was looked at, or may not be read
            _log.error("model '%s' cannot be read: %s", reference, error)


def _look(reference: str, roots: Sequence[Path]) -> tuple[Path, Fingerprint]:
    folder = find_model(reference, roots)
    return folder, _fingerprint(folder)


def _fingerprint(folder: Path) -> Fingerprint:
    try:
        return str(folder), stamp_of(folder)
    except SetupError:  # it leads to more than any model has: its load tells so
        return str(folder), ()
