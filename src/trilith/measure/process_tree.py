"""How much CPU time a process and everything below it has used.

Rule 1: Linux's `/proc` is the only source. A process that ends while we read is skipped, never an error.
Rule 2: no time is lost or counted twice. A live process is counted by its own time; one that ended and was waited for
        by its parent is in the parent's `cutime`/`cstime`; threads, ended ones too, are in their process's time.
Rule 3: when the root leads a session, members of that session count although they were re-parented (daemons that
        forked twice), because they were started by it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSample:
    """One process at one moment.

    Attributes:
        pid: its id.
        parent: the id of its parent.
        session: the id of its session's leader.
        start_ticks: when it started, in clock ticks after boot: with `pid` it names one process for ever.
        cpu_s: user and system seconds of its threads and of its children that ended and were waited for.
    """

    pid: int
    parent: int
    session: int
    start_ticks: int
    cpu_s: float


def parse_stat(text: str, ticks_per_second: int) -> ProcessSample:
    """Reads one line of `/proc/PID/stat` (see proc(5)).

    Raises:
        ValueError: the line is not of that form.
    """
    # The second field is the program's name in brackets and may itself hold blanks and brackets.
    opening, closing = text.find("("), text.rfind(")")
    fields = text[closing + 1 :].split()
    if opening < 0 or closing < opening or len(fields) < 20:
        raise ValueError(f"a line of /proc/PID/stat has 22 fields or more, got {text!r:.200}")
    ticks = sum(int(field) for field in fields[11:15])
    return ProcessSample(
        pid=int(text[:opening]),
        parent=int(fields[1]),
        session=int(fields[3]),
        start_ticks=int(fields[19]),
        cpu_s=ticks / ticks_per_second,
    )


def process_tree(pid: int) -> list[ProcessSample]:
    """The process, its descendants and, when it leads a session, that session's members; empty when it is gone."""
    samples = _all_processes()
    if pid not in samples:
        return []
    children: dict[int, list[int]] = {}
    for sample in samples.values():
        children.setdefault(sample.parent, []).append(sample.pid)
    waiting = [pid, *(sample.pid for sample in samples.values() if sample.session == pid)]
    found: dict[int, ProcessSample] = {}
    while waiting:
        member = waiting.pop()
        if member not in found:
            found[member] = samples[member]
            waiting.extend(children.get(member, ()))
    return sorted(found.values(), key=lambda sample: sample.pid)


def cpu_seconds(pid: int) -> float:
    """User and system seconds that the process tree of `pid` has used so far.

    Raises:
        ProcessLookupError: there is no such process.
    """
    tree = process_tree(pid)
    if not tree:
        raise ProcessLookupError(f"there is no process {pid} whose CPU time could be read")
    return sum(sample.cpu_s for sample in tree)


def _all_processes() -> dict[int, ProcessSample]:
    ticks_per_second = os.sysconf("SC_CLK_TCK")
    samples = {}
    for entry in os.listdir(_PROC):  # noqa: PTH208  one system call for a folder of hundreds, without Path objects
        if not entry.isdigit():
            continue
        try:
            sample = parse_stat((_PROC / entry / "stat").read_text("utf-8", "replace"), ticks_per_second)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended between the listing and the reading
        samples[sample.pid] = sample
    return samples
