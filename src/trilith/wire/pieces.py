"""Bytes that come in pieces and are wanted as a whole.

Rule: what is held costs little more than its own length, however small the pieces are: an object in memory has some
forty bytes beside its content, so small pieces are joined as they come. Large ones are not copied before they must be.
"""

from __future__ import annotations

from typing import Final

_SMALL_BYTES: Final = 4 << 10
_JOINED_BYTES: Final = 64 << 10  # what has grown to it is not copied again


class Pieces:
    """Pieces of one body or message, in order.

    Attributes:
        size_bytes: their length together.
    """

    __slots__ = ("_pieces", "size_bytes")

    def __init__(self) -> None:
        self._pieces: list[bytes | bytearray] = []
        self.size_bytes = 0

    def add(self, piece: bytes) -> None:
        """Takes the next piece."""
        size = len(piece)
        if not size:
            return
        self.size_bytes += size
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

    def whole(self) -> bytes:
        """All of them in one piece; they stay, so that a second call gives the same object."""
        pieces = self._pieces
        if len(pieces) == 1 and isinstance(pieces[0], bytes):
            return pieces[0]
        joined = b"".join(pieces)
        self._pieces = [joined] if joined else []
        return joined

    def clear(self) -> None:
        """Drops them."""
        self._pieces = []
        self.size_bytes = 0
