"""The types of a derived `.proto` that need no message of their own: scalars, and protobuf's own."""

from __future__ import annotations

import datetime
import enum
import inspect
import typing
from typing import Any, Final, NamedTuple

from trilith.service.proto.conversion import bare, is_anything
from trilith.service.proto.converter import DICTS, LISTS
from trilith.service.proto.scalars import is_textual

# Numbers of `FieldDescriptorProto.Type` and `Label`, which protobuf types as it likes.
DOUBLE, INT64, BOOL, STRING, MESSAGE, BYTES, ENUM = 1, 3, 8, 9, 11, 12, 14
OPTIONAL: Final[Any] = 1
REPEATED: Final[Any] = 3
WORDS: Final = {DOUBLE: "Double", INT64: "Int64", BOOL: "Bool", STRING: "String", BYTES: "Bytes"}
"""How a scalar is called in the name of a message that holds a list of it."""

GOOGLE: Final = {
    "Struct": "google/protobuf/struct.proto",
    "Value": "google/protobuf/struct.proto",
    "ListValue": "google/protobuf/struct.proto",
    "Timestamp": "google/protobuf/timestamp.proto",
    "Duration": "google/protobuf/duration.proto",
}
"""The files of those types of `google.protobuf` that are used."""


class Inexpressible(Exception):
    """A type that has no form in a `.proto`: a sentence that says which, and what to write instead."""


class One(NamedTuple):
    """The type of one value: its number, and the name of a message or enum."""

    number: int
    name: str = ""


def simple_type(plain: Any) -> One | str | None:
    """A scalar's type, or the name of one of `google.protobuf`; None for everything else."""
    if is_anything(plain):
        return "Value"
    if is_json_type(plain):
        return "Struct" if (typing.get_origin(plain) or plain) in DICTS else "ListValue"
    if typing.get_origin(plain) is typing.Literal:
        kinds = {type(one) for one in typing.get_args(plain)}
        return simple_type(kinds.pop()) if len(kinds) == 1 else None
    if not isinstance(plain, type) or issubclass(plain, enum.Enum):
        return None
    if issubclass(plain, datetime.datetime):
        return "Timestamp"
    if issubclass(plain, datetime.timedelta):
        return "Duration"
    if is_textual(plain):
        return One(STRING)
    for kind, number in ((bool, BOOL), (int, INT64), (float, DOUBLE), (str, STRING)):
        if issubclass(plain, kind):
            return One(number)
    return None


def is_json_type(plain: Any) -> bool:
    """Lists and dicts of anything."""
    origin, arguments = typing.get_origin(plain) or plain, typing.get_args(plain)
    if origin in DICTS:
        return not arguments or (arguments[0] is str and is_anything(bare(arguments[1])))
    return origin in LISTS and (not arguments or is_anything(bare(arguments[0])))


def document_of(plain: type) -> str:
    """The docstring that a person wrote; dataclasses and models without one get one from their library."""
    text = vars(plain).get("__doc__") or ""
    return "" if text.startswith((f"{plain.__name__}(", "!!!")) else inspect.cleandoc(text)
