"""Unpacking an archive that somebody else made.

Rule 1: nothing is written outside of the folder: while files are written there are no links to follow, because links
    are made last; and no name is absolute, or leads upwards.
Rule 2: it has an end: so many entries, so many bytes, and not the whole disk.
Rule 3: a file gets the time that it had (Python's compiled files hang on that) and may be executed if it could; nothing
    else of its mode or owner counts.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO, Final

from trilith.errors import SetupError

MOST_ENTRIES: Final = 1_000_000
MOST_BYTES: Final = 32 << 30
_OF_THE_DISK: Final = 0.9  # of what is free
_CHUNK_BYTES: Final = 1 << 20
_LATEST_S: Final = 1 << 33  # of times that every file system holds


def unpack(archive: Path, folder: Path, heard: Callable[[], None], *, most_bytes: int = MOST_BYTES) -> None:
    """Unpacks a tar file, compressed or not, into a folder that is empty.

    Args:
        archive: the file.
        folder: where to.
        heard: called when it gets on; what it raises ends it.
        most_bytes: of all files together.

    Raises:
        SetupError: it is no such file, is damaged, holds what must not be, or too much.
        OSError: the folder cannot be written.
    """
    try:
        with tarfile.open(archive, "r|*") as tar:
            _Unpacking(tar, folder, heard, min(most_bytes, int(shutil.disk_usage(folder).free * _OF_THE_DISK))).run()
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise SetupError(f"{archive}: is no tar file that can be read, compressed or not: {error}") from error
    except SetupError as error:
        raise SetupError(f"{archive}: {error.message}") from error


class _Unpacking:
    def __init__(self, tar: tarfile.TarFile, folder: Path, heard: Callable[[], None], most_bytes: int) -> None:
        self._tar = tar
        self._folder = folder
        self._heard = heard
        self._most_bytes = most_bytes
        self._left_bytes = most_bytes
        self._links: dict[Path, str] = {}  # to make at the end, and where each leads

    def run(self) -> None:
        for number, entry in enumerate(self._tar):
            if number >= MOST_ENTRIES:
                raise SetupError(f"holds more than {MOST_ENTRIES} files; expected an environment for one model")
            self._heard()
            self._write(entry, self._place(entry.name))
        for path, target in self._links.items():
            if any(above in self._links for above in path.parents):
                raise SetupError(f"holds '{path.relative_to(self._folder)}', which lies behind a link")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            path.symlink_to(target)

    def _place(self, name: str) -> Path:
        inside = PurePosixPath(name)
        if inside.is_absolute() or ".." in inside.parts:
            raise SetupError(f"holds {name!r:.200}, which leads out of the folder that it is unpacked to")
        return self._folder / inside

    def _write(self, entry: tarfile.TarInfo, path: Path) -> None:
        if entry.isdir():
            path.mkdir(parents=True, exist_ok=True)
            return
        if entry.issym():
            self._links[path] = entry.linkname
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # a name that comes again stands for what came before
        self._links.pop(path, None)
        if entry.islnk():
            same = self._place(entry.linkname)
            if same in self._links:
                self._links[path] = self._links[same]
            elif same.is_file():
                os.link(same, path)
            else:
                raise SetupError(f"holds {entry.name!r:.200}, a link to {entry.linkname!r:.200}, which is not there")
            return
        data = self._tar.extractfile(entry) if entry.isreg() else None
        if data is None:
            raise SetupError(f"holds {entry.name!r:.200}, which is neither file, folder nor link")
        with path.open("xb") as file:
            self._copy(data, file)
            os.fchmod(file.fileno(), 0o755 if entry.mode & 0o111 else 0o644)
        at_s = min(max(entry.mtime, 0), _LATEST_S)
        os.utime(path, (at_s, at_s))

    def _copy(self, data: IO[bytes], file: IO[bytes]) -> None:
        while chunk := data.read(_CHUNK_BYTES):
            self._left_bytes -= len(chunk)
            if self._left_bytes < 0:
                raise SetupError(
                    f"holds more than the {self._most_bytes} bytes that an environment may have here: there is a limit "
                    f"of {MOST_BYTES >> 30} GiB, and of nine tenths of what is free on the disk"
                )
            file.write(chunk)
            self._heard()
