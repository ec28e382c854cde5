"""Where reports are printed: as wide as a terminal is, and wide enough for tables where there is none."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH: Final = 140


def report_console() -> Console:
    """For standard output. A file or a pipe has no width: lines are folded where COLUMNS says so, or at 140."""
    from rich.console import Console

    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(highlight=False, width=None if known else _WIDTH)
