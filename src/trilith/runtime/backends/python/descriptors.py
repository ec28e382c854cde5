"""The file descriptors of a model's process that are not the model's, out of its way.

Rule: naive loops over small numbers (`for fd in range(3, 20): os.close(fd)`) do not meet what Trilith opened, and what
the model starts inherits none of it. A model that means to reach them can, and harms itself alone: its process is
replaced.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
from collections.abc import Iterator
from typing import Final

_ROOM: Final = 64  # descriptors above the lowest of ours
_HIGHEST: Final = 1024  # of what is called a small number: the kernel's table grows with the highest in use


def lowest_own() -> int:
    """The lowest number that a descriptor of Trilith's should have in this process."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _HIGHEST if allowed == resource.RLIM_INFINITY else min(allowed, _HIGHEST)
    return max(3, most - _ROOM) if most > 2 * _ROOM else max(3, most // 2)


def moved_up(descriptor: int) -> int:
    """The same file at a number that is out of the way; the old one is closed. Not inherited."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, lowest_own())
    os.close(descriptor)
    return moved


@contextlib.contextmanager
def opening_above() -> Iterator[None]:
    """What is opened meanwhile gets numbers that are out of the way, as far as the process may open so many."""
    lowest, taken = lowest_own(), []
    try:
        with contextlib.suppress(OSError):  # it may open no more: then they lie lower
            taken.append(os.open(os.devnull, os.O_RDONLY))
            while taken[-1] < lowest:
                taken.append(os.dup(taken[0]))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
