"""Where reports go: a console as wide as a terminal is, or wide enough for tables where there is none; and files."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trilith.errors import SetupError

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH: Final = 140


def report_console() -> Console:
    """For standard output. A file or a pipe has no width: lines are folded where COLUMNS says so, or at 140."""
    from rich.console import Console

    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(highlight=False, width=None if known else _WIDTH)


def store(path: Path | None, content: bytes, what: str = "report") -> bool:
    """Writes what was made to a file; `-` is standard output, None nowhere. Whether it went to standard output.

    Raises:
        SetupError: the file cannot be written.
    """
    if path is not None and str(path) == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return True
    if path is not None:
        store_file(path, content, what)
    return False


def store_file(path: Path, content: bytes, what: str = "report") -> None:
    """Writes a file, whatever its name.

    Raises:
        SetupError: it cannot be written.
    """
    try:
        path.write_bytes(content)
    except OSError as error:
        raise SetupError(f"{path}: the {what} cannot be written: {error.strerror}") from error
