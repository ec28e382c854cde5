"""Reads what the generator's thread itself used."""

from __future__ import annotations

import time
from pathlib import Path

from trilith.measure.load.outcome import GeneratorLoad


class GeneratorMeter:
    """Reads the calling thread's CPU and waiting time from its creation until `stop`."""

    __slots__ = ("_cpu_s", "_started_at", "_waited_s")

    def __init__(self) -> None:
        self._started_at = time.perf_counter()
        self._cpu_s = time.thread_time()
        self._waited_s = _waited_s()

    def stop(self, *, spun: bool = False) -> GeneratorLoad:
        """The shares since creation. `spun`: see `GeneratorLoad`."""
        elapsed_s = max(time.perf_counter() - self._started_at, 1e-9)
        return GeneratorLoad(
            cpu_share=(time.thread_time() - self._cpu_s) / elapsed_s,
            wait_share=(_waited_s() - self._waited_s) / elapsed_s,
            spun=spun,
        )


def _waited_s() -> float:
    """Seconds that this thread was runnable and waited for a core (Linux's schedstat); 0.0 where there is none."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text("ascii").split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0
