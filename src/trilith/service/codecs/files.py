"""Uploads as files: one folder a request, removed when the request is answered.

Rule 1: the client's file name is a hint. Only its last component is used, without what a file system could misread.
Rule 2: a process that is killed removes nothing. A replica is given a folder for those of its requests, which is
        removed after it; in a program of one's own they lie in the folder for temporary files.
Rule 3: no room for an upload is nobody's mistake but a lack of the server's: the same call may succeed later.
"""

from __future__ import annotations

import mimetypes
import os
import pathlib
import re
import shutil
from typing import Final

from trilith.core.temporary_folder import NO_ROOM, make_folder
from trilith.errors import Cancelled, CapacityError

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._ -]+")
_ENDINGS: Final = {  # of types that Python's own list lacks, in one version or another
    "audio/wav": ".wav",
    "audio/x-wav": ".wav",
    "audio/flac": ".flac",
    "audio/ogg": ".ogg",
    "audio/mp4": ".m4a",
    "image/webp": ".webp",
    "application/parquet": ".parquet",
    "application/vnd.apache.parquet": ".parquet",
}
_MAX_NAME: Final = 100


def safe_name(filename: str | None, content_type: str = "") -> str:
    """A file name without separators, control characters or leading dots; its extension is kept."""
    last = re.split(r"[/\\]", (filename or "").replace("\0", ""))[-1]
    cleaned = _UNSAFE.sub("_", last).strip(" .")
    if not cleaned:
        kind = content_type.partition(";")[0].strip().lower()
        cleaned = "upload" + (_ENDINGS.get(kind) or mimetypes.guess_extension(kind) or "")
    if len(cleaned) > _MAX_NAME:
        stem, dot, extension = cleaned.rpartition(".")
        cleaned = cleaned[:_MAX_NAME] if not dot or len(extension) > 20 else f"{stem[: _MAX_NAME - 21]}.{extension}"
    return cleaned


class RequestFolder:
    """A folder for the uploads of one request; it is made when the first one is saved.

    It may be removed while a thread saves to it, when the request is given up: what is saved then is removed too.

    Args:
        parent: where it is made; None for the folder for temporary files.
    """

    __slots__ = ("_count", "_parent", "_path", "_removed")

    def __init__(self, parent: pathlib.Path | None = None) -> None:
        self._parent = parent
        self._path: pathlib.Path | None = None
        self._count = 0
        self._removed = False

    def save(self, body: bytes | memoryview, filename: str | None, content_type: str = "") -> pathlib.Path:
        """Writes an upload; two of the same name do not meet.

        Raises:
            Cancelled: the folder is removed already.
            CapacityError: there is no room for it.
        """
        try:
            if self._path is None:
                self._path = make_folder(self._parent)
            self._count += 1
            folder = self._path / str(self._count)
            folder.mkdir()
            saved = folder / safe_name(filename, content_type)
            saved.write_bytes(body)
        except FileNotFoundError:
            if not self._removed:
                raise
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            raise CapacityError(
                f"the server has no room for an upload ({len(body)} bytes) among its temporary files "
                f"({os.strerror(error.errno)}): try again later; who runs it makes room, or sets TMPDIR"
            ) from error
        if self._removed:
            self.remove()
            raise Cancelled("the request was given up while its uploads were saved")
        return saved

    def remove(self) -> None:
        """Removes the folder and all in it."""
        self._removed = True
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
