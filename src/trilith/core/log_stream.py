"""The log's way out: a line never waits for who reads it.

A pipe whose reader has stopped (a paused `less`, a stuck collector), a terminal after Ctrl-S: a write to it blocks, and
with it every request of the process. Here a line that cannot be written at once waits in a bounded memory, a thread
writes it when it can be, and lines beyond that are left out and counted.

Rule 1: the descriptor is shared with other programs, so its own mode stays: a pipe or a terminal is opened once more
        for writing without waiting, a socket is told with each write.
Rule 2: files are written as ever: they do not block for others, and have one place where all writers go on.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import socket
import stat
import threading
import time
from collections.abc import Callable
from typing import Final, TextIO

_MOST_BYTES: Final = 1 << 20
_LAST_S: Final = 0.5
_POLL_MS: Final = 1000


class LogStream:
    """A stream for a `logging.StreamHandler`.

    Args:
        descriptor: what is waited for.
        write: writes bytes to it without waiting; raises `BlockingIOError`.
        most_bytes: what may wait.
    """

    def __init__(self, descriptor: int, write: Callable[[bytes], int], most_bytes: int = _MOST_BYTES) -> None:
        self._descriptor = descriptor
        self._write = write
        self._most_bytes = most_bytes
        self._waiting = bytearray()
        self._left_out = 0
        self._begin()
        os.register_at_fork(after_in_child=self._begin)
        atexit.register(self._last)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._waiting = bytearray()  # a forked child leaves these lines to its parent

    def write(self, text: str) -> int:
        """Takes a line. It is written now if it can be."""
        line = text.encode(errors="backslashreplace")
        with self._lock:
            if not self._waiting:
                line = line[self._written(line) :]
            if not line:
                return len(text)
            if len(self._waiting) + len(line) > self._most_bytes:
                self._left_out += 1
                return len(text)
            self._waiting += line
            if self._thread is None:
                self._thread = threading.Thread(target=self._drain, name="trilith log", daemon=True)
                self._thread.start()
        return len(text)

    def flush(self) -> None:
        """There is nothing more to do than `write` does."""

    def _written(self, data: bytes | bytearray) -> int:
        try:
            return self._write(bytes(data))
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)  # nobody can read it ever again: `logging` could do no better

    def _drain(self) -> None:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        while True:
            poll.poll(_POLL_MS)
            with self._lock:
                self._step()
                if not self._waiting:
                    self._thread = None
                    return

    def _step(self) -> None:
        del self._waiting[: self._written(self._waiting[: 4 << 10])]
        if not self._waiting and self._left_out:
            left_out, self._left_out = self._left_out, 0
            self._waiting += b"trilith: %d lines of the log were left out, because nobody read it\n" % left_out

    def _last(self) -> None:
        """The process ends: a reader that is only slow gets the rest."""
        until = time.monotonic() + _LAST_S
        while self._waiting and time.monotonic() < until:
            time.sleep(0.01)


def log_stream(stream: TextIO) -> TextIO | LogStream:
    """The stream itself where a write to it cannot block for long, else one that never waits."""
    try:
        descriptor = stream.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError, AttributeError):
        return stream  # it is not the system's
    if stat.S_ISSOCK(mode):
        own = socket.socket(fileno=os.dup(descriptor))
        return LogStream(own.fileno(), lambda data: own.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL))
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        with contextlib.suppress(OSError):  # not ours to open: another user's terminal, no /proc
            opened = os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
            return LogStream(opened, lambda data: os.write(opened, data))
    return stream
