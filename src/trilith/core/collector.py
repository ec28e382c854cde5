"""How the cyclic garbage collector works in a process that serves.

Rule 1: what a start leaves behind lives as long as the process, and requests in flight are young objects that die by
themselves. Looking at either again and again is time in which nothing is answered: with large libraries loaded a full
collection takes tens of milliseconds, and with the interpreter's own bound (700 young objects) every thirty requests in
flight cost one of the youngest.
Rule 2: the interpreter counts objects, not bytes: a few circles, ours or a library's, may hold much. So the process is
looked at every second, and what it has grown by decides. Growth that is wanted costs one collection each time that the
process is a quarter larger than before.
"""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path
from typing import Final

_YOUNG_OBJECTS: Final = 10_000
_LEAST_GROWTH_BYTES: Final = 64 << 20
_LOOK_EVERY_S: Final = 1.0
_STATM: Final = Path("/proc/self/statm")


def settle_collector() -> None:
    """To be called once, when a process has started and before it serves."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 10, 10)


class Growth:
    """Decides when a process has grown so far that circles are worth looking for.

    Args:
        held_bytes: what it holds now.
    """

    __slots__ = ("_base_bytes",)

    def __init__(self, held_bytes: int) -> None:
        self._base_bytes = held_bytes

    def due(self, held_bytes: int) -> bool:
        """Whether it has grown by 64 MiB, and by a quarter, since the last collection, or since it was smallest."""
        self._base_bytes = base = min(self._base_bytes, held_bytes)
        return held_bytes - base >= max(_LEAST_GROWTH_BYTES, base // 4)

    def collected(self, held_bytes: int) -> None:
        """A collection has left so much: what it did not free is wanted."""
        self._base_bytes = held_bytes


def watch_growth(loop: asyncio.AbstractEventLoop) -> None:
    """Looks at this process every second from now on, and collects when it has grown. On the loop's thread.

    Without Linux's `/proc` it does nothing.
    """
    if not _STATM.exists():
        return
    growth = Growth(own_bytes())

    def look() -> None:
        if growth.due(own_bytes()):
            gc.collect()
            growth.collected(own_bytes())
        loop.call_later(_LOOK_EVERY_S, look)

    loop.call_later(_LOOK_EVERY_S, look)


def own_bytes() -> int:
    """Memory in bytes that this process has for itself, shared memory and files not counted.

    Raises:
        OSError: the system does not say.
    """
    _, resident, shared = _STATM.read_bytes().split()[:3]
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
