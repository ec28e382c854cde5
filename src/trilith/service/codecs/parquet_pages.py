"""How much a Parquet file holds, read from its footer and the headers of its pages before a library decodes one.

Rule 1: this reads sizes alone, from bytes that anybody may have written: every offset is looked at before it is used.
Rule 2: the footer may say what it likes. What a reader allocates is what the pages say, so they are counted.
Rule 3: the footer is read here, and not by a library that may end the process over one that contradicts itself.

Field numbers are those of parquet.thrift.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from trilith.errors import InvalidInput
from trilith.service.codecs.thrift import Struct, ThriftReader

_MAGIC: Final = b"PAR1"
_MAX_FOOTER: Final = 4 << 20
_MAX_PAGES: Final = 1_000_000
_BYTE_ARRAY: Final = 6
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 5, 7, 8  # of PageHeader; each has `num_values` as its field 1


@dataclass(slots=True, kw_only=True)
class ParquetSize:
    """What a file holds.

    Attributes:
        rows: of all row groups.
        columns: leaves of the schema.
        values: in all pages.
        size_bytes: of all pages, decompressed.
        spread_bytes: what texts may take, each of which may be the longest of its column's dictionary.
        texts: dotted names of the columns of texts or bytes.
    """

    rows: int = 0
    columns: int = 0
    values: int = 0
    size_bytes: int = 0
    spread_bytes: int = 0
    texts: set[str] = field(default_factory=set)


def parquet_size(file: memoryview) -> ParquetSize:
    """Measures a file.

    Raises:
        InvalidInput: it is none, contradicts itself, is encrypted, or refers to other files.
    """
    if len(file) < 12 or bytes(file[-4:]) != _MAGIC or bytes(file[:4]) != _MAGIC:
        raise InvalidInput("expected a Parquet file; it does not begin and end as one")
    length = int.from_bytes(file[-8:-4], "little")
    if not 0 < length <= min(_MAX_FOOTER, len(file) - 12):
        raise InvalidInput(f"the Parquet file is broken: its footer has {length:,} bytes")
    footer = ThriftReader(file[-8 - length : -8]).struct()
    if 8 in footer:  # encryption_algorithm
        raise InvalidInput("an encrypted Parquet file is not read")
    found = ParquetSize(rows=_integer(footer, 3))
    found.columns = sum(1 for element in _structs(footer, 2)[1:] if not element.get(5))  # those without children
    total = 0
    for group in _structs(footer, 4):
        rows = _integer(group, 3)
        total += rows
        _measure_group(file, group, rows, found)
    if total != found.rows:
        raise InvalidInput(f"the Parquet file is broken: it says that it has {found.rows} rows, and has {total}")
    return found


def _measure_group(file: memoryview, group: Struct, rows: int, found: ParquetSize) -> None:
    chunks = _structs(group, 1)
    if len(chunks) != found.columns:
        raise InvalidInput("the Parquet file is broken: a row group has other columns than the file")
    for chunk in chunks:
        column = chunk.get(3)
        if 1 in chunk or 8 in chunk or 9 in chunk or not isinstance(column, dict):
            raise InvalidInput("a Parquet file whose columns are elsewhere, or encrypted, is not read")
        if not rows:  # no page is read
            continue
        start, dictionary = _integer(column, 9), column.get(11, 0)
        if type(dictionary) is int and 0 < dictionary < start:
            start = dictionary
        pages = page_sizes(file, start, _integer(column, 7))
        found.size_bytes += pages.size_bytes
        found.values += pages.values
        if column.get(1) == _BYTE_ARRAY:
            found.spread_bytes += pages.dictionary_bytes * pages.values
            found.texts.add(_path(column.get(3)))


def _integer(fields: Struct, number: int) -> int:
    value = fields.get(number)
    if type(value) is not int or value < 0:
        raise InvalidInput("the Parquet file is broken: its footer lacks a number")
    return value


def _structs(fields: Struct, number: int) -> list[Struct]:
    value = fields.get(number, [])
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise InvalidInput("the Parquet file is broken: its footer lacks a list")
    return value


def _path(names: Any) -> str:
    if not isinstance(names, list) or not all(isinstance(name, bytes) for name in names):
        raise InvalidInput("the Parquet file is broken: a column has no name")
    return b".".join(names).decode("utf-8", "replace")


@dataclass(slots=True, kw_only=True)
class PageSizes:
    """What the pages of one column of one row group say.

    Attributes:
        size_bytes: of all pages, decompressed.
        values: how many values they hold.
        dictionary_bytes: of the dictionary, of which each value may be a copy.
    """

    size_bytes: int = 0
    values: int = 0
    dictionary_bytes: int = 0


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
    if not 4 <= start <= end <= len(file):
        raise InvalidInput("the Parquet file is broken: a column lies outside of it")
    found = PageSizes()
    for _ in range(_MAX_PAGES):
        if start >= end:
            return found
        reader = ThriftReader(file[start:end])
        header = reader.struct()
        size = _integer(header, 2)
        found.size_bytes += size
        if isinstance(header.get(_DICTIONARY_PAGE), dict):
            found.dictionary_bytes += size
        for kind in (_DATA_PAGE, _DATA_PAGE_V2):
            if isinstance(page := header.get(kind), dict):
                found.values += _integer(page, 1)
        start += reader.at + _integer(header, 3)
    raise InvalidInput(f"the Parquet file has a column of more than {_MAX_PAGES:,} pages")
