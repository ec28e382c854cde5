"""What the process of a model writes to its standard error: passed on as it is, and its end is kept.

Rule: bounded in lines and in their length, whatever a model writes.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from typing import Final

from trilith.core.foreign import shortened

_KEPT_LINES: Final = 20
_LONGEST_LINE: Final = 1000
_READ_BYTES: Final = 1 << 16
_STANDARD_ERROR: Final = 2


class LastWords:
    """The end of what one process has written."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque(maxlen=_KEPT_LINES)
        self._partial = b""

    def read(self, descriptor: int) -> int:
        """Passes on and keeps what there is; the bytes read. A readable descriptor without any is at its end."""
        try:
            data = os.read(descriptor, _READ_BYTES)
        except OSError:  # nothing there
            return 0
        with contextlib.suppress(OSError):
            os.write(_STANDARD_ERROR, data)
        *lines, self._partial = (self._partial + data).split(b"\n")
        self._lines.extend(line for line in lines if line.strip())
        self._partial = self._partial[-_READ_BYTES:]
        return len(data)

    @property
    def clause(self) -> str:
        """They, ready to be appended to a sentence; "" for none."""
        lines = [*self._lines, *([self._partial] if self._partial else [])]
        if not lines:
            return ""
        text = "\n".join(shortened(line.decode(errors="replace"), _LONGEST_LINE) for line in lines)
        return f"; its last words were:\n{text}"
