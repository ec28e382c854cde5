"""Tells threads that are no daemons that the main thread has ended, so that they can end too without looking for it.

Rule: one thread waits for that, whoever many want to know; it is a daemon, and has ended itself by the time at which
    daemons are stopped. A process that was forked has none, and makes its own.
"""

from __future__ import annotations

import threading
import weakref
from typing import Final, Protocol


class Wakeable(Protocol):
    """Something that waits, and looks at the main thread when it is woken."""

    def wake(self) -> None:
        """From any thread."""
        ...


class MainEnd:
    """Who wants to know."""

    def __init__(self) -> None:
        self._told: weakref.WeakSet[Wakeable] = weakref.WeakSet()
        self._watcher: threading.Thread | None = None
        self._lock = threading.Lock()

    def tell(self, other: Wakeable) -> None:
        """Wakes the other when the main thread has ended, if there is still somebody who holds it.

        Raises:
            RuntimeError: the system has no thread for it.
        """
        with self._lock:
            self._told.add(other)
            if self._watcher is None or not self._watcher.is_alive():
                watcher = threading.Thread(target=self._watch, name="trilith end of main", daemon=True)
                watcher.start()
                self._watcher = watcher

    def _watch(self) -> None:
        threading.main_thread().join()
        with self._lock:
            told = list(self._told)
        for other in told:
            other.wake()


main_end: Final = MainEnd()
