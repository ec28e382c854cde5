"""One load in its thread, as both sides see it: how far it is, and whether anybody still wants it.

Rule: the thread says where it is (`enter`, `heard`, `add`); the loop reads that, and gives it up (`give_up`). From then
    on the thread is stopped at its next step, and instances that can be killed are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from trilith.errors import SetupError
from trilith.runtime.backends.port import Backend, RequestBackend

WAITING: Final = "waiting for a loading thread"


class LoadRun:
    """Shared by a loading thread and the loop.

    Attributes:
        phase: what it does, as a clause: `warming up`.
        heard_at: the instant of its last sign that it gets on.
    """

    __slots__ = ("_backends", "_lock", "_reason", "_stops", "heard_at", "phase")

    def __init__(self) -> None:
        self.phase = WAITING
        self.heard_at = 0.0
        self._reason = ""
        self._backends: list[RequestBackend] = []
        self._stops: list[Callable[[str], object]] = []
        self._lock = threading.Lock()

    def enter(self, phase: str) -> None:
        """The thread begins this now.

        Raises:
            SetupError: nobody wants the load any more.
        """
        self.check()
        self.phase = phase
        self.heard()

    def heard(self) -> None:
        """The thread gets on, though it stays in its phase."""
        self.heard_at = time.monotonic()

    def check(self) -> None:
        """Lets the thread go on.

        Raises:
            SetupError: nobody wants the load any more.
        """
        with self._lock:
            if self._reason:
                raise SetupError(self._reason)

    def add(self, backend: Backend | RequestBackend) -> None:
        """The thread loads this one next.

        Raises:
            SetupError: nobody wants the load any more.
        """
        with self._lock:
            if self._reason:
                raise SetupError(self._reason)
            if isinstance(backend, RequestBackend):
                backend.tell_heard(self.heard)
                self._backends.append(backend)

    def on_give_up(self, stop: Callable[[str], object]) -> None:
        """The thread waits next for something that `stop` ends, which gets why.

        Raises:
            SetupError: nobody wants the load any more.
        """
        with self._lock:
            if self._reason:
                raise SetupError(self._reason)
            self._stops.append(stop)

    def give_up(self, reason: str) -> None:
        """Nobody wants the load any more: what can be stopped is."""
        with self._lock:
            self._reason = reason
            backends, stops = list(self._backends), list(self._stops)
        for backend in backends:
            backend.give_up(reason)
        for stop in stops:
            stop(reason)
