"""Signals that are heard whatever the main thread does: it may block its loop, or stand in C code that never returns.

Rule 1: Python runs a handler when its main thread comes to it. What it does at once, from the signal itself, is to
    write a byte; a thread of ours reads it. Whoever read such bytes before, as an event loop does, still gets them.
Rule 2: a process that is forked from here hears nothing for us: signals end it as they end any program.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

_UNHEARD: Final[dict[signal.Signals, Any]] = {}  # signals that are heard now, and the handlers of before


class _Held(threading.local):
    """What a thread that forks sets aside meanwhile."""

    def __init__(self) -> None:
        self.mask: set[int] = set()


_held: Final = _Held()


@contextlib.contextmanager
def heard_signals(numbers: Iterable[signal.Signals], tell: Callable[[signal.Signals], object]) -> Iterator[None]:
    """Has a thread of its own tell each of the signals, within; on the main thread, within its loop if it has one."""
    heeded = frozenset(numbers)
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    before = {number: signal.signal(number, _live_on) for number in heeded}
    passed_to = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    _UNHEARD.update(before)
    _watch_forks()

    def listen() -> None:
        while came := reading.recv(64):
            for number in came:
                if number in heeded:
                    tell(signal.Signals(number))
            if passed_to >= 0:
                with contextlib.suppress(OSError):  # it is full, or closed: so it is awake, or needs nothing
                    os.write(passed_to, came)

    thread = threading.Thread(target=listen, name="trilith signals", daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(passed_to, warn_on_full_buffer=False)
        for number, handler in before.items():
            signal.signal(number, handler)
        _UNHEARD.clear()
        writing.close()
        thread.join()
        reading.close()


def _live_on(number: int, frame: object) -> None:
    """Handles a signal by doing nothing: the byte says it."""


@functools.cache
def _watch_forks() -> None:
    """Once a process: what is registered stays."""
    os.register_at_fork(before=_before, after_in_parent=_unmask, after_in_child=_in_child)


def _before() -> None:
    """What comes before the child handles it as it should waits."""
    _held.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _UNHEARD)


def _unmask() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _held.mask)


def _in_child() -> None:
    if _UNHEARD:
        signal.set_wakeup_fd(-1)
    for number, handler in _UNHEARD.items():
        if signal.getsignal(number) is _live_on:
            signal.signal(number, handler)
    _UNHEARD.clear()
    _unmask()
