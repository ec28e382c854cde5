"""The machine and this process, as metrics: what Triton tells of CPUs and memory, and the memory of this process.

Rule: read from /proc at each scrape; where there is none, there is no metric.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from trilith.telemetry.families import Snapshot

_CPU_HELP = "CPU utilization rate [0.0 - 1.0]"


class HostMetrics:
    """A source for `Metrics.add_source`.

    Args:
        proc: the folder that the kernel writes to.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._busy, self._all = 0, 0

    def __call__(self) -> Iterable[Snapshot]:
        """What can be read now. The utilisation is that since the scrape before, the first one's since the start."""
        yield from _gauge("nv_cpu_utilization", _CPU_HELP, self._utilization)
        yield from _gauge("nv_cpu_memory_total_bytes", "CPU total memory (RAM), in bytes", self._total)
        yield from _gauge("nv_cpu_memory_used_bytes", "CPU used memory (RAM), in bytes", self._used)
        yield from _gauge("trilith_process_resident_bytes", "Memory of the gateway process.", self._resident)

    def _utilization(self) -> float:
        fields = [int(field) for field in self._read("stat").split("\n", 1)[0].split()[1:9]]
        total, idle = sum(fields), fields[3] + fields[4]
        busy_before, all_before = self._busy, self._all
        self._busy, self._all = total - idle, total
        passed = self._all - all_before
        return max(0.0, min(1.0, (self._busy - busy_before) / passed)) if passed > 0 else 0.0

    def _total(self) -> float:
        return self._memory("MemTotal:")

    def _used(self) -> float:
        return self._memory("MemTotal:") - self._memory("MemAvailable:")

    def _memory(self, key: str) -> float:
        line = next(line for line in self._read("meminfo").splitlines() if line.startswith(key))
        return int(line.split()[1]) * 1024

    def _resident(self) -> float:
        return int(self._read("self/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def _read(self, name: str) -> str:
        return (self._proc / name).read_text(encoding="ascii")


def _gauge(name: str, help: str, value: Callable[[], float]) -> Iterable[Snapshot]:
    try:
        yield Snapshot(name=name, kind="gauge", help=help, samples=[((), value())])
    except (OSError, ValueError, IndexError, StopIteration):  # this machine does not tell
        return
