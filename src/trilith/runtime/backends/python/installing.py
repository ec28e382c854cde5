"""Runs the commands that make an environment, so that one sees that they get on, and can end them.

Rule: a command has a process group of its own, which is ended as a whole: pip runs compilers.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from trilith.errors import SetupError

LAST_LINES: Final = 15
_PROGRESS: Final = b"Progress "  # of pip's `--progress-bar raw`


class Installer:
    """Runs commands for one model, one after the other. May be stopped from another thread, for good.

    Attributes:
        on_heard: called when a command gets on, from the thread that runs it.
    """

    def __init__(self) -> None:
        self.on_heard: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._reason = ""

    def stop(self, reason: str) -> None:
        """Ends what runs, and lets nothing run any more."""
        with self._lock:
            self._reason = reason
            if self._process is not None:
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    os.killpg(self._process.pid, signal.SIGKILL)

    def check(self) -> None:
        """Lets it go on.

        Raises:
            SetupError: it was stopped.
        """
        if self._reason:
            raise SetupError(self._reason)

    def heard(self) -> None:
        """What it does gets on."""
        self.on_heard()

    def run(self, command: list[str], folder: Path, heard: Callable[[], None]) -> tuple[int, str]:
        """Runs a command in a folder; its exit code, and its last words.

        Args:
            command: with its arguments.
            folder: where.
            heard: called at each sign that it gets on.

        Raises:
            SetupError: it was stopped.
            OSError: it cannot be started.
        """
        said: deque[bytes] = deque(maxlen=LAST_LINES)
        with self._lock:
            self.check()
            process = self._process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        try:
            for line in process.stdout or ():
                if not line.startswith(_PROGRESS) and line.strip():
                    said.append(line)
                heard()
        finally:
            with self._lock:  # from here on its number may be another's
                with contextlib.suppress(ProcessLookupError):  # nothing of its group is left
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                self._process = None
            if process.stdout is not None:
                process.stdout.close()
        self.check()
        return process.returncode, b"".join(said).decode(errors="replace").strip()
