"""A process that must not outlive its parent asks the kernel to see to it."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def die_with_parent(expected_parent: int) -> None:
    """Asks the kernel to kill this process when its parent dies. Call it first thing in a child.

    The kernel means the thread that started the child: that thread must live as long.

    Args:
        expected_parent: its process id; when it is not the parent any more, this process ends at once.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != expected_parent:
        raise SystemExit(1)
