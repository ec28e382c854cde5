"""HPACK decoding (RFC 7541), with a cache of whole blocks.

A client that sends the same metadata with each request sends the same octets with each request, once its dynamic table
has settled. What a block means depends on nothing but its octets and the dynamic table. So:

Rule 1: a decoded block is kept while the table does not change, and the cache is emptied when it does.
Rule 2: a block that changes the table is never kept: it must run again to change the table again.
Rule 3: everything is bounded: octets of a list, fields of a list, the table, the cache.

Huffman coding and the static table come from `hpack`; the loop is ours because `hpack.Decoder` copies the rest of the
block for each field (quadratic in a large block) and costs four times as much for a small one.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from hpack.exceptions import HPACKError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from trilith.wire.http2 import frames
from trilith.wire.http2.errors import ConnectionFault, ErrorCode, Refusal
from trilith.wire.http2.request_head import Field, RequestHead

_STATIC: Final[tuple[Field, ...]] = ((b"", b""), *HeaderTable.STATIC_TABLE)
_STATIC_COUNT: Final = len(_STATIC) - 1
_ENTRY_OVERHEAD_BYTES: Final = 32
_MAX_INTEGER_OCTETS: Final = 5
_MAX_CACHED_BLOCKS: Final = 64
_MAX_CACHED_BLOCK_BYTES: Final = 1024


class DecodedBlock:
    """The fields of a header block, and the request that they are once somebody asked."""

    __slots__ = ("_head", "fields")

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self.fields = fields
        self._head: RequestHead | None = None

    def request_head(self) -> RequestHead:
        """The fields as a request head; the same object each time.

        Raises:
            MalformedHeaders: they are none.
        """
        head = self._head
        if head is None:
            head = self._head = RequestHead(self.fields)
        return head


class HeaderDecoder:
    """Decodes the header blocks of one connection, in their order.

    Raises `ConnectionFault` for whatever is wrong in a block: after that the tables of the two ends differ.
    """

    def __init__(
        self,
        *,
        max_list_bytes: int = 64 << 10,
        max_fields: int = 1024,
        max_table_bytes: int = frames.DEFAULT_TABLE_BYTES,
    ) -> None:
        self._max_list_bytes = max_list_bytes
        self._max_fields = max_fields
        self._table_limit_bytes = max_table_bytes
        self._table_max_bytes = max_table_bytes
        self._table_bytes = 0
        self._table: deque[Field] = deque()
        self._cache: dict[bytes, DecodedBlock] = {}
        self.table_version = 0
        """Counts the changes of the dynamic table."""

    def decode(self, block: bytes) -> DecodedBlock:
        """The fields of one complete block."""
        decoded = self._cache.get(block)
        if decoded is not None:
            return decoded
        version = self.table_version
        try:
            decoded = DecodedBlock(tuple(self._fields(block)))
        except (IndexError, HPACKError) as error:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, f"a header block cannot be decoded: {error}") from error
        self._remember(block, decoded, version)
        return decoded

    def _remember(self, block: bytes, decoded: DecodedBlock, version_before: int) -> None:
        if self.table_version != version_before:
            self._cache.clear()
        elif len(block) <= _MAX_CACHED_BLOCK_BYTES:
            if len(self._cache) >= _MAX_CACHED_BLOCKS:
                self._cache.clear()
            self._cache[block] = decoded

    def _fields(self, block: bytes) -> list[Field]:
        fields: list[Field] = []
        position, end, list_bytes = 0, len(block), 0
        while position < end:
            octet = block[position]
            if octet & 0x80:
                index, position = _integer(block, position, 0x7F)
                field = self._entry(index)
            elif octet & 0x40:
                field, position = self._literal(block, position, 0x3F)
                self._add(field)
            elif octet & 0x20:
                if fields:
                    raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, "a table size update after a field")
                size, position = _integer(block, position, 0x1F)
                self._resize(size)
                continue
            else:
                field, position = self._literal(block, position, 0x0F)
            fields.append(field)
            list_bytes += len(field[0]) + len(field[1]) + _ENTRY_OVERHEAD_BYTES
            if list_bytes > self._max_list_bytes or len(fields) > self._max_fields:
                raise ConnectionFault(
                    ErrorCode.ENHANCE_YOUR_CALM,
                    f"a header list over {self._max_list_bytes} octets or {self._max_fields} fields",
                    Refusal.HEADER_LIST,
                )
        return fields

    def _entry(self, index: int) -> Field:
        if 0 < index <= _STATIC_COUNT:
            return _STATIC[index]
        if index == 0:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, "a field with index 0")
        return self._table[index - _STATIC_COUNT - 1]

    def _literal(self, block: bytes, position: int, prefix: int) -> tuple[Field, int]:
        index, position = _integer(block, position, prefix)
        if index:
            name = self._entry(index)[0]
        else:
            name, position = _string(block, position)
        value, position = _string(block, position)
        return (name, value), position

    def _add(self, field: Field) -> None:
        self.table_version += 1
        self._table.appendleft(field)
        self._table_bytes += _entry_bytes(field)
        self._evict()

    def _resize(self, size: int) -> None:
        if size > self._table_limit_bytes:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, f"a table of {size} octets, over our limit")
        self.table_version += 1
        self._table_max_bytes = size
        self._evict()

    def _evict(self) -> None:
        # An entry larger than the whole table empties it (RFC 7541 section 4.4), which this loop does as well.
        while self._table_bytes > self._table_max_bytes:
            self._table_bytes -= _entry_bytes(self._table.pop())


def _entry_bytes(field: Field) -> int:
    return len(field[0]) + len(field[1]) + _ENTRY_OVERHEAD_BYTES


def _integer(block: bytes, position: int, prefix: int) -> tuple[int, int]:
    """The integer whose first octet is at `position`, and the position after it (RFC 7541 section 5.1)."""
    number = block[position] & prefix
    position += 1
    if number < prefix:
        return number, position
    for shift in range(0, 7 * _MAX_INTEGER_OCTETS, 7):
        octet = block[position]
        position += 1
        number += (octet & 0x7F) << shift
        if octet < 0x80:
            return number, position
    raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, f"an integer of more than {_MAX_INTEGER_OCTETS} octets")


def _string(block: bytes, position: int) -> tuple[bytes, int]:
    coded = block[position] & 0x80
    length, position = _integer(block, position, 0x7F)
    end = position + length
    if end > len(block):
        raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, "a header block ends inside a string")
    text = block[position:end]
    return (decode_huffman(text) if coded else text), end
