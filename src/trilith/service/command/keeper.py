"""Keeps the process of a command, so that nothing of it is left. A program of its own, between the two.

    python -I -S keeper.py CONTROL_FD PARENT_PID PROGRAM ARGUMENTS...

The replica sends signal numbers, a byte each, for the process; KILL_ALL, or the end of the connection, ends everything.
It is told in lines: `started PID`, or `failed ERRNO`; then `ended STATUS`, negative for a signal.

Rule 1: when the replica dies, however it dies, the connection ends, and with it the process and all that it started,
    also what has left its process group: orphans become children of this program (a subreaper), which kills them.
Rule 2: when this program dies, the kernel kills the process.
Rule 3: when the process ends by itself, what it has started ends too.

One thread, and of the standard library little: it stays in memory for as long as the process runs.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time

KILL_ALL = 255
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_GIVES_UP_AFTER_S = 5.0
_LOOKS_AGAIN_S = 0.01


def main() -> None:
    """Entry point."""
    control_fd, parent, arguments = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    os.set_inheritable(control_fd, False)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    woken = _listen_to_signals()
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        return
    child = _start(arguments, libc)
    if isinstance(child, OSError):
        _tell(control_fd, f"failed {child.errno}")
        return
    _tell(control_fd, f"started {child}")
    status = _watch(child, control_fd, woken)
    killed = _kill_all(child)
    _tell(control_fd, f"ended {killed if status is None else status}")


def _listen_to_signals() -> int:
    """Where the numbers of signals can be read from now on. A terminal's are no concern of this program."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    return reading


def _start(arguments: list[str], libc: ctypes.CDLL) -> int | OSError:
    """The process id of the program; or why there is none."""
    reading, writing = os.pipe()
    keeper = os.getpid()
    try:
        child = os.fork()
    except OSError as error:
        return error
    if not child:
        try:
            os.setsid()
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != keeper:
                os._exit(1)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            os.execvp(arguments[0], arguments)
        except OSError as error:
            os.write(writing, str(error.errno).encode())
        finally:
            os._exit(1)
    os.close(writing)
    failure = os.read(reading, 16)
    os.close(reading)
    if failure:
        os.waitpid(child, 0)
        return OSError(int(failure), "")
    return child


def _watch(child: int, control_fd: int, woken: int) -> int | None:
    """Returns when the process has ended, with its status; or None when everything is to end."""
    while True:
        readable, _, _ = select.select([control_fd, woken], [], [])
        if woken in readable and signal.SIGTERM in os.read(woken, 512):
            return None  # the replica has died
        status = _reap(child)
        if status is not None:
            return status
        if control_fd in readable:
            asked = _received(control_fd)
            if not asked or KILL_ALL in asked:
                return None
            for number in asked:
                os.kill(child, number)


def _received(control_fd: int) -> bytes:
    try:
        return os.read(control_fd, 64)
    except OSError:
        return b""  # the other end is gone, with what it had not read


def _reap(child: int) -> int | None:
    """Forgets who has ended; the status of the process when it has, else None.

    Raises:
        ChildProcessError: there are no children, and it has ended before.
    """
    status = None
    while True:
        try:
            ended, raw = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            if status is None:
                raise
            return status
        if not ended:
            return status
        if ended == child:
            status = os.waitstatus_to_exitcode(raw)


def _kill_all(child: int) -> int:
    """Kills all children, and their children when those become ours, until there are none; the status of `child`."""
    status: int | None = None
    gives_up_at = time.monotonic() + _GIVES_UP_AFTER_S
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < gives_up_at:
            for one in _children():
                with contextlib.suppress(OSError):
                    os.kill(one, signal.SIGKILL)
            ended = _reap(child)
            status = ended if status is None else status
            time.sleep(_LOOKS_AGAIN_S)
    return -signal.SIGKILL if status is None else status


def _children() -> list[int]:
    """Of this program: read from all processes, as not every kernel lists them."""
    own = os.getpid()
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - as below
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - pathlib takes long to load
                # The name in brackets may hold anything.
                if int(file.read().rpartition(b")")[2].split()[1]) == own:
                    found.append(int(name))
    return found


def _tell(control_fd: int, line: str) -> None:
    with contextlib.suppress(OSError):  # the replica is gone
        os.write(control_fd, f"{line}\n".encode())


if __name__ == "__main__":
    main()
