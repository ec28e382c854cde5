"""What an annotation may ask beside the type: `Annotated[NDArray[np.float32], trilith.Shape(None, 3)]`.

Rule 1: these are plain values. What they ask is looked at by the codecs, in every encoding, of arguments and results.
Rule 2: no library is loaded here; a dtype is a name.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

from trilith.errors import InvalidConfig

ANY: Final = "any"
"""The dtype of a column that may be of every type."""

_NAMES: Final[dict[Any, str]] = {
    int: "int64",
    float: "float64",
    bool: "bool",
    str: "str",
    bytes: "bytes",
    datetime.datetime: "datetime64[us]",
    datetime.date: "date",
}
_ALIASES: Final = {
    "int": "int64",
    "float": "float64",
    "string": "str",
    "object": "str",
    "boolean": "bool",
    "bool_": "bool",
    "datetime": "datetime64[us]",
    "datetime64": "datetime64[us]",
}
_DTYPES: Final = re.compile(
    r"any|bool|u?int(8|16|32|64)|float(16|32|64)|str|bytes|category|date"
    r"|datetime64\[(s|ms|us|ns)(, ?[A-Za-z0-9_+:/-]+)?\]"
)
_PANDAS_NULLABLE: Final = re.compile(r"U?Int(8|16|32|64)|Float(32|64)")
_MEDIA: Final = re.compile(r"[a-z0-9!#$&^_.+-]+/(\*|[a-z0-9!#$&^_.+-]+)|\*/\*")

Orient = Literal["records", "columns", "split"]
_ORIENTS: Final = ("records", "columns", "split")


class _InModels:
    """What makes a type inside `Annotated` one that a pydantic model may have as a field."""

    __slots__ = ()

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """pydantic's hook: read and written as an argument of that type is."""
        from trilith.service.codecs.types import schema_of_field

        return schema_of_field(source, self, handler)


@dataclass(frozen=True, slots=True, init=False)
class Shape(_InModels):
    """The shape that an array must have: `Shape(None, 3)` is any number of rows of three.

    Attributes:
        sizes: of each dimension; None for one of any size, a text for one that is the same wherever it stands.
    """

    sizes: tuple[int | str | None, ...]

    def __init__(self, *sizes: int | str | None) -> None:
        for size in sizes:
            if not (size is None or isinstance(size, str) or (type(size) is int and size >= 0)):
                raise InvalidConfig(f"Shape takes sizes from 0, names, or None for any; got {size!r}")
        object.__setattr__(self, "sizes", sizes)

    def __str__(self) -> str:
        shown = ", ".join("any" if size is None else str(size) for size in self.sizes)
        return f"({shown},)" if len(self.sizes) == 1 else f"({shown})"

    def problem(self, shape: tuple[int, ...]) -> str:
        """Why a shape is not this one; "" when it is."""
        named: dict[str, int] = {}
        fits = len(shape) == len(self.sizes) and all(
            wanted is None or (named.setdefault(wanted, size) == size if isinstance(wanted, str) else wanted == size)
            for wanted, size in zip(self.sizes, shape, strict=True)
        )
        return "" if fits else f"expected an array of shape {self}, got {tuple(shape)}"


@dataclass(frozen=True, slots=True, init=False)
class DType(_InModels):
    """The dtype that an array must have, where its class has no room for it: `Annotated[torch.Tensor, DType(...)]`.

    Attributes:
        name: numpy's name of it.
    """

    name: str

    def __init__(self, name: Any) -> None:
        found = _dtype_name(name)
        if not found:
            raise InvalidConfig(f"DType takes the name of a dtype, like 'float32'; got {name!r}")
        object.__setattr__(self, "name", found)


