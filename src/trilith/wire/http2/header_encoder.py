"""HPACK encoding without a dynamic table: what a server of small constant heads needs.

Rule: no field ever enters the peer's table, so an encoded list is a constant: the same octets on every connection, at
any time. The one duty that is left, to acknowledge a smaller table (RFC 7541 section 4.2), is `TABLE_EMPTIED`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hpack.table import HeaderTable

from trilith.wire.http2 import frames
from trilith.wire.http2.request_head import Field

TABLE_EMPTIED: Final = b"\x20"
"""A table size update to 0, to be put before the first block after the peer made its table smaller."""

_NAMES: Final[dict[bytes, int]] = {}
_FIELDS: Final[dict[Field, int]] = {}
for _index, (_name, _value) in enumerate(HeaderTable.STATIC_TABLE, start=1):
    _NAMES.setdefault(_name, _index)
    _FIELDS[_name, _value] = _index


class EncodedHeaders:
    """A header list in its wire form, ready for any stream of any connection.

    Attributes:
        block: the HPACK octets.
        open_head: length, type and flags of its HEADERS frame (the stream id follows), or empty when it needs
            CONTINUATION.
        end_head: the same with END_STREAM.
    """

    __slots__ = ("block", "end_head", "open_head")

    def __init__(self, fields: Iterable[Field]) -> None:
        self.block = b"".join(_encode_field(name, value) for name, value in fields)
        fits = len(self.block) <= frames.DEFAULT_MAX_FRAME_BYTES
        self.open_head = self._head(frames.END_HEADERS) if fits else b""
        self.end_head = self._head(frames.END_HEADERS | frames.END_STREAM) if fits else b""

    def _head(self, flags: int) -> bytes:
        return frames.frame_head(len(self.block), frames.HEADERS, flags, 0)[:5]

    def to_frames(self, stream_id: int, *, end_stream: bool, prefix: bytes = b"") -> bytes:
        """The HEADERS frame, with as many CONTINUATION frames as it takes. `prefix` goes before the block."""
        block = prefix + self.block
        size = frames.DEFAULT_MAX_FRAME_BYTES
        pieces = [block[start : start + size] for start in range(0, len(block), size)] or [b""]
        written = []
        for number, piece in enumerate(pieces):
            kind = frames.CONTINUATION if number else frames.HEADERS
            flags = frames.END_STREAM if end_stream and not number else 0
            if number == len(pieces) - 1:
                flags |= frames.END_HEADERS
            written.append(frames.frame(kind, flags, stream_id, piece))
        return b"".join(written)


def _encode_field(name: bytes, value: bytes) -> bytes:
    index = _FIELDS.get((name, value))
    if index is not None:
        return _encode_integer(index, 0x7F, 0x80)
    text = _encode_integer(len(value), 0x7F, 0) + value
    name_index = _NAMES.get(name)
    if name_index is not None:
        return _encode_integer(name_index, 0x0F, 0) + text
    return b"\0" + _encode_integer(len(name), 0x7F, 0) + name + text


def _encode_integer(number: int, prefix: int, first: int) -> bytes:
    if number < prefix:
        return bytes((first | number,))
    octets = bytearray((first | prefix,))
    number -= prefix
    while number >= 0x80:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    octets.append(number)
    return bytes(octets)
