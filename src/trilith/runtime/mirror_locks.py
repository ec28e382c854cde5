"""Locks by name for a folder that threads and processes share, whose holders may need long.

Rule 1: whoever waits learns that the holder gets on, and that is progress of its own: it is not taken for one that
    hangs. The time of the lock's file says so, whichever process the holder is in.
Rule 2: the locks are `flock`: the kernel releases them when their process dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final

from trilith.runtime.load_run import LoadRun

_LOOK_S: Final = 0.1  # while somebody else holds the lock


class Held:
    """A lock that is held."""

    def __init__(self, file: IO[bytes], run: LoadRun) -> None:
        self._file = file
        self._told_at = 0.0
        self.run = run

    def heard(self) -> None:
        """The holder gets on.

        Raises:
            SetupError: nobody wants any more what it does.
        """
        self.run.check()
        self.run.heard()
        if self.run.heard_at - self._told_at > _LOOK_S:
            self._told_at = self.run.heard_at
            os.utime(self._file.fileno())


class MirrorLocks:
    """The locks of one folder.

    Args:
        folder: where their files lie; made when it is needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own: weakref.WeakValueDictionary[str, threading.Lock] = weakref.WeakValueDictionary()
        self._guard = threading.Lock()

    @contextlib.contextmanager
    def held(self, name: str, run: LoadRun) -> Iterator[Held]:
        """Holds the lock of that name for a load; waits for it.

        Raises:
            SetupError: nobody wants the load any more.
            OSError: the lock's file cannot be made.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.lock"
        with self._guard:
            own = self._own.setdefault(name, threading.Lock())
        look = _looking(path, run)
        while not own.acquire(timeout=_LOOK_S):  # of this process' threads only one waits for the others
            look()
        try:
            with path.open("ab") as file:
                while not _locked(file):
                    time.sleep(_LOOK_S)
                    look()
                yield Held(file, run)
        finally:
            own.release()


def _locked(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _looking(path: Path, run: LoadRun) -> Callable[[], None]:
    last: int | None = None

    def look() -> None:
        nonlocal last
        run.check()
        with contextlib.suppress(FileNotFoundError):
            now = path.stat().st_mtime_ns
            if last is not None and now != last:
                run.heard()
            last = now

    return look
