"""What clients have loaded and unloaded, kept in a folder for the process that comes after this one.

Rule 1: what is kept of a model is what stands now, never what was asked for; one file a model, replaced as a whole.
Rule 2: the files that clients sent lie in the same folder, and are removed when no model needs them.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

import msgspec

from trilith.runtime.kept import Model
from trilith.runtime.naming import name_of, shown
from trilith.runtime.overrides import HOLDER_PREFIX, Override

_log: Final = logging.getLogger("trilith.runtime")
_SUFFIX: Final = ".load"


class RememberedLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What was done with one model last.

    Attributes:
        name: what the model is known by; see `naming`.
        loaded: whether it is to be loaded; else it was unloaded.
        config: what stands before its configuration, or None.
        holder: the folder of the files that were sent with it, "" when none were.
    """

    name: str
    loaded: bool
    config: str | None = None
    holder: str = ""

    def override(self, folder: Path) -> Override | None:
        """What was sent with the load; `folder` is the memory's."""
        if self.config is None:
            return None
        return Override(name_of(self.name), self.config, {}, holder=folder / self.holder if self.holder else None)


class LoadMemory:
    """The memory of one runtime.

    Args:
        folder: where it is; None to remember nothing. It is made when it is missing.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._written: dict[str, RememberedLoad] = {}
        self._start: Collection[str] | None = None
        self._lock = asyncio.Lock()

    async def read(self, start: Collection[str] | None = None) -> list[RememberedLoad]:
        """What an earlier process left. Files that nothing of it needs are removed.

        `start`: the models that a start loads by itself; that others were unloaded says nothing, and is not kept.
        """
        self._start = start
        found = await asyncio.to_thread(_read, self.folder) if self.folder is not None else []
        self._written = {entry.name: entry for entry in found}
        return found

    async def note(self, name: str, model: Model | None, *, holds: Callable[[], bool] = lambda: True) -> None:
        """Keeps what stands of a model now; what cannot be kept is logged, and forgotten with this process.

        `holds`: whether that means anything, when its turn has come.
        """
        if self.folder is None:
            return
        async with self._lock:
            if not holds():
                return
            entry = _standing(name, model)
            known = self._written.get(name)
            if entry == known or (known is None and not entry.loaded and model is None):
                return
            needed = entry.loaded or self._start is None or name in self._start
            try:
                if not needed:
                    self._written.pop(name, None)
                    await asyncio.to_thread(_path(self.folder, name).unlink, missing_ok=True)
                    return
                await asyncio.to_thread(_write, self.folder, entry)
            except OSError as error:
                _log.error("the load of model %s cannot be remembered: %s", shown(name), error)
                return
            self._written[name] = entry


def to_resume(start: Collection[str], left: Collection[RememberedLoad]) -> tuple[str, ...]:
    """The models to load at the start: those of the `start`, but for what clients did with them since."""
    unloaded = {entry.name for entry in left if not entry.loaded}
    loaded = (entry.name for entry in left if entry.loaded)
    return tuple(dict.fromkeys([*(name for name in start if name not in unloaded), *loaded]))


def _standing(name: str, model: Model | None) -> RememberedLoad:
    if model is None or not model.served:
        return RememberedLoad(name=name, loaded=False)
    override = model.override
    if override is None:
        return RememberedLoad(name=name, loaded=True)
    holder = override.holder.name if override.holder is not None else ""
    return RememberedLoad(name=name, loaded=True, config=override.config, holder=holder)


def _path(folder: Path, name: str) -> Path:
    return folder / (hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:32] + _SUFFIX)


def _write(folder: Path, entry: RememberedLoad) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = _path(folder, entry.name)
    partial = path.with_suffix(".partial")
    partial.write_bytes(msgspec.msgpack.encode(entry))
    partial.replace(path)


def _read(folder: Path) -> list[RememberedLoad]:
    found: list[RememberedLoad] = []
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        try:
            found.append(msgspec.msgpack.decode(path.read_bytes(), type=RememberedLoad))
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            _log.error("what an earlier process has loaded cannot be read from %s: %s", path, error)
    needed = {entry.holder for entry in found}
    for holder in folder.glob(f"{HOLDER_PREFIX}*"):
        if holder.name not in needed:
            shutil.rmtree(holder, ignore_errors=True)
    return found
