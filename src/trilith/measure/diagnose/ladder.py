"""Which load comes next: 1, 2, 4, 8 ... until more load gives no more. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

FLAT: Final = 1.08
"""A doubled load that gives less than this times the throughput gave nothing."""

EXPLODED: Final = 8.0
"""So many times the p99 of a single request is an explosion, where throughput rises by less than a quarter as well."""


def next_load(
    loads: Sequence[int], throughputs: Sequence[float], p99s_s: Sequence[float], *, largest: int
) -> tuple[int | None, str]:
    """The next load, or None and why there is none.

    Args:
        loads: those that were measured, rising.
        throughputs: answers a second at each.
        p99s_s: seconds at each.
        largest: no load is larger.
    """
    if not loads:
        return 1, ""
    if throughputs[-1] <= 0:
        return None, f"nothing was answered at {loads[-1]} in flight"
    if len(loads) > 2 and max(throughputs[-2:]) < FLAT * max(throughputs[:-2]):
        return None, f"throughput is flat from {loads[-3]} in flight on"
    if len(loads) > 3 and p99s_s[-1] > EXPLODED * p99s_s[0] and throughputs[-1] < 1.25 * throughputs[-2]:
        return None, f"p99 at {loads[-1]} in flight is {p99s_s[-1] / p99s_s[0]:.0f} times that of a single request"
    if loads[-1] >= largest:
        return None, f"{largest} in flight is the largest load that was asked for"
    return min(largest, loads[-1] * 2), ""


def level_seconds(asked_s: float, latency_s: float, load: int) -> float:
    """How long a level must be measured: as asked, longer when few requests end in that time; 8 times at most."""
    return min(8 * asked_s, max(asked_s, 24 * latency_s / load, 4 * latency_s))
