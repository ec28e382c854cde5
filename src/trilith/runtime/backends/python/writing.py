"""A model's process writes its answers: several together where that pays, and never late because the model is busy.

Rule 1: the connection belongs to the main thread. While that executes, it lends it: should the model take longer than
    expected with answers still held, a thread writes them meanwhile.
Rule 2: an answer that is held is lost with the process, so its call may then run again, as one that was not begun.
    Where no request may run twice, each answer is written at once.
Rule 3: whatever the main thread does to the connection within an execution, it does under `own`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Final

from trilith.runtime.backends.python.holding import LONGEST_S, Held

_LOOK_S: Final = 0.005
_LOOKS_IN_VAIN: Final = 20


class Writing:
    """When the answers of one process leave.

    Args:
        flush: writes all that waits to be written.

    Attributes:
        together: whether answers may be held.
        own: held by whoever may use the connection.
    """

    def __init__(self, flush: Callable[[], None]) -> None:
        self._flush = flush
        self.together = False
        self._held = Held()
        self._wanted = threading.Event()
        self._watched = False
        self.own = threading.RLock()
        self.own.acquire()
        os.register_at_fork(after_in_child=self._in_child)

    def lend(self) -> None:
        """The main thread begins to execute."""
        if self._held.since is not None and not self._wanted.is_set():
            self._wanted.set()
            if not self._watched:
                self._watched = True
                threading.Thread(target=self._watch, name="trilith late answers", daemon=True).start()
        self.own.release()

    def take_back(self) -> None:
        """It has executed."""
        self.own.acquire()

    def holds(self, began_at: float, waiting: int) -> bool:
        """Whether the answer that was just given waits for others; else `write` is due.

        Args:
            began_at: the instant at which its execution began.
            waiting: how many requests have come and were not begun.
        """
        return self.together and not self._held.add(began_at, time.monotonic(), waiting=waiting)

    def write(self) -> None:
        """Writes what is held."""
        self._held.written()
        self._flush()

    def _watch(self) -> None:
        in_vain = 0
        while True:
            time.sleep(_LOOK_S)
            since = self._held.since
            if since is None:
                in_vain += 1
                if in_vain >= _LOOKS_IN_VAIN:
                    in_vain = 0
                    self._wanted.clear()
                    if self._held.since is None:
                        self._wanted.wait()
            elif time.monotonic() - since >= LONGEST_S and self.own.acquire(blocking=False):
                try:
                    self.write()
                finally:
                    self.own.release()

    def _in_child(self) -> None:
        """The thread is not there, and may have had it."""
        self.own = threading.RLock()
