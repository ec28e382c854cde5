"""From instance threads to the loop: many results, one wake-up."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

_log: Final = logging.getLogger("trilith.runtime")


class Outbox:
    """Calls that threads ask the loop to make. Created on the loop's thread, posted to from any.

    A wake-up of the loop costs a system call. While one is on its way, further calls join it.
    """

    __slots__ = ("_calls", "_loop", "_woken")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[Callable[[], None]] = deque()
        self._woken = False

    def post(self, call: Callable[[], None]) -> None:
        """Asks for `call()` on the loop's thread, soon and in order."""
        self._calls.append(call)
        # Correct without a lock: `_deliver` lowers the flag before it looks, so a call that was appended while the
        # flag stood is seen by the delivery that is on its way.
        if not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._woken = False
        calls = self._calls
        while calls:
            try:
                calls.popleft()()
            except Exception:  # noqa: BLE001 - a bug of ours, which is logged: the calls behind it answer others
                _log.exception("delivering what an instance executed failed")
