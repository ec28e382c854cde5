"""A process that a user's code forks inherits none of this one's conversations, and ends where it would go on for it.

Python code may fork: `os.fork()`, `multiprocessing`. Such a child has copies of all descriptors and of the stack: one
that returns from the user's code would answer the request a second time, or write into the middle of its parent's
frames.

Rule 1: in the child each guarded descriptor is a socket that nobody is at the other end of.
Rule 2: a child that comes back from the user's code, or into the event loop, ends there and says so. One that never
does (it runs a target of `multiprocessing`, `exec`s, or calls `os._exit`) is left alone.
Rule 3: what the loop had ready before such a child comes back to it may still run there, without an effect on us.
Rule 4: signals end the child as they end any program, also those that this process does not end by: whoever starts
    processes (`multiprocessing`, `subprocess`) ends them so. A handler of the user's own stays.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterable
from typing import Any, Final

EXIT_STATUS: Final = 70
"""Of a child that came back."""

_SAYS: Final = (
    b"trilith: process %d was forked by a service or a model and came back from its code: it ends here, its parent "
    b"answers. End such a process with os._exit, or use multiprocessing\n"
)
_guarded: Final[set[int]] = set()


class _Process:
    """This one."""

    __slots__ = ("confined", "forked", "handlers", "loop")

    def __init__(self) -> None:
        self.confined = False
        self.forked = False
        self.loop: asyncio.AbstractEventLoop | None = None
        self.handlers: dict[int, Any] = {}


class _Held(threading.local):
    """What a thread that forks sets aside meanwhile."""

    def __init__(self) -> None:
        self.mask: set[int] = set()


_process: Final = _Process()
_held: Final = _Held()


def confine_forks() -> None:
    """Applies the rules to this process from now on. Call it once, before the user's code runs."""
    if not _process.confined:
        _process.confined = True
        os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)


def watch_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Names the loop that the user's code is called from."""
    _process.loop = loop


def guard(descriptor: int) -> None:
    """A child gets none of what this descriptor is."""
    _guarded.add(descriptor)


def release(descriptor: int) -> None:
    """Takes back `guard`, before the descriptor is closed."""
    _guarded.discard(descriptor)


def outlive_here(numbers: Iterable[int]) -> None:
    """This process does not end by these signals, unless they have handlers already; what is forked, or run, does.

    Call it on the main thread. To ignore a signal would have programs ignore it that are run from here.
    """
    for number in numbers:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _live_on)
        _process.handlers[number] = signal.getsignal(number)


def _live_on(number: int, frame: object) -> None:
    """Handles a signal by doing nothing."""


def end_if_forked() -> None:
    """Ends the process if it is a child that came back. Call it where the user's code returns to."""
    if _process.forked:
        os.write(2, _SAYS % os.getpid())
        os._exit(EXIT_STATUS)


def _before() -> None:
    """A signal that comes before the child handles it as it should waits."""
    _held.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _process.handlers)


def _in_parent() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _held.mask)


def _in_child() -> None:
    _process.forked = True
    ours, theirs = socket.socketpair()
    with ours:
        theirs.close()
        for descriptor in _guarded:
            os.dup2(ours.fileno(), descriptor)
    for number, handler in _process.handlers.items():
        if signal.getsignal(number) is handler:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, _held.mask)
    # At its exit a child of a thread of a pool would wait for that thread, which it is, and fail for it.
    pools = sys.modules.get("concurrent.futures.thread")
    getattr(pools, "_threads_queues", {}).clear()
    if _process.loop is not None and not _process.loop.is_closed():
        _process.loop.call_soon(end_if_forked)
