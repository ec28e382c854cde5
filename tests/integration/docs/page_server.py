"""A `trilith serve` of a page, and all that it prints: what a reader sees at a terminal.

There the lines of `trilith:` have no time in front of them, and models that are loaded are a table and no lines.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

_READY = "ready: http"  # or partly
_STOPPING = "trilith: stopping"
_ENDS_WITHIN_S = 60
_TOLD = re.compile(r"^\S+Z (?:INFO|WARNING|ERROR) (?=trilith: )", re.MULTILINE)
_LOADED = re.compile(r"^\S+Z INFO trilith\.runtime: model .* is loaded(?: again)?, .*\n", re.MULTILINE)

_WAITS = re.compile(r"^trilith: still starting: .*\n", re.MULTILINE)  # said after 10 s, on a machine that is busy


class PageServer:
    """One server process. Ended by its own id, never by name."""

    def __init__(self, arguments: list[str], folder: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "trilith", *arguments],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: list[str] = []
        self._ended = False
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self._lines.append(line)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def printed(self) -> str:
        """All that it printed until now."""
        with self._changed:
            return _WAITS.sub("", _TOLD.sub("", _LOADED.sub("", "".join(self._lines))))

    def wait_ready(self, within_s: float) -> bool:
        """Waits until it says that it is ready. False when it ended, or took too long."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or any(_READY in line for line in self._lines), within_s)
            return any(_READY in line for line in self._lines)

    def interrupt(self) -> int:
        """Ctrl-C, then waits; the exit status. What does not end is killed.

        A server that the page has told to stop gets no signal: a second one would end it at once.
        """
        if _STOPPING not in self.printed:
            self._process.send_signal(signal.SIGINT)
        try:
            return self._process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.returncode
        finally:
            self._close()

    def kill(self) -> None:
        """Ends it at once; its children die with it."""
        self._process.kill()
        self._process.wait()
        self._close()

    def _close(self) -> None:
        self._reader.join(10)
        assert self._process.stdout is not None
        self._process.stdout.close()
