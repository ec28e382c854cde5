"""Frames as JSON: a list of objects, an object of lists, or `columns` and `data`.

Rule 1: each form is read, whichever is written: they cannot be mistaken for each other.
Rule 2: a cell is a number, text, a bool or null, and a column holds one kind of them. Dates are ISO 8601 text, bytes
base64 text.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from trilith.errors import InvalidInput
from trilith.service.codecs.tables import ChunkedArray, Table, arrow_type, check_size, fit, is_bytes, is_text, spread
from trilith.service.constraints import Frame

_SPLIT: Final = ({"columns", "data"}, {"columns", "index", "data"})
_NAMES: Final = {int: "integers", float: "floats", bool: "bools", str: "text", dict: "objects", list: "lists"}
_FORMS: Final = "a list of objects, an object of lists, or an object with `columns` and `data`"


def from_json(value: Any, frame: Frame | None) -> Table:
    """The table in a value that came as JSON.

    Raises:
        InvalidInput: it is in none of the forms, rows differ in their columns, or a column is not as declared.
    """
    columns = _columns(value)
    if not columns and frame is not None and not value:
        columns = {name: [] for name in frame.columns}
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        raise InvalidInput(f"expected columns of equal lengths, got from {min(lengths)} to {max(lengths)} values")
    check_size(max(lengths, default=0), len(columns))
    found = {}
    for name, values in columns.items():
        declared = frame.dtype(name) if frame is not None and name in frame.columns else "any"
        try:
            found[name] = _column(values, declared)
        except (ValueError, binascii.Error) as error:
            raise InvalidInput(f"column `{name}`: {str(error)[:200]}") from error
    return fit(pa.table(found), frame, text=True)


def series_from_json(value: Any, frame: Frame | None) -> Table:
    """A table of one column from a list of its values."""
    if not isinstance(value, list) or any(type(one) is dict for one in value[:1]):
        return from_json(value, frame)
    name = next(iter(frame.columns), "0") if frame is not None else "0"
    return from_json({name: value}, frame)


def _columns(value: Any) -> dict[str, list[Any]]:
    if isinstance(value, list):
        return _of_records(value)
    if not isinstance(value, dict):
        raise InvalidInput(f"expected a frame as {_FORMS}, got {_NAMES.get(type(value), 'null')}")
    if set(value) in _SPLIT and isinstance(value["columns"], list):
        return _of_split(value["columns"], value["data"])
    if all(type(column) is list for column in value.values()):
        return value
    if all(type(column) is dict for column in value.values()):  # as pandas's `to_json()` writes it
        [first, *others] = (list(column) for column in value.values())
        if any(index != first for index in others):
            raise InvalidInput("expected a frame whose columns have the same rows")
        return {name: list(column.values()) for name, column in value.items()}
    raise InvalidInput(f"expected a frame as {_FORMS}")


def _of_records(rows: list[Any]) -> dict[str, list[Any]]:
    if not rows:
        return {}
    if set(map(type, rows)) != {dict}:
        raise InvalidInput(f"expected a frame as {_FORMS}; the list holds something else than objects")
    names = list(rows[0])
    keys = rows[0].keys()
    for at, row in enumerate(rows):
        if row.keys() != keys:
            odd = sorted(row.keys() ^ keys)[:5]
            raise InvalidInput(f"expected rows of the same columns; row {at} differs in {', '.join(odd)}")
    check_size(len(rows), len(names))
    return {name: [row[name] for row in rows] for name in names}


def _of_split(names: list[Any], rows: Any) -> dict[str, list[Any]]:
    if set(map(type, names)) - {str} or len(set(names)) != len(names):
        raise InvalidInput("expected `columns` as a list of different names")
    if not isinstance(rows, list) or set(map(type, rows)) - {list} or {len(row) for row in rows} - {len(names)}:
        raise InvalidInput(f"expected `data` as a list of rows of {len(names)} values each")
    check_size(len(rows), len(names))
    return {name: [row[at] for row in rows] for at, name in enumerate(names)}


def _column(values: list[Any], dtype: str) -> pa.Array:
    kinds = set(map(type, values)) - {type(None)}
    if not kinds:
        return pa.nulls(len(values))
    if kinds == {str}:
        if dtype == "bytes":
            return pa.array([None if one is None else base64.b64decode(one, validate=True) for one in values])
        return pa.array(values, pa.string())
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds == {int} and not _is_float(dtype):
        return _integers(values)
    if kinds <= {int, float}:
        found = pa.array([None if one is None else float(one) for one in values], pa.float64())
        if pc.any(pc.is_inf(found)).as_py():
            raise ValueError("a number is too large, or an infinity, which JSON does not have")
        return found
    got = ", ".join(sorted(_NAMES.get(kind, kind.__name__) for kind in kinds))
    raise ValueError(f"expected numbers, text or bools, all of one kind; got {got}")


def _is_float(dtype: str) -> bool:
    return dtype.startswith("float")


def _integers(values: list[Any]) -> pa.Array:
    for kind in (pa.int64(), pa.uint64()):
        try:
            return pa.array(values, kind)
        except (OverflowError, pa.ArrowInvalid):
            continue
    raise ValueError("expected integers that fit into 64 bits; there are larger ones")


def to_json(table: Table, frame: Frame | None) -> Any:
    """The table as lists, objects and values of JSON.

    Raises:
        TypeError: a column has no form in JSON.
    """
    names, columns = table.column_names, [values_of(name, table.column(name)) for name in table.column_names]
    orient = "records" if frame is None else frame.orient
    if orient == "columns":
        return dict(zip(names, columns, strict=True))
    rows = zip(*columns, strict=True) if columns else iter(())
    if orient == "split":
        return {"columns": names, "data": [list(row) for row in rows]}
    return [dict(zip(names, row, strict=True)) for row in rows]


def values_of(name: str, column: ChunkedArray) -> list[Any]:
    """The values of a column as JSON has them; NaN is left to whoever writes."""
    column = spread(column)
    kind, kinds = column.type, pa.types
    if kinds.is_duration(kind):
        raise TypeError(f"column `{name}`: a duration has no form in JSON; return seconds as floats")
    if kinds.is_timestamp(kind):
        column = pc.replace_substring(column.cast(pa.string()), " ", "T", max_replacements=1)
    elif kinds.is_temporal(kind) or kinds.is_decimal(kind):
        column = column.cast(pa.string())
    elif kinds.is_float16(kind):
        column = column.cast(pa.float32())
    values: list[Any] = column.to_pylist()
    if is_bytes(kind):
        return [None if one is None else base64.b64encode(one).decode() for one in values]
    return values


def json_type(dtype: str) -> dict[str, Any]:
    """The JSON schema of the values of a declared column, nulls left out."""
    kind = arrow_type(dtype)
    if kind is None:
        return {}
    kinds = pa.types
    if kinds.is_integer(kind):
        return {"type": "integer"}
    if kinds.is_floating(kind):
        return {"type": "number"}
    if kinds.is_boolean(kind):
        return {"type": "boolean"}
    if kinds.is_date(kind):
        return {"type": "string", "format": "date"}
    if is_text(kind) or kinds.is_timestamp(kind) or kinds.is_dictionary(kind):
        return {"type": "string"}
    return {"type": "string", "contentEncoding": "base64"}