@dataclass(frozen=True, slots=True, init=False)
class ContentType(_InModels):
    """The media types that a file, bytes or an image may be of: `ContentType("audio/*")`, `ContentType("image/png")`.

    A result of one type (no `*`) is answered as that.

    Attributes:
        patterns: in lower case.
    """

    patterns: tuple[str, ...]

    def __init__(self, *patterns: str) -> None:
        lowered = tuple(str(pattern).strip().lower() for pattern in patterns)
        if not lowered or not all(_MEDIA.fullmatch(pattern) for pattern in lowered):
            raise InvalidConfig(f"ContentType takes media types, like 'audio/*' or 'image/png'; got {patterns}")
        object.__setattr__(self, "patterns", lowered)

    def __str__(self) -> str:
        return ", ".join(self.patterns)

    def fits(self, media: str) -> bool:
        """Whether a media type is one of them."""
        return any(
            pattern in ("*/*", media) or (pattern.endswith("/*") and media.startswith(pattern[:-1]))
            for pattern in self.patterns
        )

    @property
    def exact(self) -> str:
        """The one type that it is; "" when it may be one of several."""
        return self.patterns[0] if len(self.patterns) == 1 and "*" not in self.patterns[0] else ""


@dataclass(frozen=True, slots=True, init=False)
class Frame(_InModels):
    """The columns that a frame must have: `Frame(columns={"age": "int64", "name": "str?"})`.

    A dtype is a Python type (`int`), numpy's or pandas's name (`"float32"`, `"datetime64[us]"`, `"category"`) or
    `"any"`. With a `?` after it a column may have nulls; a float column may without, they are its NaN.

    Attributes:
        columns: dtypes by name, in the order that the frame will have; empty for columns of any name and type.
        orient: the form in JSON of a result: `records` (a list of objects), `columns` (an object of lists) or `split`
            (`columns` and `data`). Each is read.
        extra: whether there may be other columns, which then come last.
    """

    columns: Mapping[str, str]
    orient: Orient
    extra: bool

    def __init__(
        self,
        columns: Mapping[str, Any] | Iterable[str] = (),
        *,
        orient: Orient = "records",
        extra: bool = False,
    ) -> None:
        named = columns if isinstance(columns, Mapping) else dict.fromkeys(columns, ANY)
        if orient not in _ORIENTS:
            raise InvalidConfig(f"Frame: orient is one of {', '.join(_ORIENTS)}; got {orient!r}")
        found = {name: _column_dtype(name, dtype) for name, dtype in named.items()}
        object.__setattr__(self, "columns", MappingProxyType(found))
        object.__setattr__(self, "orient", orient)
        object.__setattr__(self, "extra", extra or not found)

    def __hash__(self) -> int:
        return hash((tuple(self.columns.items()), self.orient, self.extra))

    def nullable(self, name: str) -> bool:
        """Whether a column may have nulls."""
        return self.columns[name].endswith("?") or self.columns[name] == ANY

    def dtype(self, name: str) -> str:
        """The dtype of a column, without its `?`."""
        return self.columns[name].removesuffix("?")


def _column_dtype(name: Any, dtype: Any) -> str:
    if not isinstance(name, str):
        raise InvalidConfig(f"Frame: the names of columns are text, got {name!r}")
    nullable = isinstance(dtype, str) and dtype.endswith("?")
    found = _dtype_name(dtype[:-1] if nullable else dtype)
    if _PANDAS_NULLABLE.fullmatch(found):
        found, nullable = found.lower(), True
    if not _DTYPES.fullmatch(found):
        raise InvalidConfig(
            f"Frame: column {name!r}: {dtype!r} is no dtype of a column; one is int64, float32, bool, str, bytes, "
            "category, date, datetime64[us] or any, with a `?` after it where nulls are allowed"
        )
    return f"{found}?" if nullable else found


def _dtype_name(dtype: Any) -> str:
    if isinstance(dtype, type):
        return _NAMES.get(dtype) or _ALIASES.get(dtype.__name__, dtype.__name__)
    found = dtype if isinstance(dtype, str) else str(getattr(dtype, "name", ""))
    return _ALIASES.get(found, found)


Constraint = Shape | ContentType | Frame


def constraint_in(metadata: Iterable[Any], kind: type[Any]) -> Any:
    """The last constraint of a kind among what an annotation carries, or None."""
    found = None
    for one in metadata:
        if isinstance(one, kind):
            found = one
    return found
