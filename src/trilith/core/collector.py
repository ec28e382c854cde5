"""How the cyclic garbage collector works in a process that serves.

Rule: what a start leaves behind lives as long as the process, and requests in flight are young objects that die by
themselves. Looking at either again and again is time in which nothing is answered: with large libraries loaded a full
collection takes tens of milliseconds, and with the interpreter's own bound (700 young objects) every thirty requests in
flight cost one of the youngest.
"""

from __future__ import annotations

import gc
from typing import Final

_YOUNG_OBJECTS: Final = 10_000


def settle_collector() -> None:
    """To be called once, when a process has started and before it serves."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 10, 10)
