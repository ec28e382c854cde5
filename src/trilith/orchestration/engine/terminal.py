"""What a person at a terminal sees of the start of a repository: a line while models load, then a table of them.

Rule 1: nothing of it is written when the output is no terminal; log files get the lines of `narration` alone.
Rule 2: those lines are for people, `trilith: ...`. In a log file they are lines of the log (with their time) once the
    server has been ready; with the JSON format they are from the first.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Sequence
from typing import TextIO

from trilith.core.log_options import LogLevel, LogOptions
from trilith.core.logs import formatter
from trilith.orchestration.engine.control import ModelRow

_CLEAR = "\r\x1b[K"
_MOST_ROWS = 40


class Terminal:
    """Writes lines, and below them one line that changes.

    Args:
        stream: where to; standard error when None.
        log: how the log is written.
    """

    def __init__(self, stream: TextIO | None = None, log: LogOptions | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._log = log or LogOptions()
        self._live = False
        self._as_log = self._log.format == "json"

    @property
    def is_live(self) -> bool:
        """Whether somebody watches."""
        return self._log.format == "text" and self._stream.isatty()

    def started(self) -> None:
        """The server is ready: what comes now is read later, when it matters when it happened."""
        self._as_log = not self.is_live

    def tell(self, line: str, level: LogLevel = "info", detail: str = "") -> None:
        """Writes one line that stays, and below it its `detail`, a traceback. `level` is for those who read logs."""
        text = f"trilith: {line}" + (f"\n{detail.rstrip()}" if detail else "")
        if self._as_log:
            record = logging.LogRecord(
                "trilith", logging.getLevelNamesMapping()[level.upper()], "", 0, line, None, None
            )
            record.exc_text = detail.rstrip()
            text = formatter(self._log).format(record)
        with contextlib.suppress(OSError):  # the terminal was closed, or nobody reads the pipe: the server goes on
            self._end_line()
            self._stream.write(f"{text}\n")
            self._stream.flush()

    def loading(self, done: int, total: int, name: str) -> None:
        """Shows how many models are loaded, instead of what was shown before."""
        if not self.is_live:
            return
        with contextlib.suppress(OSError):  # as in `tell`
            self._end_line()
            if done < total:
                self._stream.write(f"loading models: {done} of {total}, last {name}"[:78])
                self._live = True
            self._stream.flush()

    def stopping(self) -> None:
        """The start is over, one way or another: nothing is shown of it any more."""
        with contextlib.suppress(OSError):
            self._end_line()
            self._stream.flush()

    def table(self, rows: Sequence[ModelRow]) -> None:
        """Shows the models; those that are not ready first, and not more than a screen can hold."""
        if not rows or not self.is_live:
            return
        with contextlib.suppress(OSError):  # as in `tell`
            self._end_line()
            self._print(rows)

    def _print(self, rows: Sequence[ModelRow]) -> None:
        from rich.console import Console
        from rich.table import Table

        table = Table("model", "version", "backend", "instances", "device", "loaded in", "state", box=None)
        for row in sorted(rows, key=lambda row: row.state == "READY")[:_MOST_ROWS]:
            ready = row.state == "READY"
            table.add_row(
                row.name,
                row.version,
                row.backend,
                str(row.instances) if ready else "",
                row.device if ready else "",
                "" if row.load_s is None else f"{row.load_s:.2f} s",
                "[green]READY[/]" if ready else f"[red]{row.state}[/]",
            )
        console = Console(file=self._stream)
        console.print(table)
        if len(rows) > _MOST_ROWS:
            console.print(f"... and {len(rows) - _MOST_ROWS} more; `trilith status` shows all", highlight=False)

    def _end_line(self) -> None:
        if self._live:
            self._stream.write(_CLEAR)
            self._live = False
