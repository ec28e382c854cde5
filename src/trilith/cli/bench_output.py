"""The report of `trilith bench` on its way out: a line of progress, tables, files.

Rule: the result goes to standard output, progress and notices to standard error, so that a pipe gets figures alone.
"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trilith.cli.printing import report_console, store

if TYPE_CHECKING:
    from trilith.measure import BenchReport, LevelPlan


class ProgressLine:
    """A bar on standard error, drawn by hand: rich needs milliseconds a frame, which would be the generator's."""

    _WIDTH: Final = 30

    def __init__(self) -> None:
        self._drawn = ("", -1.0)

    def __call__(self, level: LevelPlan, elapsed_s: float, answers: int) -> None:
        """Draws how far a level is, a few times a second."""
        drawn_level, drawn_at_s = self._drawn
        if level.name == drawn_level and 0 <= elapsed_s - drawn_at_s < 0.2:
            return
        self._drawn = (level.name, elapsed_s)
        level_s = level.warmup_s + level.duration_s
        done = min(self._WIDTH, int(self._WIDTH * elapsed_s / level_s))
        state = "warm-up" if elapsed_s < level.warmup_s else f"{answers:,} answers"
        bar = "█" * done + "·" * (self._WIDTH - done)
        place = f"concurrency {level.name}" if level.name == str(level.concurrency) else level.name
        sys.stderr.write(f"\r\x1b[2K{place:<17} {bar} {state}")
        sys.stderr.flush()

    def clear(self) -> None:
        """Takes the line away."""
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()


def write_report(
    report: BenchReport, *, json: Path | None = None, csv: Path | None = None, html: Path | None = None
) -> None:
    """Writes the files that are wanted, and the tables unless one of them goes to standard output.

    Raises:
        SetupError: a file cannot be written.
    """
    # A second Ctrl-C does not cut the report short that the first one asked for.
    in_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main else None
    try:
        _write(report, json, csv, html)
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _write(report: BenchReport, json: Path | None, csv: Path | None, html: Path | None) -> None:
    from trilith.measure import render, to_csv, to_html, to_json

    table_wanted = True
    for path, content in (
        (json, to_json(report) if json is not None else b""),
        (csv, to_csv(report).encode() if csv is not None else b""),
        (html, to_html(report).encode() if html is not None else b""),
    ):
        table_wanted = not store(path, content) and table_wanted
    if table_wanted:
        report_console().print(render(report))
