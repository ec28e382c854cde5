"""Whether the generator itself was the bottleneck: a measurement that its own instrument limited is worthless."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SATURATED_CPU_SHARE: Final = 0.90
"""From this share of one core on, the generator and not the server sets the pace."""

CONTENDED_WAIT_SHARE: Final = 0.10
"""From this share of time spent waiting for a core on, latencies include the machine's scheduler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorLoad:
    """What the generator's only thread did during a measurement.

    Attributes:
        cpu_share: share of the time that it computed, 0 to 1.
        wait_share: share of the time that it was ready and had no core, 0 to 1; 0 where the system does not say.
    """

    cpu_share: float
    wait_share: float

    @property
    def saturated(self) -> bool:
        """Whether the figures are the generator's and not the server's."""
        return self.cpu_share >= SATURATED_CPU_SHARE

    @property
    def contended(self) -> bool:
        """Whether generator and others fought for cores so much that latencies are inflated."""
        return self.wait_share >= CONTENDED_WAIT_SHARE


class GeneratorMeter:
    """Reads the calling thread's CPU and waiting time from its creation until `stop`."""

    __slots__ = ("_cpu_s", "_started_at", "_waited_s")

    def __init__(self) -> None:
        self._started_at = time.perf_counter()
        self._cpu_s = time.thread_time()
        self._waited_s = _waited_s()

    def stop(self) -> GeneratorLoad:
        """The shares since creation."""
        elapsed_s = max(time.perf_counter() - self._started_at, 1e-9)
        return GeneratorLoad(
            cpu_share=(time.thread_time() - self._cpu_s) / elapsed_s,
            wait_share=(_waited_s() - self._waited_s) / elapsed_s,
        )


def _waited_s() -> float:
    """Seconds that this thread was runnable and waited for a core (Linux's schedstat); 0.0 where there is none."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text("ascii").split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0
