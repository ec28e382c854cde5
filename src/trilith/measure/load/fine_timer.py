"""A timer of an event loop that is good to some microseconds, where the loop's own is good to a millisecond.

It is Linux's timerfd, by way of `ctypes`, since Python has it from 3.13 on only. Elsewhere there is none (`fine_timer`
gives None), and the loop's own has to do.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from collections.abc import Callable
from typing import Final

_MONOTONIC: Final = 1
_NONBLOCK_CLOEXEC: Final = 0o4000 | 0o2000000
_SHORTEST_NS: Final = 1000  # 0 would disarm it


class _TimerSpec(ctypes.Structure):
    """`struct itimerspec`: the interval, then the first expiry, each in seconds and nanoseconds."""

    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    )


class FineTimer:
    """Calls `callback` on the running event loop, once for each `set`.

    Args:
        library: the C library.
        descriptor: of the timer; closed by `close`.
        callback: what is to be called.
    """

    def __init__(self, library: ctypes.CDLL, descriptor: int, callback: Callable[[], None]) -> None:
        self._set = library.timerfd_settime
        self._descriptor = descriptor
        self._callback = callback
        self._spec = _TimerSpec(0, 0, 0, 0)
        self._spec_at = ctypes.byref(self._spec)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._fired)

    def set(self, delay_s: float) -> None:
        """Calls back `delay_s` seconds from now, and not at the instant set before."""
        seconds, nanoseconds = divmod(max(int(delay_s * 1e9), _SHORTEST_NS), 1_000_000_000)
        self._spec.value_s = seconds
        self._spec.value_ns = nanoseconds
        self._set(self._descriptor, 0, self._spec_at, None)

    def close(self) -> None:
        """Calls back no more."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _fired(self) -> None:
        try:
            os.read(self._descriptor, 8)
        except BlockingIOError:
            return  # set anew since the loop was woken
        self._callback()


def fine_timer(callback: Callable[[], None]) -> FineTimer | None:
    """A timer on the running event loop, or None where the system has none."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL(None)
        descriptor = library.timerfd_create(_MONOTONIC, _NONBLOCK_CLOEXEC)
    except (OSError, AttributeError):
        return None
    return FineTimer(library, descriptor, callback) if descriptor >= 0 else None
