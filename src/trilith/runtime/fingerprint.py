"""What a model's folder holds, told by its files.

Rule 1: a `Stamp` costs one `stat` a file. A fingerprint is of the content: touching a file changes nothing, and a file
    is read again only when its stamp has changed.
Rule 2: hidden files and what Python leaves (`__pycache__`) do not count.
Rule 3: whatever lies in a folder, looking at it ends, and takes no memory without bound: links in circles, links to the
    root of the file system, folders that may not be read, pipes and devices.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from trilith.errors import SetupError
from trilith.runtime.changes import Stamp

MOST_ENTRIES: Final = 100_000
"""Files and folders that one model's folder may hold, hidden ones too."""
_MAX_DEPTH: Final = 16
_LOOK_AGAIN_S: Final = 60.0
_CHUNK_BYTES: Final = 1 << 20
_MAY_BE_HOLLOW_BYTES: Final = 1 << 30


class Boundless(SetupError):
    """A model's folder leads to more than any model would have."""


def stamp_of(folder: Path, skip: Iterable[str] = ()) -> Stamp:
    """The files below a folder, or a file itself. Its children named by `skip` do not count; () when there is none.

    Raises:
        Boundless: there are more than `MOST_ENTRIES`, or a link leads to where the operating system shows itself.
    """
    found = []
    files = [(folder.name, str(folder))] if folder.is_file() else _files(folder, frozenset(skip))
    for relative, path in files:
        try:
            status = os.stat(path)  # noqa: PTH116 - a path of `scandir` is text
        except OSError:
            continue  # it has just vanished
        if stat.S_ISREG(status.st_mode):
            found.append((relative, status.st_size, status.st_mtime_ns, status.st_ino))
    return tuple(sorted(found))


class Fingerprints:
    """Fingerprints of folders; remembers the digests of files, so that only what has changed is read."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int, int], str]] = {}
        self._boundless: dict[Path, tuple[tuple[int, int, int], float, str]] = {}  # identity, when looked at, why

    def of(self, folders: Iterable[Path]) -> str:
        """One fingerprint of the content of all folders together, in hexadecimal.

        A file that vanishes meanwhile, or cannot be read, counts as what it is then: it changes the fingerprint when it
        is there again. A folder with more than any model has is not read: it counts as that.
        """
        whole = hashlib.sha256()
        for folder in folders:
            whole.update(os.fsencode(f"{folder}\n"))
            try:
                files = self._sorted(folder)
            except Boundless as error:
                whole.update(os.fsencode(error.message))
                continue
            for relative, path in files:
                whole.update(os.fsencode(f"{relative}\0{self._digest(path)}\n"))
        return whole.hexdigest()

    def _sorted(self, folder: Path) -> list[tuple[str, str]]:
        """The files below it. One that leads to too many is not looked at again soon, unless it is another folder."""
        now, identity = time.monotonic(), _identity(folder)
        before, looked_at, why = self._boundless.pop(folder, ((), 0.0, ""))
        if before == identity and now - looked_at < _LOOK_AGAIN_S:
            self._boundless[folder] = (identity, looked_at, why)
            raise Boundless(why)
        try:
            return sorted(_files(folder, frozenset()))
        except Boundless as error:
            self._boundless[folder] = (identity, now, error.message)
            raise

    def _digest(self, path: str) -> str:
        try:
            status = os.stat(path)  # noqa: PTH116 - as above
            key = (status.st_size, status.st_mtime_ns, status.st_ino)
            known = self._known.get(path)
            if known is not None and known[0] == key:
                return known[1]
            if not stat.S_ISREG(status.st_mode):
                return f"no file: {stat.S_IFMT(status.st_mode)}"
            digest = f"hollow: {key}" if _hollow(status) else _digest_of(path, status.st_size)
        except OSError as error:
            return f"unreadable: {error.strerror}"
        self._known[path] = (key, digest)
        return digest


def _hollow(status: os.stat_result) -> bool:
    """Whether nearly nothing of a large file is on a disk (`/proc/kcore`): reading it would not end."""
    return status.st_size > _MAY_BE_HOLLOW_BYTES and status.st_blocks * 512 < status.st_size // 1024


def _digest_of(path: str, size_bytes: int) -> str:
    """Of as much as the file says it holds: files of the system's own, which are longer, may have no end."""
    digest, left = hashlib.sha256(), size_bytes
    with open(path, "rb") as file:  # noqa: PTH123 - a path of `scandir` is text
        while left > 0 and (chunk := file.read(min(left, _CHUNK_BYTES))):
            digest.update(chunk)
            left -= len(chunk)
    return digest.hexdigest()


def _files(folder: Path, skip: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Everything below a folder that is no folder, what cannot be looked at too: by its path there, and its path.

    Raises:
        Boundless: there is more than any model has.
    """
    seen, device = 0, _identity(folder.parent)[0]
    pending: list[tuple[str, str, tuple[tuple[int, int], ...]]] = [(str(folder), "", ())]
    while pending:
        path, prefix, above = pending.pop()
        try:
            status = os.stat(path)  # noqa: PTH116 - as above
            identity = (status.st_dev, status.st_ino)
            if identity in above:
                continue  # a link that leads back up
            if status.st_dev != (above[-1][0] if above else device) and not os.statvfs(path).f_blocks:
                raise Boundless(
                    f"the model folder {folder} leads to {path}, where no files of a disk are (as in /proc); expected "
                    "the files of one model"
                )
            with os.scandir(path) as entries:
                for entry in entries:
                    seen += 1
                    if seen > MOST_ENTRIES:
                        raise Boundless(
                            f"the model folder {folder} holds more than {MOST_ENTRIES} files and folders, links "
                            "followed; expected the files of one model. Does a link lead out of it?"
                        )
                    if entry.name.startswith(".") or entry.name == "__pycache__" or (not prefix and entry.name in skip):
                        continue
                    if not _is_folder(entry):
                        yield f"{prefix}{entry.name}", entry.path
                    elif len(above) < _MAX_DEPTH:
                        pending.append((entry.path, f"{prefix}{entry.name}/", (*above, identity)))
        except OSError as error:
            if prefix:  # it may not be read: that this changes is a change
                yield f"{prefix} cannot be listed: {error.strerror}", path


def _identity(folder: Path) -> tuple[int, int, int]:
    """Device, number and time of change; another one where it cannot be looked at."""
    try:
        status = os.stat(folder)  # noqa: PTH116 - as above
    except OSError:
        return 0, 0, 0
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link in a circle, or into a folder that may not be entered
        return False
