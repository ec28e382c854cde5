"""The server's CPU time while a level is measured."""

from __future__ import annotations

import time
from collections.abc import Callable


class CpuWindow:
    """The server's CPU time from creation on."""

    def __init__(self, read_s: Callable[[], float]) -> None:
        self._read_s = read_s
        self._before_s = read_s()
        self._from = time.perf_counter()

    def used_s(self, elapsed_s: float) -> float | None:
        """CPU seconds used, scaled to the `elapsed_s` seconds that were measured within the window.

        None when the process is gone by now: what was measured until then is worth telling without it.
        """
        window_s = time.perf_counter() - self._from
        try:
            return (self._read_s() - self._before_s) * elapsed_s / window_s
        except ProcessLookupError:
            return None
