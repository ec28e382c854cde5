"""What the threads of a process tree did, from Linux's `/proc`.

Rule: a process or thread that ends while it is read is left out; what it had used until then is not told.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from trilith.measure.diagnose.evidence import ProcessUse, ThreadUse
from trilith.measure.process_tree import process_tree

_PROC: Final = Path("/proc")
_LEAST: Final = 0.005
_FUTEX: Final = "202"  # x86-64's number; 98 on arm64
_FUTEX_ARM: Final = "98"


class ThreadReading(NamedTuple):
    """A thread's counters: seconds that it ran, and that it was ready and had no core."""

    name: str
    cpu_s: float
    delay_s: float


Reading = dict[tuple[int, int], ThreadReading]
"""By process and thread."""


def read_threads(pids: tuple[int, ...]) -> Reading:
    """All threads of these processes and of those below them."""
    found: Reading = {}
    for pid in sorted({sample.pid for root in pids for sample in process_tree(root)}):
        try:
            tasks = list((_PROC / str(pid) / "task").iterdir())
        except OSError:
            continue
        for task in tasks:
            try:
                run_ns, delay_ns = (task / "schedstat").read_text("ascii").split()[:2]
                name = (task / "comm").read_text("utf-8", "replace").strip()
            except OSError:
                continue
            found[pid, int(task.name)] = ThreadReading(name, int(run_ns) / 1e9, int(delay_ns) / 1e9)
    return found


def use_between(
    before: Reading, after: Reading, elapsed_s: float, roles: dict[int, str], lock_waits: dict[int, float]
) -> tuple[ProcessUse, ...]:
    """What each process used, the busiest first.

    Args:
        before: at the start.
        after: at the end.
        elapsed_s: seconds between them.
        roles: what is known of a process.
        lock_waits: threads of a process that waited for the interpreter's lock, on average.
    """
    threads: dict[int, list[ThreadUse]] = {}
    for (pid, thread_id), reading in after.items():
        earlier = before.get((pid, thread_id), ThreadReading("", 0.0, 0.0))
        used = ThreadUse(
            thread_id=thread_id,
            name=reading.name,
            cpu=max(0.0, reading.cpu_s - earlier.cpu_s) / elapsed_s,
            delay=max(0.0, reading.delay_s - earlier.delay_s) / elapsed_s,
        )
        threads.setdefault(pid, []).append(used)
    processes = [
        ProcessUse(
            pid=pid,
            role=roles.get(pid, "process"),
            cpu=sum(each.cpu for each in of_process),
            delay=sum(each.delay for each in of_process),
            threads=tuple(
                sorted((each for each in of_process if each.cpu + each.delay >= _LEAST), key=lambda each: -each.cpu)
            ),
            lock_wait=lock_waits.get(pid),
        )
        for pid, of_process in threads.items()
    ]
    return tuple(sorted(processes, key=lambda each: -each.runnable))


def interpreter_data(pid: int) -> tuple[range, ...]:
    """Where the variables of a process's CPython lie, the interpreter's lock among them; () when that is not readable.

    The lock is a part of the interpreter's static state; the locks of programs and libraries are on the heap.
    """
    found = []
    try:
        lines = (_PROC / str(pid) / "maps").read_text("utf-8", "replace").splitlines()
    except OSError:
        return ()
    for line in lines:
        place, rights, *rest = line.split(maxsplit=5)
        name = rest[-1].rpartition("/")[2] if len(rest) == 4 else ""
        if "w" in rights and name.startswith(("python", "libpython")):
            first, _, past = place.partition("-")
            found.append(range(int(first, 16), int(past, 16)))
    return tuple(found)


def waits_for_lock(pid: int, data: tuple[range, ...]) -> int | None:
    """How many threads of a CPython process wait for the interpreter's lock now; None when that is not readable.

    Such a thread waits on a futex of the interpreter's own for a limited time (5 ms, `sys.getswitchinterval`); who
    waits for something else has a futex elsewhere. The kernel tells that to the process's owner, unless it forbids
    tracing.

    Args:
        pid: the process.
        data: see `interpreter_data`.
    """
    if not data:
        return None
    waiting = 0
    try:
        for task in (_PROC / str(pid) / "task").iterdir():
            try:
                fields = (task / "syscall").read_text("ascii").split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            # number, futex address, operation, value, time limit: a wait that has a limit
            if len(fields) > 4 and fields[0] in (_FUTEX, _FUTEX_ARM) and int(fields[4], 16):
                address = int(fields[1], 16)
                waiting += any(address in each for each in data)
    except OSError:
        return None
    return waiting


def can_read(pid: int) -> bool:
    """Whether the system tells how long the threads of a process ran and waited."""
    try:
        return len((_PROC / str(pid) / "schedstat").read_text("ascii").split()) >= 2
    except OSError:
        return False
