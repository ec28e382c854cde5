"""How much a stream of Arrow holds once it is decompressed, read from its messages before a library does so.

Rule: this reads sizes alone, from bytes that anybody may have written: every offset is looked at before it is used.

A message is `FFFFFFFF`, the length of its metadata (4 bytes), the metadata, and its body (Arrow's "Encapsulated message
format"); the metadata is a Flatbuffer (Message.fbs), a compressed buffer begins with its decompressed length (8 bytes).
"""

from __future__ import annotations

import struct
from typing import Final

from trilith.errors import InvalidInput

FILE_MAGIC: Final = b"ARROW1\x00\x00"
"""How a file of Arrow begins; a stream follows."""

_CONTINUATION: Final = 0xFFFFFFFF
_MAX_METADATA: Final = 16 << 20
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3  # MessageHeader
_NOT_COMPRESSED: Final = -1  # a buffer of a compressed body that is left as it is


def decompressed_bytes(stream: memoryview) -> tuple[int, int]:
    """The sizes of all buffers of a stream, decompressed, and the rows of its batches.

    Args:
        stream: without `FILE_MAGIC`.

    Raises:
        InvalidInput: it is no stream of Arrow, or its metadata is broken.
    """
    at = size_bytes = rows = 0
    try:
        while at + 8 <= len(stream):
            mark, length = struct.unpack_from("<Ii", stream, at)
            if mark != _CONTINUATION or length == 0:
                break
            if not 0 < length <= min(_MAX_METADATA, len(stream) - at - 8):
                raise InvalidInput("the Arrow stream is broken: a message's metadata is too long")
            body_at = at + 8 + length
            message = _Table.root(stream[at + 8 : body_at])
            body_length = message.int64(3)
            if not 0 <= body_length <= len(stream) - body_at:
                raise InvalidInput("the Arrow stream is cut short")
            found, count = _of_message(message, stream[body_at : body_at + body_length])
            size_bytes, rows = size_bytes + found, rows + count
            at = body_at + body_length
    except (struct.error, IndexError, ValueError) as error:
        raise InvalidInput(f"the Arrow stream is broken: {error}") from error
    if at == 0:
        raise InvalidInput("expected a stream or file of Arrow (IPC)")
    return size_bytes, rows


def _of_message(message: _Table, body: memoryview) -> tuple[int, int]:
    kind, header = message.uint8(1), message.table(2)
    if header is not None and kind == _DICTIONARY_BATCH:
        header = header.table(1)
    if header is None or kind not in (_DICTIONARY_BATCH, _RECORD_BATCH):
        return 0, 0
    rows = header.int64(0)
    if rows < 0:
        raise InvalidInput("the Arrow stream is broken: a batch of less than no rows")
    if header.table(3) is None:
        return len(body), rows
    size_bytes = 0
    for offset, length in header.pairs(2):
        if length == 0:
            continue
        if not (offset >= 0 and length >= 8 and offset + length <= len(body)):
            raise InvalidInput("the Arrow stream is broken: a buffer lies outside of its message")
        [decompressed] = struct.unpack_from("<q", body, offset)
        if decompressed < _NOT_COMPRESSED:
            raise InvalidInput("the Arrow stream is broken: a buffer of a negative length")
        size_bytes += length if decompressed == _NOT_COMPRESSED else decompressed
    return size_bytes, rows


class _Table:
    """A table of a Flatbuffer: fields by their number."""

    __slots__ = ("_at", "_raw", "_vtable", "_vtable_bytes")

    def __init__(self, raw: memoryview, at: int) -> None:
        self._raw = raw
        self._at = _inside(raw, at)
        [back] = struct.unpack_from("<i", raw, at)
        self._vtable = _inside(raw, at - back)
        [self._vtable_bytes] = struct.unpack_from("<H", raw, self._vtable)

    @classmethod
    def root(cls, raw: memoryview) -> _Table:
        return cls(raw, struct.unpack_from("<I", raw, 0)[0])

    def _field(self, number: int) -> int:
        """Where a field's value is; 0 when it has none."""
        entry = 4 + 2 * number
        if entry + 2 > self._vtable_bytes:
            return 0
        [offset] = struct.unpack_from("<H", self._raw, self._vtable + entry)
        return self._at + offset if offset else 0

    def uint8(self, number: int) -> int:
        at = self._field(number)
        return self._raw[at] if at else 0

    def int64(self, number: int) -> int:
        at = self._field(number)
        value: int = struct.unpack_from("<q", self._raw, at)[0] if at else 0
        return value

    def table(self, number: int) -> _Table | None:
        at = self._field(number)
        return _Table(self._raw, at + struct.unpack_from("<I", self._raw, at)[0]) if at else None

    def pairs(self, number: int) -> list[tuple[int, int]]:
        """A vector of structs of two 64-bit integers."""
        at = self._field(number)
        if not at:
            return []
        at += struct.unpack_from("<I", self._raw, at)[0]
        [count] = struct.unpack_from("<I", self._raw, at)
        if 16 * count > len(self._raw) - at - 4:
            raise InvalidInput("the Arrow stream is broken: a message claims more buffers than it has")
        return list(struct.iter_unpack("<qq", self._raw[at + 4 : at + 4 + 16 * count]))


def _inside(raw: memoryview, at: int) -> int:
    if not 0 <= at <= len(raw) - 4:
        raise ValueError("an offset points outside of its metadata")
    return at
