"""A folder for the files of one call: made when it is first asked for, removed with all in it.

Rule: who removes it may be another thread than who asks for it. What is asked for afterwards is refused, so that
nothing is left behind; a folder that nobody removes goes with its owner, or with the process.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Final

from trilith.errors import Cancelled, CapacityError

NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE)
"""What the system says when there is no room for a file: nobody's mistake, and it passes."""


def make_folder(parent: Path | None) -> Path:
    """A new folder in `parent`, which is made too if need be; None: where temporary files are."""
    if parent is not None:
        for folder in (parent.parent, parent):  # who tidies up temporary files may have removed them
            folder.mkdir(mode=0o700, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="trilith-", dir=parent))


class TemporaryFolder:
    """One folder.

    Args:
        parent: where it is made; None for the folder for temporary files.
    """

    __slots__ = ("__weakref__", "_lock", "_parent", "_path", "_removed", "_remover")

    def __init__(self, parent: Path | None) -> None:
        self._parent = parent
        self._lock = threading.Lock()
        self._remover: weakref.finalize[..., TemporaryFolder] | None = None
        self._removed = False
        self._path = Path()

    @property
    def path(self) -> Path:
        """The folder; it is there.

        Raises:
            Cancelled: it is removed already.
            CapacityError: there is no room for it.
        """
        with self._lock:
            if self._removed:
                raise Cancelled("the call is over, and its temporary folder is removed")
            if self._remover is None:
                try:
                    self._path = make_folder(self._parent)
                except OSError as error:
                    if error.errno not in NO_ROOM:
                        raise
                    raise CapacityError(
                        f"the server has no room for temporary files ({os.strerror(error.errno or 0)}): try again"
                        " later; who runs it makes room, or sets TMPDIR"
                    ) from error
                self._remover = weakref.finalize(self, shutil.rmtree, self._path, ignore_errors=True)
            return self._path

    def remove(self) -> None:
        """Removes the folder and all in it."""
        with self._lock:
            self._removed = True
        if self._remover is not None:
            self._remover()
