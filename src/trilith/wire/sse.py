"""Reads server-sent events out of chunks that end anywhere. Sans-I/O.

The rules are those of the HTML Living Standard, section 9.2.6. `id` and `retry` are for reconnecting, which is not done
here, so they are passed over.
"""

from __future__ import annotations

import re
from typing import Final

_BLOCK_END: Final = re.compile(rb"\r\n|\n|\r(?!\Z)")
_MARK: Final = b"\xef\xbb\xbf"


class EventReader:
    """Reads one stream of events."""

    __slots__ = ("_data", "_name", "_rest", "_started")

    def __init__(self) -> None:
        self._rest = b""
        self._name = b""
        self._data: list[bytes] = []
        self._started = False

    def push(self, chunk: bytes) -> list[tuple[bytes, bytes]]:
        """Takes the next chunk; the events that are complete now: name (`message` when it has none) and data."""
        text = self._rest + chunk
        if not self._started:
            if len(text) < len(_MARK) and _MARK.startswith(text):
                self._rest = text
                return []
            self._started = True
            text = text.removeprefix(_MARK)
        # A CR at the very end may be half of a CR LF: it is looked at with what follows.
        *lines, self._rest = _BLOCK_END.split(text)
        found: list[tuple[bytes, bytes]] = []
        for line in lines:
            if line:
                self._field(line)
                continue
            if self._data:
                found.append((self._name or b"message", b"\n".join(self._data)))
            self._data, self._name = [], b""
        return found

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._name = value
