"""A text of lines, cut out of chunks that end anywhere. Sans-I/O.

Rule 1: a line ends with LF or CR LF; the last one may end with the text. Lines of blanks alone are no lines.
Rule 2: a line that is longer than the bound is refused while it comes, not when it is whole.
"""

from __future__ import annotations

from typing import Final

from trilith.errors import PayloadTooLarge

LONGEST_LINE_BYTES: Final = 64 << 20


class LineSplitter:
    """Cuts one text.

    Args:
        longest_bytes: of a line.
    """

    __slots__ = ("_longest_bytes", "_rest", "_rest_bytes")

    def __init__(self, longest_bytes: int = LONGEST_LINE_BYTES) -> None:
        self._longest_bytes = longest_bytes
        self._rest: list[bytes] = []
        self._rest_bytes = 0

    def push(self, chunk: bytes) -> list[bytes]:
        """Takes the next chunk; the lines that are complete now, without their ends.

        Raises:
            PayloadTooLarge: one is too long.
        """
        first, *others = chunk.split(b"\n")
        self._add(first)
        if not others:
            return []
        lines = [self._take(), *others[:-1]]
        self._add(others[-1])
        for line in lines:
            self._check(len(line))
        return [line for line in map(bytes.rstrip, lines) if line]

    def finish(self) -> list[bytes]:
        """The text has ended: its last line, if that had no end."""
        line = self._take().rstrip()
        return [line] if line else []

    def _add(self, piece: bytes) -> None:
        self._rest_bytes += len(piece)
        self._check(self._rest_bytes)
        if piece:
            self._rest.append(piece)

    def _take(self) -> bytes:
        line = b"".join(self._rest)
        self._rest.clear()
        self._rest_bytes = 0
        return line

    def _check(self, size_bytes: int) -> None:
        if size_bytes > self._longest_bytes:
            raise PayloadTooLarge(f"a line of the stream is longer than {self._longest_bytes} bytes")
