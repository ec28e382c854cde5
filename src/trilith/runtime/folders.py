"""Which folders of a repository are models.

Rule: what lies in one model's folder is an error of that model alone: looking for models never raises for one.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from trilith.errors import UnknownReference

_log: Final = logging.getLogger("trilith.runtime")
_OF_SYSTEMS: Final = frozenset(("lost+found", "$RECYCLE.BIN", "System Volume Information", "@eaDir"))


def find_models(
    roots: Sequence[Path], left_out: Callable[[Path, str], None] = lambda folder, why: None
) -> dict[str, list[Path]]:
    """The model folders under the repositories, by name. A name that stands in two of them has two folders.

    Args:
        roots: the repositories.
        left_out: told of what looks like a model's folder and is none, and why.

    Raises:
        UnknownReference: a repository is no folder, or cannot be listed.
    """
    found: dict[str, list[Path]] = {}
    for root in roots:
        try:
            if not root.is_dir():
                raise UnknownReference(f"the model repository {root} is not a folder")
            children = sorted(root.iterdir())
        except OSError as error:
            raise UnknownReference(f"the model repository {root} cannot be listed: {error.strerror}") from error
        for folder in children:
            if folder.name in _OF_SYSTEMS:
                _log.debug("%s is the system's own and no model", folder)
            elif _may_be_a_model(folder.name):
                if is_folder(folder):
                    found.setdefault(folder.name, []).append(folder)
                elif folder.is_symlink() and not folder.exists():
                    left_out(folder, "it is a link that leads to nothing")
            elif not _is_text(folder.name) and is_folder(folder):
                left_out(folder, "its name is no UTF-8, so no client could ask for it; rename it")
    return found


def find_model_folders(name: str, roots: Sequence[Path]) -> list[Path]:
    """What `find_models` finds for one name, without looking at the others."""
    if not name or name != Path(name).name or not _may_be_a_model(name):
        return []
    return [root / name for root in roots if is_folder(root / name)]


def is_folder(path: Path) -> bool:
    """Whether it is a folder, or may be one: where that cannot be told, loading it tells why."""
    try:
        return path.is_dir()
    except OSError as error:
        return error.errno != errno.ENAMETOOLONG


def _may_be_a_model(name: str) -> bool:
    # A name that is no text could not be asked for, nor told to anybody.
    return name not in _OF_SYSTEMS and not name.startswith((".", "__")) and _is_text(name)


def _is_text(name: str) -> bool:
    return name.encode(errors="replace").decode() == name
