"""A callback where a future is awaited elsewhere: for those who wait without a task."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

_log: Final = logging.getLogger("trilith.http")


class Listener:
    """Is told as a future is, and calls back. What the callback raises is logged: it may not harm who tells."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback

    def done(self) -> bool:
        """As of a future: it can always be told."""
        return False

    def set_result(self, result: None) -> None:
        """Calls back."""
        try:
            self._callback()
        except Exception:  # noqa: BLE001 - the application's
            _log.exception("a callback of a request failed: %r", self._callback)
