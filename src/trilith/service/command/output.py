"""What a process writes, as lines for the log. Pure: the instant is an argument.

Rule 1: a line has a bound, and so has what is kept of one that has not ended; what is longer is cut, and says so.
Rule 2: so many lines a second are passed on; the next one says how many were left out before it.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from trilith.core.line_budget import LineBudget

_LONGEST: Final = 4096
_BURST: Final = 1000.0
_PER_S: Final = 200.0
_LAST: Final = 12


class OutputLines:
    """Lines of one process.

    Attributes:
        last: those that came last, for who wants to know why it ended.
    """

    def __init__(self) -> None:
        self.last: deque[str] = deque(maxlen=_LAST)
        self._rest = b""
        self._cut = False
        self._budget = LineBudget(burst=_BURST, per_s=_PER_S)

    def push(self, octets: bytes, now: float) -> list[str]:
        """Takes what was written; the lines to log."""
        *whole, rest = octets.split(b"\n")
        found: list[str] = []
        for piece in whole:
            self._extend(piece)
            self._end(found, now)
        self._extend(rest)
        return found

    def end(self, now: float) -> list[str]:
        """Nothing more will come; the line that was begun, if any."""
        found: list[str] = []
        if self._rest:
            self._end(found, now)
        return found

    def _extend(self, piece: bytes) -> None:
        room = _LONGEST - len(self._rest)
        if len(piece) > room:
            self._cut = True
            piece = piece[:room]
        self._rest += piece

    def _end(self, found: list[str], now: float) -> None:
        line = self._rest.decode(errors="replace").rstrip()
        if self._cut:
            line += " ... (cut)"
        self._rest, self._cut = b"", False
        if not line:
            return
        self.last.append(line)
        left_out = self._budget.take(now)
        if left_out is None:
            return
        found.append(f"{line} (before it {left_out} lines were left out)" if left_out else line)
