"""Frames as files: CSV, Parquet, and Arrow's IPC stream and file.

Rule 1: what a file will take once it is read is worked out from its bytes (`parquet_pages.py`, `arrow_messages.py`),
and bounded, before a library reads it. What it says of itself at its end is not believed.
Rule 2: CSV has no types: without declared columns they are guessed, column by column. Text that is quoted and empty is
empty text, a field with nothing in it is null.
"""

from __future__ import annotations

import csv
import io
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

from trilith.errors import InvalidInput
from trilith.service.codecs import media
from trilith.service.codecs.arrow_messages import FILE_MAGIC, decompressed_bytes
from trilith.service.codecs.charsets import decoded, is_utf8
from trilith.service.codecs.parquet_pages import parquet_size
from trilith.service.codecs.tables import MAX_FRAME_BYTES, Table, arrow_type, check_size, checked, fit, spread
from trilith.service.constraints import Frame

_MAX_TEXTS: Final = 16 << 20
_MAX_ITEMS: Final = 1_000_000  # columns, row groups, keys that a footer may have
_NOT_READ: Final = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, NotImplementedError, OverflowError)


def from_file(body: bytes | memoryview, kind: str, frame: Frame | None, *, charset: str = "") -> Table:
    """The table in a file.

    Args:
        body: the whole file.
        kind: its media type, one of `media.FRAMES`.
        frame: the declared columns.
        charset: of CSV.

    Raises:
        InvalidInput: it is no such file, is broken, or has other columns.
        PayloadTooLarge: it would take too much once it is read.
        UnsupportedMediaType: there is no such charset.
    """
    view = memoryview(body)
    try:
        if kind == media.CSV:
            return fit(_from_csv(_as_utf8(view, charset), frame), frame, text=True)
        table = checked(_from_parquet(view) if kind in media.PARQUETS else _from_arrow(view))
    except InvalidInput:
        raise
    except _NOT_READ as error:
        raise InvalidInput(f"expected {_SHOWN[kind]}: {str(error)[:200]}") from error
    return fit(table, frame)


_SHOWN: Final = {
    media.CSV: "a CSV file",
    **dict.fromkeys(media.PARQUETS, "a Parquet file"),
    **dict.fromkeys(media.ARROWS, "a stream or file of Arrow (IPC)"),
}


def _as_utf8(body: memoryview, charset: str) -> memoryview:
    return body if is_utf8(charset) else memoryview(decoded(bytes(body), charset).encode())


def _from_csv(body: memoryview, frame: Frame | None) -> Table:
    try:
        names = next(csv.reader(io.TextIOWrapper(io.BytesIO(body), "utf-8-sig", newline="")), [])
    except (csv.Error, UnicodeError) as error:
        raise InvalidInput(f"expected a CSV file whose first line has the names of its columns: {error}") from error
    if not names:
        raise InvalidInput("expected a CSV file whose first line has the names of its columns; it is empty")
    if len(set(names)) != len(names):
        raise InvalidInput("the CSV file has two columns of one name")
    check_size(1, len(names))
    declared = {} if frame is None else {name: arrow_type(frame.dtype(name)) for name in frame.columns}
    types = {name: pa.string() if pa.types.is_dictionary(kind) else kind for name, kind in declared.items() if kind}
    table = pa.csv.read_csv(
        pa.BufferReader(pa.py_buffer(body)),
        read_options=pa.csv.ReadOptions(use_threads=False, block_size=min(max(len(body) + 1, 1024), (1 << 31) - 1)),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=len(names) > 1),
        convert_options=pa.csv.ConvertOptions(
            column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
    check_size(table.num_rows, table.num_columns)
    return table


def _from_parquet(body: memoryview) -> Table:
    size = parquet_size(body)
    check_size(size.rows, size.columns)
    check_size(size.values, 1, size.size_bytes)
    if size.spread_bytes <= MAX_FRAME_BYTES:
        return _opened(body, []).read(use_threads=False)
    # Texts that stand there many times are looked at as such first, and spread out when that is not too much.
    compact = checked(_opened(body, sorted(size.texts)).read(use_threads=False))
    return compact.cast(_opened(body, []).schema_arrow)


def _opened(body: memoryview, as_dictionaries: list[str]) -> Any:
    return pa.parquet.ParquetFile(
        pa.BufferReader(pa.py_buffer(body)),
        read_dictionary=as_dictionaries,
        thrift_string_size_limit=_MAX_TEXTS,
        thrift_container_size_limit=_MAX_ITEMS,
    )


def _from_arrow(body: memoryview) -> Table:
    stream = body[len(FILE_MAGIC) :] if bytes(body[: len(FILE_MAGIC)]) == FILE_MAGIC else body
    size_bytes, rows = decompressed_bytes(stream)
    check_size(rows, 1, size_bytes)
    options = pa.ipc.IpcReadOptions(use_threads=False)
    with pa.ipc.open_stream(pa.BufferReader(pa.py_buffer(stream)), options=options) as reader:
        check_size(rows, len(reader.schema))
        return reader.read_all()


def to_file(table: Table, kind: str) -> bytes:
    """The table as a file.

    Raises:
        TypeError: that format has no form for a column.
    """
    sink = io.BytesIO()
    try:
        if kind == media.CSV:
            flat = pa.table({name: spread(table.column(name)) for name in table.column_names})
            pa.csv.write_csv(flat, sink)
        elif kind in media.PARQUETS:
            pa.parquet.write_table(table, sink)
        elif kind == media.ARROW_FILE:
            with pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
        else:
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
    except _NOT_READ as error:
        raise TypeError(f"the frame cannot be written as {kind}: {str(error)[:200]}") from error
    return sink.getvalue()
