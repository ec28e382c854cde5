"""How much a Parquet file holds, read from the headers of its pages before a library decodes one.

Rule 1: this reads sizes alone, from bytes that anybody may have written: every offset is looked at before it is used.
Rule 2: the file's footer may say what it likes. What a reader allocates is what the pages say, so they are counted.

A page's header is a struct in Thrift's compact protocol (parquet.thrift `PageHeader`, thrift-compact-protocol.md).
"""

from __future__ import annotations

from typing import Final

from trilith.errors import InvalidInput

_STOP: Final = 0
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY = 1, 2, 3, 7, 8
_INTEGERS: Final = frozenset({4, 5, 6})
_LIST, _SET, _MAP, _STRUCT = 9, 10, 11, 12
_DEEPEST: Final = 16
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 5, 7, 8  # fields of PageHeader; each has `num_values` as its field 1
_MAX_PAGES: Final = 1_000_000


class PageSizes:
    """What the pages of one column of one row group say.

    Attributes:
        size_bytes: of all pages, decompressed.
        values: how many values they hold.
        dictionary_bytes: of the dictionary, of which each value may be a copy.
    """

    __slots__ = ("dictionary_bytes", "size_bytes", "values")

    def __init__(self) -> None:
        self.size_bytes = 0
        self.values = 0
        self.dictionary_bytes = 0


def page_sizes(file: memoryview, start: int, length: int) -> PageSizes:
    """Reads the headers of the pages that lie one after another.

    Args:
        file: the whole file.
        start: where the first page's header begins.
        length: bytes of all pages, headers included.

    Raises:
        InvalidInput: they are no pages, or reach beyond the file.
    """
    end = start + length
    if not (4 <= start <= end <= len(file)):
        raise InvalidInput("the Parquet file is broken: a column lies outside of it")
    found = PageSizes()
    for _ in range(_MAX_PAGES):
        if start >= end:
            return found
        reader = _Reader(file[start:end])
        header = reader.struct(0)
        size, packed = header.get((2,), -1), header.get((3,), -1)
        if size < 0 or packed < 0:
            raise InvalidInput("the Parquet file is broken: a page without a size")
        found.size_bytes += size
        if (_DICTIONARY_PAGE, 1) in header:
            found.dictionary_bytes += size
        found.values += max(0, header.get((_DATA_PAGE, 1), 0)) + max(0, header.get((_DATA_PAGE_V2, 1), 0))
        start += reader.at + packed
    raise InvalidInput(f"the Parquet file has a column of more than {_MAX_PAGES} pages")


class _Reader:
    """Reads structs of Thrift's compact protocol."""

    __slots__ = ("_raw", "at")

    def __init__(self, raw: memoryview) -> None:
        self._raw = raw
        self.at = 0

    def struct(self, depth: int) -> dict[tuple[int, ...], int]:
        """The integers of a struct, by their path of field numbers."""
        if depth > _DEEPEST:
            raise InvalidInput("the Parquet file is broken: a page's header is nested too deeply")
        found: dict[tuple[int, ...], int] = {}
        number = 0
        while (head := self._byte()) != _STOP:
            step, kind = head >> 4, head & 0x0F
            number = number + step if step else self._zigzag()
            if kind in _INTEGERS:
                found[(number,)] = self._zigzag()
            elif kind == _STRUCT:
                found |= {(number, *path): value for path, value in self.struct(depth + 1).items()}
            else:
                self._skip(kind, depth)
        return found

    def _byte(self) -> int:
        if self.at >= len(self._raw):
            raise InvalidInput("the Parquet file is broken: it ends within a page's header")
        self.at += 1
        return self._raw[self.at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise InvalidInput("the Parquet file is broken: a number in a page's header is too long")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _skip(self, kind: int, depth: int) -> None:
        if depth > _DEEPEST:
            raise InvalidInput("the Parquet file is broken: a page's header is nested too deeply")
        if kind in (_TRUE, _FALSE):
            return
        if kind == _BYTE:
            self._byte()
        elif kind in _INTEGERS:
            self._varint()
        elif kind == _DOUBLE:
            self.at += 8
        elif kind == _BINARY:
            length = self._varint()  # first: it moves `at` itself
            self.at += length
        elif kind in (_LIST, _SET):
            head = self._byte()
            count = self._varint() if head >> 4 == 15 else head >> 4
            for _ in range(self._counted(count)):
                self._skip_item(head & 0x0F, depth + 1)
        elif kind == _MAP:
            count = self._counted(self._varint())
            kinds = self._byte() if count else 0
            for _ in range(count):
                self._skip_item(kinds >> 4, depth + 1)
                self._skip_item(kinds & 0x0F, depth + 1)
        elif kind == _STRUCT:
            self.struct(depth + 1)
        else:
            raise InvalidInput("the Parquet file is broken: a page's header has a field of an unknown type")

    def _skip_item(self, kind: int, depth: int) -> None:
        if kind in (_TRUE, _FALSE):
            self._byte()  # inside a collection a bool has a byte of its own
        else:
            self._skip(kind, depth)

    def _counted(self, count: int) -> int:
        if count > len(self._raw) - self.at:
            raise InvalidInput("the Parquet file is broken: a page's header claims more than it has")
        return count
