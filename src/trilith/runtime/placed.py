"""Where a model lies that is loaded from a place of its own: a folder of this machine, or a URL. Blocks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from trilith.errors import UnknownReference
from trilith.runtime.folders import find_models
from trilith.runtime.load_run import LoadRun
from trilith.runtime.repository import PBTXT, YAML, is_version
from trilith.runtime.roots import Roots, is_remote

_MOST_NAMED: Final = 5


def place_of(url: str, cache: Path) -> Path:
    """The folder of the one model at a place: the place itself, or the one model folder in it.

    Args:
        url: the place.
        cache: where what is remote is kept.

    Raises:
        UnknownReference: there is no model, or there are several; or it cannot be reached.
        SetupError: there is no room for what must be fetched.
    """
    if is_remote(url):
        return _remote(url.rstrip("/"), cache)
    folder = Path(url)
    if not folder.is_absolute():
        raise UnknownReference(f"{url}: must be a whole path, or a URL")
    if not folder.is_dir():
        raise UnknownReference(f"{url}: there is no such folder")
    if any((folder / name).is_file() for name in (PBTXT, YAML)) or any(
        is_version(child.name) and child.is_dir() for child in folder.iterdir()
    ):
        return folder
    found = find_models([folder])
    return found[_only(url, sorted(found))][0]


def _remote(url: str, cache: Path) -> Path:
    roots = Roots([url], cache)
    names = sorted(roots.find())
    if names and all(map(is_version, names)):  # it is the model itself
        parent, _, name = url.rpartition("/")
        roots, names = Roots([parent], cache), [name]
    return roots.fetch(_only(url, names), LoadRun())[0]


def _only(url: str, names: Sequence[str]) -> str:
    if len(names) != 1:
        listed = ", ".join(names[:_MOST_NAMED]) or "none"
        raise UnknownReference(f"{url}: expected the folder of one model, or a folder with one in it; found {listed}")
    return names[0]
