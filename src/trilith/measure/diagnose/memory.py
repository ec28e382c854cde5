"""How much memory a request passes over, beside what this machine's memory can give: the idea of the roofline model.

Rule 1: what a process touched is what the kernel marked as accessed (`/proc/PID/clear_refs`, `smaps_rollup`). The marks
        are cleared between requests; a process does not notice.
Rule 2: a copy's speed is for a second of its own CPU time, so what else runs on the machine does not matter much.

S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model", 2009.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import time
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_COPY_BYTES: Final = 64 << 20
_COPIES: Final = 5
_CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def copy_bytes_per_s() -> float:
    """Bytes read and written in a second of CPU time by a copy that fits into no cache. Takes a tenth of a second."""
    source = ctypes.create_string_buffer(os.urandom(1 << 20) * (_COPY_BYTES >> 20), _COPY_BYTES)
    target = ctypes.create_string_buffer(_COPY_BYTES)
    ctypes.memmove(target, source, _COPY_BYTES)
    seconds = []
    for _ in range(_COPIES):
        started = time.thread_time()
        ctypes.memmove(target, source, _COPY_BYTES)  # lets go of the interpreter's lock
        seconds.append(time.thread_time() - started)
    return 2 * _COPY_BYTES / max(1e-9, statistics.median(seconds))


def cache_bytes() -> int:
    """The largest cache of a core; 0 where the system does not say."""
    found = [0]
    for path in _CACHES.glob("index*/size"):
        text = path.read_text("ascii").strip()
        if text[:-1].isdecimal() and text[-1:] in _UNITS:
            found.append(int(text[:-1]) * _UNITS[text[-1]])
    return max(found)


def touched_bytes(pids: tuple[int, ...], seconds: float) -> int | None:
    """Memory that these processes access within so many seconds; None when the system does not let this user see it."""
    readable = []
    for pid in pids:
        try:
            (_PROC / str(pid) / "clear_refs").write_text("1")
        except OSError:
            continue
        readable.append(pid)
    time.sleep(seconds)
    total_kb = 0
    for pid in readable:
        try:
            lines = (_PROC / str(pid) / "smaps_rollup").read_text("ascii").splitlines()
        except OSError:
            return None
        total_kb += sum(int(line.split()[1]) for line in lines if line.startswith("Referenced:"))
    return total_kb * 1024 if readable else None
