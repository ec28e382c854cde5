"""Tables of Arrow: which columns travel, how large one may be, and whether it has the columns that a method declares.

Rule 1: no extension type is read: what one means is decided by code that its name picks.
Rule 2: what few bytes can claim is bounded by what it would take once it is spread out, before anything is.
Rule 3: a table that came from elsewhere is validated in full before a value of it is looked at: Arrow itself trusts
offsets.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ChunkedArray as ChunkedArray
from pyarrow import Table as Table

from trilith.errors import InvalidInput, PayloadTooLarge
from trilith.service.codecs.unfolded import spend
from trilith.service.constraints import ANY, Frame

MAX_FRAME_BYTES: Final = 1 << 30
"""What a frame may take once it is read."""

MAX_COLUMNS: Final = 10_000


_CELL_BYTES: Final = 8  # what a value takes at least, once it is a Python object or a double
_SHOWN: Final = 20


def check_size(rows: int, columns: int, size_bytes: int = 0) -> None:
    """Looks at what a frame will take, before it is read.

    Raises:
        PayloadTooLarge: too much.
    """
    if columns > MAX_COLUMNS:
        raise PayloadTooLarge(f"a frame may have at most {MAX_COLUMNS:,} columns, got {columns:,}")
    taken = max(size_bytes, rows * max(1, columns) * _CELL_BYTES)
    if taken > MAX_FRAME_BYTES:
        raise PayloadTooLarge(
            f"the frame would take {taken >> 20:,} MiB once it is read ({rows:,} rows, {columns:,} columns); at most "
            f"{MAX_FRAME_BYTES >> 20:,} MiB are read"
        )


def checked(table: Table) -> Table:
    """A table that came from elsewhere, when it is sound.

    Raises:
        InvalidInput: it is not, has a column of a type that is not read, or two of one name.
        PayloadTooLarge: it is too large once it is spread out.
    """
    check_size(table.num_rows, table.num_columns)
    _check_names(table.column_names)
    for field in table.schema:
        if not _travels(field.type):
            raise InvalidInput(f"column `{field.name}` is of the type {field.type}, which is not read")
    try:
        table.validate(full=True)
    except (pa.ArrowException, ValueError) as error:
        raise InvalidInput(f"the frame is broken: {str(error)[:200]}") from error
    spread = sum(_spread_bytes(column) for column in table.columns)
    check_size(table.num_rows, table.num_columns, spread)
    spend(spread)
    return table.replace_schema_metadata(None)


def _check_names(names: list[str]) -> None:
    if len(set(names)) != len(names):
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise InvalidInput(f"the frame has two columns of the name `{twice}`")


def _travels(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return False
    if pa.types.is_dictionary(kind):
        return _is_simple(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _travels(kind.value_type) and not pa.types.is_null(kind.value_type)
    if pa.types.is_struct(kind):
        _check_names([field.name for field in kind])  # a name that is no text raises as it is read
        return all(_travels(field.type) and not pa.types.is_null(field.type) for field in kind)
    return _is_simple(kind) or pa.types.is_null(kind)


def _is_simple(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal128(kind)
        or pa.types.is_temporal(kind)
        or is_text(kind)
        or is_bytes(kind)
    )


def is_text(kind: pa.DataType) -> bool:
    """Whether it is a type of text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Whether it is a type of bytes."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _spread_bytes(column: ChunkedArray) -> int:
    """Bytes of a column's values, each counted where it stands: a dictionary has them once."""
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    total = 0
    for chunk in column.chunks:
        values = chunk.dictionary
        if is_text(values.type) or is_bytes(values.type):
            total += pc.sum(pc.binary_length(values).take(chunk.indices)).as_py() or 0
        else:
            total += _CELL_BYTES * len(chunk)
    return total


