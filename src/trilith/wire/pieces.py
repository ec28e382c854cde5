"""Bytes that come in pieces and are wanted as a whole.

Rule 1: what is held costs little more than its own length, however small the pieces are: an object in memory has some
    forty bytes beside its content, so small pieces are joined as they come. Large ones are not copied before they must
    be.
Rule 2: what is large and wanted whole is joined while it comes. At the end 16 MB would take 10 ms, most of it for the
    first touch of fresh memory, and everything else would wait for that long.
"""

from __future__ import annotations

import mmap
from typing import Final

_SMALL_BYTES: Final = 4 << 10
_JOINED_BYTES: Final = 64 << 10  # what has grown to it is not copied again
_LARGE_BYTES: Final = 1 << 20
_PRIVATE: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # a shared mapping cannot grow


class Pieces:
    """Pieces of one body or message, in order.

    Attributes:
        size_bytes: their length together.
        gathers: whether they are only wanted as a whole; may be set at any time.
    """

    __slots__ = ("_pieces", "_room", "gathers", "size_bytes")

    def __init__(self) -> None:
        self._pieces: list[bytes | bytearray] = []
        self._room: mmap.mmap | None = None  # where large ones lie one behind the other
        self.size_bytes = 0
        self.gathers = False

    def add(self, piece: bytes) -> None:
        """Takes the next piece."""
        size = len(piece)
        if not size:
            return
        self.size_bytes += size
        if self.gathers and self.size_bytes >= _LARGE_BYTES:
            self._lay(piece)
            return
        pieces = self._pieces
        if not pieces or size >= _SMALL_BYTES:
            pieces.append(piece)
            return
        last = pieces[-1]
        if len(last) >= _JOINED_BYTES:
            pieces.append(bytearray(piece))
        elif isinstance(last, bytearray):
            last += piece
        elif len(last) < _SMALL_BYTES:
            pieces[-1] = bytearray(last)
            pieces[-1] += piece
        else:
            pieces.append(bytearray(piece))

    def _lay(self, piece: bytes) -> None:
        room, before = self._room, self.size_bytes - len(piece)
        if room is None:
            room = self._room = mmap.mmap(-1, 2 * self.size_bytes, flags=_PRIVATE)
            room[:before] = b"".join(self._pieces)
            self._pieces = []
        elif self.size_bytes > len(room):
            room.resize(2 * self.size_bytes)  # pages move, their content is not copied
        room[before : self.size_bytes] = piece

    def whole(self) -> bytes | memoryview:
        """All of them in one piece, a view that cannot be written when they are large; nothing may be added after."""
        if self._room is not None:
            return memoryview(self._room)[: self.size_bytes].toreadonly()
        pieces = self._pieces
        if len(pieces) == 1 and isinstance(pieces[0], bytes):
            return pieces[0]
        joined = b"".join(pieces)
        self._pieces = [joined] if joined else []
        return joined

    def clear(self) -> None:
        """Drops them."""
        self._pieces = []
        self._room = None
        self.size_bytes = 0
