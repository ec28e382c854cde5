"""Locks that threads and processes share, whose holders may need long: they fetch, or install.

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
from typing import IO, Final, Protocol

_LOOK_S: Final = 0.1  # while somebody else holds the lock


class Waiter(Protocol):
    """Whoever waits for a lock, and then holds it: a `LoadRun`, for one."""

    def check(self) -> None:
        """Raises when nobody wants any more what it does."""
        ...

    def heard(self) -> None:
        """It gets on."""
        ...


class Held:
    """A lock that is held."""

    def __init__(self, file: IO[bytes], holder: Waiter) -> None:
        self._file = file
        self._holder = holder
        self._told_at = 0.0

    def heard(self) -> None:
        """The holder gets on.

        Raises:
            TrilithError: nobody wants any more what it does.
        """
        self._holder.check()
        self._holder.heard()
        now = time.monotonic()
        if now - self._told_at > _LOOK_S:
            self._told_at = now
            os.utime(self._file.fileno())


@contextlib.contextmanager
def held_file(path: Path, waiter: Waiter) -> Iterator[Held]:
    """Holds the lock that the file is, which is made when it is needed; waits for it.

    Raises:
        TrilithError: nobody wants any more what it is for.
        OSError: the file cannot be made.
    """
    look = _looking(path, waiter)
    with path.open("ab") as file:
        while not _locked(file):
            time.sleep(_LOOK_S)
            look()
        yield Held(file, waiter)


class FileLocks:
    """Locks by name.

    Args:
        folder: where their files lie; made when it is needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own: weakref.WeakValueDictionary[str, threading.Lock] = weakref.WeakValueDictionary()
        self._guard = threading.Lock()

    @contextlib.contextmanager
    def held(self, name: str, waiter: Waiter) -> Iterator[Held]:
        """Holds the lock of that name; see `held_file`."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.lock"
        with self._guard:
            own = self._own.setdefault(name, threading.Lock())
        look = _looking(path, waiter)
        while not own.acquire(timeout=_LOOK_S):  # of this process' threads only one waits for the others
            look()
        try:
            with held_file(path, waiter) as held:
                yield held
        finally:
            own.release()


def _locked(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _looking(path: Path, waiter: Waiter) -> Callable[[], None]:
    last: int | None = None

    def look() -> None:
        nonlocal last
        waiter.check()
        with contextlib.suppress(FileNotFoundError):  # its holder has removed it: it can be locked next
            now = path.stat().st_mtime_ns
            if last is not None and now != last:
                waiter.heard()
            last = now

    return look
