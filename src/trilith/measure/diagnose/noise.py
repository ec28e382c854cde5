"""How steady this machine is: small equal pieces of work, timed.

Rule: only ratios leave this file. How fast the machine is nobody asks.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from trilith.measure.diagnose.evidence import Noise

_PIECES: Final = 60
_LOOP: Final = 12_000


def read_noise() -> Noise:
    """Takes about a tenth of a second. Best before any load."""
    busy, stolen, total = _machine_ticks()
    own = time.process_time()
    began = time.perf_counter()
    walls, computed_s = [], 0.0
    for _ in range(_PIECES):
        started, computed = time.perf_counter(), time.thread_time()
        _compute(_LOOP)
        walls.append(time.perf_counter() - started)
        computed_s += time.thread_time() - computed
        time.sleep(0.001)
    elapsed_s = time.perf_counter() - began
    busy_after, stolen_after, total_after = _machine_ticks()
    ticks = max(1, total_after - total)
    cores = len(os.sched_getaffinity(0))
    foreign = (busy_after - busy) / ticks * (os.cpu_count() or cores) - (time.process_time() - own) / elapsed_s
    tenths = statistics.quantiles(walls, n=10)
    return Noise(
        spread=max(0.0, tenths[8] / tenths[4] - 1),
        stolen=max(0, stolen_after - stolen) / ticks,
        foreign=max(0.0, foreign),
        waited=min(1.0, max(0.0, 1 - computed_s / max(1e-9, sum(walls)))),
    )


def joined(looks: Sequence[Noise]) -> Noise:
    """The middle of several looks, figure by figure."""
    return Noise(
        spread=statistics.median(look.spread for look in looks),
        stolen=statistics.median(look.stolen for look in looks),
        foreign=statistics.median(look.foreign for look in looks),
        waited=statistics.median(look.waited for look in looks),
    )


def _compute(rounds: int) -> int:
    value = 0
    for number in range(rounds):
        value = (value * 31 + number) & 0xFFFFFF
    return value


def _machine_ticks() -> tuple[int, int, int]:
    """Busy, stolen and all clock ticks of all cores so far; (0, 0, 0) where the system does not say."""
    try:
        fields = [int(field) for field in Path("/proc/stat").read_text("ascii").split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return 0, 0, 0
    idle = fields[3] + fields[4]
    return sum(fields) - idle, fields[7], sum(fields)
