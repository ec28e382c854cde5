"""Frames of pandas and tables of pyarrow: from JSON and files, to them, and from one class to another.

Rule 1: this is the one file that imports pandas, when a frame is at hand. Between the wire and pandas there is always a
table of Arrow.
Rule 2: an index that has a name is columns, which come first; one without is the number of a row, which is not sent;
    where it is text, times or the like, it is a column `index` of a frame.
Rule 3: no value changes: integers with nulls become pandas's `Int64`, since a float would round them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import orjson
import pyarrow as pa

from trilith.errors import InvalidInput
from trilith.service.codecs import table_files, table_json, tables
from trilith.service.codecs.tables import ChunkedArray, Table
from trilith.service.constraints import Frame
from trilith.service.kinds import ValueType

if TYPE_CHECKING:
    import pandas as pd

_NOT_ARROW: Final = (pa.ArrowException, ValueError, TypeError, NotImplementedError, OverflowError)
_UNNAMED: Final = "0"
"""The column of a series without a name."""

_INTEGERS: Final = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
_CLASSES: Final = {"dataframe": "pandas.DataFrame", "series": "pandas.Series", "table": "pyarrow.Table"}


def library_of(value: object) -> str:
    """`dataframe`, `series` or `table`; "" of what is no frame."""
    if isinstance(value, Table):
        return "table"
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return ""
    if isinstance(value, pandas.DataFrame):
        return "dataframe"
    return "series" if isinstance(value, pandas.Series) else ""


def from_json(value: Any, one: ValueType) -> Any:
    """A frame from its JSON form. `one` says of which class it is, and which columns it must have.

    Raises:
        InvalidInput: see `table_json.py`.
    """
    read = table_json.series_from_json if one.library == "series" else table_json.from_json
    return from_table(read(value, declared(one)), one.library)


def from_file(body: bytes | memoryview, kind: str, one: ValueType, *, charset: str = "") -> Any:
    """A frame from a file of the media type `kind`.

    Raises:
        InvalidInput: see `table_files.py`.
    """
    return from_table(table_files.from_file(body, kind, declared(one), charset=charset), one.library)


def take(value: Any, one: ValueType) -> Any:
    """A frame that came as one, in the declared class, with the declared columns.

    Raises:
        InvalidInput: it is none, or has other columns.
    """
    frame = declared(one)
    if library_of(value) == one.library and frame is None:
        return value
    try:
        return from_table(tables.fit(to_table(value), frame), one.library)
    except TypeError as error:
        raise InvalidInput(str(error)) from error


def result_table(value: Any, one: ValueType) -> Table:
    """What a method returned, as a table with the declared columns.

    Raises:
        TypeError: it is of another class than declared, or cannot be sent.
        InvalidInput: it has other columns.
    """
    if library_of(value) != one.library:
        raise TypeError(f"expected a {_CLASSES[one.library]}, got {type(value).__name__}")
    return tables.fit(to_table(value), declared(one))


def declared(one: ValueType) -> Frame | None:
    """The columns that an annotation asks for."""
    return one.constraint if isinstance(one.constraint, Frame) else None


def to_json(value: Any, one: ValueType | None = None) -> Any:
    """The JSON form of a frame: lists, objects and values.

    Raises:
        TypeError: it has none.
    """
    table = to_table(value)
    if library_of(value) == "series" or (one is not None and one.library == "series"):
        return table_json.values_of(table.column_names[-1], table.column(table.num_columns - 1))
    return table_json.to_json(table, None if one is None else declared(one))


def to_json_bytes(value: Any, one: ValueType) -> bytes:
    """A frame, a list of frames, or None, as JSON.

    Raises:
        TypeError: it has no form in JSON.
    """
    if value is None:
        return b"null"
    whole = [to_json(frame, one) for frame in value] if isinstance(value, list) else to_json(value, one)
    return orjson.dumps(whole)


def to_table(value: Any) -> Table:
    """A frame of any of the three classes as a table.

    Raises:
        TypeError: it is none, or has something that Arrow has not.
    """
    library = library_of(value)
    if library == "table":
        table = value
    elif library:
        table = _from_pandas(value, library)
    else:
        raise TypeError(f"expected a frame, got {type(value).__name__}")
    for field in table.schema:
        if isinstance(field.type, pa.BaseExtensionType):
            raise TypeError(f"column `{field.name}` is of the type {field.type}, which cannot be sent")
    if len(set(table.column_names)) != table.num_columns:
        raise TypeError("a frame with two columns of one name cannot be sent")
    return table.replace_schema_metadata(None)


def _from_pandas(value: Any, library: str) -> Table:
    frame = value.to_frame(_UNNAMED if value.name is None else value.name) if library == "series" else value
    index = frame.index
    if any(name is not None for name in index.names):
        if any(name is None for name in index.names):
            raise TypeError("an index of which some levels have no name cannot be sent; name all, or reset_index()")
        try:
            frame = frame.reset_index()
        except ValueError as error:
            raise TypeError(f"the index cannot be sent as columns: {error}") from error
    elif index.nlevels == 1 and library == "dataframe" and index.inferred_type not in ("integer", "empty"):
        if "index" in frame.columns:
            raise TypeError("its index has no name, and a column has the name `index`, which the index would get")
        frame = frame.reset_index()
    elif index.nlevels > 1 or index.inferred_type not in ("integer", "empty"):
        raise TypeError(
            f"an index of {index.inferred_type} values without a name cannot be sent: name it "
            "(`frame.index.name = ...`) to have it as a column, or drop it: `frame.reset_index(drop=True)`"
        )
    odd = [name for name in frame.columns if type(name) is not str and not hasattr(name, "__index__")]
    if odd:
        raise TypeError(f"the names of columns are text or integers, got {odd[0]!r}")
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except _NOT_ARROW as error:
        raise TypeError(f"the frame cannot be sent: {str(error)[:200]}") from error


def from_table(table: Table, library: str) -> Any:
    """A table as a frame of a class.

    Raises:
        InvalidInput: pandas has no such values.
    """
    if library == "table":
        return table
    if library == "series" and table.num_columns != 1:
        raise InvalidInput(f"expected a frame of one column, got {table.num_columns}")
    import pandas as pd

    try:
        columns = {name: _to_pandas(table.column(name)) for name in table.column_names}
        if library == "series":
            [(name, series)] = columns.items()
            return series.copy().rename(None if name == _UNNAMED else name)
        return pd.DataFrame(columns, index=pd.RangeIndex(table.num_rows), copy=True)
    except _NOT_ARROW as error:
        raise InvalidInput(f"pandas does not read the frame: {str(error)[:200]}") from error


def _to_pandas(column: ChunkedArray) -> pd.Series[Any]:
    """A column of pandas; nothing that the table says of pandas's own classes is believed."""
    if not column.null_count or not (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
        return column.to_pandas(ignore_metadata=True)
    import pandas as pd

    kinds: dict[Any, Any] = {pa.type_for_alias(name.lower()): getattr(pd, f"{name}Dtype")() for name in _INTEGERS}
    kinds[pa.bool_()] = pd.BooleanDtype()
    return column.to_pandas(ignore_metadata=True, types_mapper=kinds.get)


def to_ipc(value: Any) -> tuple[bytes, str]:
    """A frame as a stream of Arrow, and its class: how it goes from service to service.

    Raises:
        TypeError: it cannot be sent.
    """
    from trilith.service.codecs import media

    return table_files.to_file(to_table(value), media.ARROW), library_of(value)


def from_ipc(raw: memoryview, library: Any) -> Any:
    """The inverse of `to_ipc`.

    Raises:
        InvalidInput: it is none.
    """
    from trilith.service.codecs import media

    if library not in _CLASSES:
        raise InvalidInput(f"a frame has one of the classes {', '.join(_CLASSES)}; got {str(library)[:50]!r}")
    return from_table(table_files.from_file(raw, media.ARROW, None), library)


def schema(one: ValueType) -> dict[str, Any]:
    """The JSON schema of a frame's JSON form."""
    frame = declared(one)
    if one.library == "series":
        return {"type": "array", "items": _cell(frame, next(iter(frame.columns), "")) if frame is not None else {}}
    if frame is None or not frame.columns:
        return {"title": "frame", "type": ["array", "object"]}
    cells = {name: _cell(frame, name) for name in frame.columns}
    names = list(cells)
    row = {"type": "object", "properties": cells, "required": names, "additionalProperties": frame.extra}
    lists = {name: {"type": "array", "items": cell} for name, cell in cells.items()}
    records = {"type": "array", "items": row}
    columns = {"type": "object", "properties": lists, "required": names, "additionalProperties": frame.extra}
    split = {
        "type": "object",
        "properties": {
            "columns": {"type": "array", "items": {"type": "string"}},
            "data": {"type": "array", "items": {"type": "array"}},
        },
        "required": ["columns", "data"],
    }
    forms = {"records": records, "columns": columns, "split": split}
    return {"title": "frame", "anyOf": [forms.pop(frame.orient), *forms.values()]}


def _cell(frame: Frame | None, name: str) -> dict[str, Any]:
    if frame is None or name not in frame.columns:
        return {}
    one = table_json.json_type(frame.dtype(name))
    nulls = frame.nullable(name) or one.get("type") == "number"
    return {"anyOf": [one, {"type": "null"}]} if nulls and one else one
