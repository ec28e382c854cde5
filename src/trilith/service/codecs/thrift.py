"""Thrift's compact protocol, as Parquet uses it: reading alone (thrift-compact-protocol.md).

Rule: the bytes are anybody's. Nothing is taken for a length before it is compared with what is there, and nothing nests
deeper than a few levels.
"""

from __future__ import annotations

from typing import Any, Final

from trilith.errors import InvalidInput

_STOP: Final = 0
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY = 1, 2, 3, 7, 8
_INTEGERS: Final = frozenset({4, 5, 6})
_LIST, _SET, _MAP, _STRUCT = 9, 10, 11, 12
_DEEPEST: Final = 16

Struct = dict[int, Any]
"""The fields of a struct by their numbers: integers, bools, bytes, lists and structs. Maps and doubles are left out."""


class ThriftReader:
    """Reads structs. `at` is where the next one begins."""

    __slots__ = ("_raw", "at")

    def __init__(self, raw: memoryview) -> None:
        self._raw = raw
        self.at = 0

    def struct(self, depth: int = 0) -> Struct:
        """The struct that begins here.

        Raises:
            InvalidInput: it is none, or is cut short.
        """
        if depth > _DEEPEST:
            raise InvalidInput("the Parquet file is broken: its metadata is nested too deeply")
        found: Struct = {}
        number = 0
        while (head := self._byte()) != _STOP:
            step, kind = head >> 4, head & 0x0F
            number = number + step if step else self._zigzag()
            if kind in (_TRUE, _FALSE):
                found[number] = kind == _TRUE
            else:
                value = self._value(kind, depth)
                if value is not None:
                    found[number] = value
        return found

    def _byte(self) -> int:
        if self.at >= len(self._raw):
            raise InvalidInput("the Parquet file is broken: it ends within its metadata")
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
        raise InvalidInput("the Parquet file is broken: a number in its metadata is too long")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _counted(self) -> int:
        count = self._varint()
        if count > len(self._raw) - self.at:
            raise InvalidInput("the Parquet file is broken: its metadata claims more than it has")
        return count

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _INTEGERS:
            return self._zigzag()
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind == _BINARY:
            length = self._counted()
            self.at += length
            return bytes(self._raw[self.at - length : self.at])
        if kind in (_LIST, _SET):
            return self._list(depth + 1)
        if kind == _MAP:
            count = self._counted()
            kinds = self._byte() if count else 0
            for _ in range(count):
                self._item(kinds >> 4, depth + 1)
                self._item(kinds & 0x0F, depth + 1)
            return None
        if kind == _DOUBLE:
            self.at += 8
            return None
        if kind == _BYTE:
            return self._byte()
        raise InvalidInput("the Parquet file is broken: its metadata has a field of an unknown type")

    def _list(self, depth: int) -> list[Any]:
        if depth > _DEEPEST:
            raise InvalidInput("the Parquet file is broken: its metadata is nested too deeply")
        head = self._byte()
        count = head >> 4
        if count == 15:
            count = self._counted()
        return [self._item(head & 0x0F, depth) for _ in range(count)]

    def _item(self, kind: int, depth: int) -> Any:
        if kind in (_TRUE, _FALSE):
            return self._byte() == _TRUE  # inside a collection a bool has a byte of its own
        return self._value(kind, depth)
