"""What is left of a command whose keeper was killed: found by a mark in its environment or by its session, and killed.

A keeper ends all that its process started, orphans included, as it becomes their parent. One that is itself killed
cannot, and its orphans are nobody's: their replica ends them then, and when that was killed too, who started that.

Rule 1: the mark is in the environment of the process at its start, and so in that of all that it starts. It begins with
    the id of the replica's process, and is otherwise random: nothing else has it.
Rule 2: what neither has the mark (it has emptied its environment) nor is of the session is not found.
Rule 3: it blocks. What is started while it looks is found by its next look, until one finds nothing.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import time
from pathlib import Path
from typing import Final

MARK: Final = "TRILITH_COMMAND_MARK"
"""The name of the variable."""

_GIVES_UP_AFTER_S: Final = 5.0
_LOOKS_AGAIN_S: Final = 0.02


def mark_of(replica_pid: int) -> str:
    """A new mark, for the command of the replica in that process."""
    return f"{replica_pid}.{secrets.token_hex(8)}"


def end_leftovers(mark: str, session: int = 0) -> int:
    """Kills all processes that have a mark, or are of a session; how many those were.

    Args:
        mark: all of it, or its beginning `PID.`.
        session: the id of the process that was started first; 0 for none.
    """
    wanted = f"{MARK}={mark}".encode()
    killed: set[int] = set()
    gives_up_at = time.monotonic() + _GIVES_UP_AFTER_S
    while time.monotonic() < gives_up_at:
        found = [pid for pid in _processes() if _is_left(pid, wanted, session)]
        if not found:
            break
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        killed.update(found)
        time.sleep(_LOOKS_AGAIN_S)
    return len(killed)


def _processes() -> list[int]:
    own = os.getpid()
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and int(path.name) != own]


def _is_left(pid: int, wanted: bytes, session: int) -> bool:
    folder = Path("/proc", str(pid))
    with contextlib.suppress(OSError, IndexError):  # it has ended meanwhile, or is another user's
        state, _, _, its_session = (folder / "stat").read_bytes().rpartition(b")")[2].split()[:4]
        if state == b"Z":
            return False
        if session and int(its_session) == session:
            return True
        return any(variable.startswith(wanted) for variable in (folder / "environ").read_bytes().split(b"\0"))
    return False