def spread(column: ChunkedArray) -> ChunkedArray:
    """The column, a dictionary's values each where they stand."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def arrow_type(dtype: str) -> pa.DataType | None:
    """The type of a column that a `Frame` declares; None for any."""
    if dtype == ANY:
        return None
    if dtype == "category":
        return pa.dictionary(pa.int32(), pa.string())
    if dtype.startswith("datetime64["):
        unit, _, zone = dtype[len("datetime64[") : -1].partition(",")
        return pa.timestamp(unit, zone.strip() or None)
    names = {"str": "string", "bytes": "binary", "date": "date32"}
    return pa.type_for_alias(names.get(dtype, dtype))


def fit(table: Table, frame: Frame | None, *, text: bool = False) -> Table:
    """The table with the declared columns, in their order and types, when no value changes by that.

    Args:
        table: sound (`checked`, or the service's own).
        frame: what is declared; None for anything.
        text: whether dates and bytes may come as text, as JSON and CSV have them.

    Raises:
        InvalidInput: columns are missing, unknown or of another type; all of them are named.
    """
    if frame is None or not (frame.columns or not frame.extra):
        return table
    found = set(table.column_names)
    problems = [f"column `{name}` is missing" for name in frame.columns if name not in found]
    others = [name for name in table.column_names if name not in frame.columns]
    if not frame.extra:
        problems += [f"column `{name}` is not known" for name in others]
    columns: dict[str, Any] = {}
    for name in frame.columns:
        if name in found:
            try:
                columns[name] = _fit_column(table.column(name), frame, name, text)
            except ValueError as error:  # pyarrow's are that too
                problems.append(f"column `{name}`: {str(error)[:200]}")
    if problems:
        more = [f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
        declared = ", ".join(f"{name}: {dtype}" for name, dtype in list(frame.columns.items())[:_SHOWN])
        raise InvalidInput(f"{'; '.join(problems[:_SHOWN] + more)}. The frame has the columns {declared}")
    return pa.table(columns | {name: table.column(name) for name in others})


def _fit_column(column: ChunkedArray, frame: Frame, name: str, text: bool) -> ChunkedArray:
    dtype = frame.dtype(name)
    wanted = arrow_type(dtype)
    if wanted is not None and column.type != wanted:
        column = _as_type(column, wanted, dtype, text)
    if column.null_count and not frame.nullable(name):
        if not pa.types.is_floating(column.type):
            raise ValueError(f"{column.null_count} nulls, and it is declared without ({dtype}? would allow them)")
        column = column.fill_null(float("nan"))
    return column


def _as_type(column: ChunkedArray, wanted: pa.DataType, dtype: str, text: bool) -> ChunkedArray:
    found = column.type
    if pa.types.is_dictionary(wanted):
        plain = spread(column)
        if not (is_text(plain.type) or pa.types.is_null(plain.type)):
            raise ValueError(f"expected {dtype}, got {found}")
        return plain.cast(pa.string()).dictionary_encode().cast(wanted)
    column = spread(column)
    found = column.type
    if found == wanted or pa.types.is_null(found):
        return column.cast(wanted)
    if not _reachable(found, wanted, text):
        raise ValueError(f"expected {dtype}, got {found}")
    if not pa.types.is_floating(wanted):
        return column.cast(wanted)
    # Floats may lose precision, but no number becomes infinite.
    narrow = column.cast(pa.float64(), safe=False).cast(wanted, safe=False)
    if _infinities(narrow) > (_infinities(column) if pa.types.is_floating(found) else 0):
        raise ValueError(f"a value is too large for {dtype}")
    return narrow


def _infinities(column: ChunkedArray) -> int:
    wide = column.cast(pa.float64(), safe=False)
    return int(pc.sum(pc.is_inf(wide)).as_py() or 0)


def _reachable(found: pa.DataType, wanted: pa.DataType, text: bool) -> bool:
    kinds = pa.types
    if kinds.is_integer(wanted):
        return bool(kinds.is_integer(found))
    if kinds.is_floating(wanted):
        return bool(kinds.is_integer(found) or kinds.is_floating(found))
    if kinds.is_timestamp(wanted):
        zoned = (getattr(found, "tz", None) is None) == (wanted.tz is None)
        return bool((kinds.is_timestamp(found) and zoned) or kinds.is_date(found) or (text and is_text(found)))
    if kinds.is_date(wanted):
        return bool(kinds.is_date(found) or (text and is_text(found)))
    return (is_text(wanted) and is_text(found)) or (is_bytes(wanted) and is_bytes(found))
