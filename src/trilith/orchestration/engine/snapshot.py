"""The Python source of a revision as it was when the revision began, for every replica of it.

A replica that is replaced while the files on disk have moved on would otherwise be of another revision than it says,
or could not start, since they are gone.

Rule 1: only source is kept, Python's and that of gRPC services: modules keep their `__file__`, and read models and
data from where they lie.
Rule 2: what is not in the snapshot (installed packages, files of later) is imported as always.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Container, Iterable
from importlib.machinery import ExtensionFileLoader, ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

import msgspec

from trilith.errors import SetupError
from trilith.service import PROTO_SUFFIXES, keep_proto_files

_SKIPPED: Final = frozenset(
    ("__pycache__", "node_modules", "site-packages", "venv", "env", "build", "dist", "__pypackages__")
)
_KEPT: Final = (".py", *PROTO_SUFFIXES)
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
                if name.endswith(_KEPT):
                    path = Path(parent, name)
                    try:
                        source = path.read_bytes()
                    except FileNotFoundError:  # it went meanwhile, or is a link to nothing, as editors use for locks
                        continue
                    sources[str(path)] = source
                    total += len(source)
                    if total > _MOST_BYTES:
                        raise SetupError(
                            f"--reload keeps the Python files under {folder} for each revision, and they are more than"
                            f" {_MOST_BYTES >> 20} MiB; serve from a smaller folder"
                        )
        snapshot.write_bytes(msgspec.msgpack.encode(sources))
    except OSError as error:
        raise SetupError(f"the Python files under {folder} cannot be kept for --reload: {error}") from error


def use_snapshot(snapshot: Path) -> Callable[[Path], bool]:
    """From now on this process imports the files of the snapshot as they were. Call it before the target is loaded.

    Returns:
        Whether a path is that of a file: one of the snapshot, or one that is there now.
    """
    sources = msgspec.msgpack.decode(snapshot.read_bytes(), type=dict[str, bytes])
    keep_proto_files({path: content for path, content in sources.items() if not path.endswith(".py")})
    from_disk = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, fullname: str) -> CodeType | None:
        source = sources.get(os.path.realpath(loader.path))
        if source is None:
            return from_disk(loader, fullname)
        return compile(source, loader.path, "exec", dont_inherit=True)

    # The one place through which both ways of loading a source file go: by name, and by path as `load_target` does.
    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
    folders = {str(folder) for path in sources for folder in Path(path).parents}
    finders = list(sys.path_hooks)

    def hook(entry: str) -> _KeptFinder:
        if os.path.realpath(entry) not in folders:
            raise ImportError(f"{entry} has no file of the snapshot")
        return _KeptFinder(entry, sources, folders, _finder_of(entry, finders))

    sys.path_hooks.insert(0, hook)
    sys.path_importer_cache.clear()
    return lambda path: os.path.realpath(path) in sources or path.is_file()


class _KeptFinder:
    """Finds modules of one folder on Python's path: those of the snapshot first, whether or not they are still there.

    Beside them, what the folder has now.
    """

    def __init__(self, folder: str, sources: Container[str], folders: Container[str], now: Any) -> None:
        self._folder, self._sources, self._folders, self._now = folder, sources, folders, now

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        """Where the module comes from, or None: it is not of this folder."""
        place = f"{self._folder}/{fullname.rpartition('.')[2]}"
        found: ModuleSpec | None = None if self._now is None else self._now.find_spec(fullname, target)
        if found is not None and isinstance(found.loader, ExtensionFileLoader):
            return found
        for path, inside in ((f"{place}/__init__.py", [place]), (f"{place}.py", None)):
            if os.path.realpath(path) in self._sources:
                return spec_from_file_location(fullname, path, submodule_search_locations=inside)
        if found is None and os.path.realpath(place) in self._folders:
            found = ModuleSpec(fullname, None, is_package=True)
            found.submodule_search_locations = [place]
        return found

    def invalidate_caches(self) -> None:
        """As every finder: what the folder has now is looked for anew."""
        if self._now is not None:
            self._now.invalidate_caches()


def _finder_of(entry: str, hooks: Iterable[Callable[[str], Any]]) -> Any:
    """Python's own finder for an entry of its path; None when there is no such folder."""
    for hook in hooks:
        with contextlib.suppress(ImportError):  # the hook is for other entries
            return hook(entry)
    return None
