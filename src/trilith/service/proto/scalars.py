"""Numbers, texts, bytes and enums.

Rule: a text may stand for what has no type of its own in a `.proto` (UUIDs, decimals, dates), a field of an enum for an
enum, its names or its numbers. Nothing else changes its kind: no text is a number.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import ipaddress
import typing
import uuid
from typing import TYPE_CHECKING, Any, Final

from trilith.errors import InvalidInput
from trilith.service.codecs.files import RequestFolder
from trilith.service.proto.conversion import Conversion, Unlike, bare, is_anything
from trilith.service.proto.shown import snake_case

if TYPE_CHECKING:
    from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor

_FLOATS: Final = frozenset({1, 2})
_INTS: Final = frozenset({3, 4, 5, 6, 7, 13, 15, 16, 17, 18})
_BOOL: Final = 8
_STRING: Final = 9
_BYTES: Final = 12
_BUILTINS: Final = {
    **dict.fromkeys(_FLOATS, float),
    **dict.fromkeys(_INTS, int),
    _BOOL: bool,
    _STRING: str,
    _BYTES: bytes,
}
_TEXTUAL: Final = (uuid.UUID, decimal.Decimal, ipaddress.IPv4Address, ipaddress.IPv6Address)
_ISO: Final = (datetime.date, datetime.time)  # the first is the base of datetime as well
_NOT_SAID: Final = ("UNSPECIFIED", "UNKNOWN")


def scalar(annotation: Any, field: FieldDescriptor) -> Conversion:
    """The conversion between an annotation and one value of a field that is no message.

    Raises:
        Unlike: there is none.
    """
    plain = bare(annotation)
    if is_anything(plain):
        return Conversion(sure=True)
    if field.enum_type is not None:
        return _enum(plain, field.enum_type, whole=plain is annotation)
    builtin = _BUILTINS.get(field.type)
    if isinstance(plain, type):
        return _by_class(plain, builtin, sure=plain is annotation)
    if typing.get_origin(plain) is typing.Literal and all(type(one) is builtin for one in typing.get_args(plain)):
        return Conversion()
    raise Unlike


def is_textual(plain: type) -> bool:
    """Whether a class has no form of its own, and stands as text."""
    return issubclass(plain, (*_TEXTUAL, *_ISO))


def _by_class(plain: type, builtin: type | None, *, sure: bool) -> Conversion:
    if issubclass(plain, enum.Enum):
        if builtin in (int, str) and all(type(member.value) is builtin for member in plain):
            return Conversion(write=lambda value: value.value if isinstance(value, enum.Enum) else value)
        raise Unlike
    if builtin is bytes and plain in (bytes, bytearray, memoryview):
        return Conversion(write=lambda value: value if type(value) is bytes else bytes(value), sure=sure)
    if builtin is str and issubclass(plain, _TEXTUAL):
        return Conversion(write=str)
    if builtin is str and issubclass(plain, _ISO):
        return Conversion(write=lambda value: value if isinstance(value, str) else value.isoformat())
    if builtin is None or (builtin is int and plain is bool) or not issubclass(plain, builtin):
        raise Unlike
    # numpy's bools stand for Python's, to which no constructor of a message agrees.
    return Conversion(write=bool if builtin is bool else None, sure=sure and plain is builtin)


def _enum(plain: Any, declared: EnumDescriptor, *, whole: bool) -> Conversion:
    if plain is int:
        return Conversion(sure=whole)
    if plain is str or typing.get_origin(plain) is typing.Literal:
        strange = sorted(set(typing.get_args(plain)) - set(declared.values_by_name))
        if strange:
            raise Unlike(f"{declared.full_name} has no value {strange[0]!r}")
        return Conversion(
            read=_reader_of_names(declared), write=_writer_of_names(declared), sure=plain is str and whole
        )
    if isinstance(plain, type) and issubclass(plain, enum.Enum):
        return _enum_class(plain, declared)
    raise Unlike


def _names(declared: EnumDescriptor) -> dict[int, str]:
    names: dict[int, str] = {}
    for value in declared.values:
        names.setdefault(value.number, value.name)  # the first of those that have one number
    return names


def _strange(declared: EnumDescriptor, number: int) -> InvalidInput:
    known = ", ".join(value.name for value in declared.values)
    return InvalidInput(f"{number} is no value of {declared.full_name}; it has {known}")


def _reader_of_names(declared: EnumDescriptor) -> Any:
    names = _names(declared)

    def read(number: int, folder: RequestFolder | None) -> str:
        if number not in names:
            raise _strange(declared, number)
        return names[number]

    return read


def _writer_of_names(declared: EnumDescriptor) -> Any:
    numbers = {value.name: value.number for value in declared.values}

    def write(name: str) -> int:
        if name not in numbers:
            raise ValueError(f"{name!r} is no value of {declared.full_name}; it has {', '.join(numbers)}")
        return numbers[name]

    return write


def _enum_class(plain: type[enum.Enum], declared: EnumDescriptor) -> Conversion:
    """Members and values meet by name, with the enum's own name before it or without: RED, COLOR_RED."""
    prefix = f"{snake_case(declared.name).upper()}_"
    members: dict[int, enum.Enum | None] = {}
    for value in declared.values:
        short = value.name.removeprefix(prefix)
        found = next((member for member in plain if member.name.upper() in (value.name.upper(), short.upper())), None)
        if found is None and not (value.number == 0 and short in _NOT_SAID):
            raise Unlike(f"{plain.__name__} has no member for {value.name}")
        members.setdefault(value.number, found)
    numbers = {member: number for number, member in members.items() if member is not None}
    missing = next((member.name for member in plain if member not in numbers), None)
    if missing is not None:
        raise Unlike(f"{declared.full_name} has no value for {plain.__name__}.{missing}")

    def read(number: int, folder: RequestFolder | None) -> enum.Enum | None:
        if number not in members:
            raise _strange(declared, number)
        return members[number]

    def write(value: Any) -> int:
        return numbers[value if isinstance(value, plain) else plain(value)]

    return Conversion(read=read, write=write)
