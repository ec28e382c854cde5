"""What a model's folder holds, told by its files.

Rule 1: a `Stamp` costs one `stat` a file. A fingerprint is of the content: touching a file changes nothing, and a file
    is read again only when its stamp has changed.
Rule 2: hidden files and what Python leaves (`__pycache__`) do not count.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from trilith.runtime.changes import Stamp

_MAX_DEPTH: Final = 16  # a link that leads back up ends here


def stamp_of(folder: Path, skip: Iterable[str] = ()) -> Stamp:
    """The files below a folder, or a file itself. Its children named by `skip` do not count; () when there is none."""
    found = []
    files = [(folder.name, str(folder))] if folder.is_file() else _files(folder, frozenset(skip))
    for relative, path in files:
        with contextlib.suppress(FileNotFoundError):  # it has just vanished
            status = os.stat(path)  # noqa: PTH116 - a path of `scandir` is text
            found.append((relative, status.st_size, status.st_mtime_ns, status.st_ino))
    return tuple(sorted(found))


class Fingerprints:
    """Fingerprints of folders; remembers the digests of files, so that only what has changed is read."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int, int], str]] = {}

    def of(self, folders: Iterable[Path]) -> str:
        """One fingerprint of the content of all folders together, in hexadecimal.

        A file that vanishes meanwhile, or cannot be read, counts as what it is then: it changes the fingerprint when it
        is there again.
        """
        whole = hashlib.sha256()
        for folder in folders:
            whole.update(os.fsencode(f"{folder}\n"))
            for relative, path in sorted(_files(folder, frozenset())):
                whole.update(os.fsencode(f"{relative}\0{self._digest(path)}\n"))
        return whole.hexdigest()

    def _digest(self, path: str) -> str:
        try:
            status = os.stat(path)  # noqa: PTH116 - as above
            key = (status.st_size, status.st_mtime_ns, status.st_ino)
            known = self._known.get(path)
            if known is not None and known[0] == key:
                return known[1]
            with open(path, "rb") as file:  # noqa: PTH123 - a path of `scandir` is text
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            return f"unreadable: {error.strerror}"
        self._known[path] = (key, digest)
        return digest


def _files(folder: Path, skip: frozenset[str]) -> Iterator[tuple[str, str]]:
    pending = [(str(folder), "", 0)]
    while pending:
        path, prefix, depth = pending.pop()
        try:
            entries = list(os.scandir(path))
        except OSError:
            continue  # it has vanished, or is no folder: then it holds no files
        for entry in entries:
            if entry.name.startswith(".") or entry.name == "__pycache__" or (not prefix and entry.name in skip):
                continue
            if entry.is_dir():
                if depth < _MAX_DEPTH:
                    pending.append((entry.path, f"{prefix}{entry.name}/", depth + 1))
            elif entry.is_file():
                yield f"{prefix}{entry.name}", entry.path
