"""The well-known types of `google.protobuf`: as Python says the same.

    Timestamp                    datetime, in UTC        Duration           timedelta
    Struct, Value, ListValue     JSON                    Empty              None
    DoubleValue ... BytesValue   the value; None where the field is not set

A whole number in a Struct is an int: JSON does not tell 1 from 1.0 either.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from trilith.errors import InvalidInput
from trilith.service.codecs.files import RequestFolder
from trilith.service.proto.conversion import Conversion, Unlike, bare, is_anything
from trilith.service.proto.scalars import scalar
from trilith.service.proto.schema import message_class

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

_PACKAGE: Final = "google.protobuf."
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_WRAPPERS: Final = frozenset(
    f"{kind}Value" for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_JSON: Final = frozenset(f"{_PACKAGE}{name}" for name in ("Struct", "Value", "ListValue"))
_EXACT_INTEGERS: Final = float(1 << 53)
_SECOND: Final = datetime.timedelta(seconds=1)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)


def is_json(field: FieldDescriptor) -> bool:
    """Whether a field holds JSON of any form."""
    message = field.message_type
    return message is not None and message.full_name in _JSON


def well_known(annotation: Any, descriptor: Descriptor) -> Conversion | None:
    """The conversion of a well-known type; None: the message is none of those above.

    Raises:
        Unlike: the annotation says something else.
    """
    if not descriptor.full_name.startswith(_PACKAGE):
        return None
    name, plain = descriptor.full_name.removeprefix(_PACKAGE), bare(annotation)
    if name in _WRAPPERS:
        return _wrapper(annotation, descriptor)
    if name == "Empty":
        if annotation in (None, type(None)):
            return Conversion(
                read=lambda value, folder: None, write=lambda value: message_class(descriptor)(), sure=True
            )
        raise Unlike("google.protobuf.Empty is None")
    kinds = {"Timestamp": datetime.datetime, "Duration": datetime.timedelta}
    if name in kinds:
        if plain is not kinds[name] and not is_anything(plain):
            raise Unlike(f"google.protobuf.{name} is datetime.{kinds[name].__name__}")
        made = message_class(descriptor)
        if name == "Timestamp":
            return Conversion(
                read=_instant, write=lambda value: made(**_instant_fields(value)), sure=plain is annotation
            )
        return Conversion(read=_span, write=lambda value: made(**_span_fields(value)), sure=plain is annotation)
    if name in ("Struct", "Value", "ListValue"):
        read, write = {
            "Struct": (_struct, _fill_struct),
            "Value": (_value, _fill_value),
            "ListValue": (_list, _fill_list),
        }[name]
        return Conversion(
            read=lambda value, folder: read(value),
            write=_json_writer(message_class(descriptor), write),
            sure=is_anything(plain),
        )
    return None


def _wrapper(annotation: Any, descriptor: Descriptor) -> Conversion:
    inner = scalar(annotation, descriptor.fields_by_name["value"])
    read, write, made = inner.read, inner.write, message_class(descriptor)
    return Conversion(
        read=(lambda value, folder: value.value) if read is None else (lambda value, folder: read(value.value, folder)),
        write=lambda value: made(value=value if write is None else write(value)),
        sure=inner.sure,
    )


def _instant(value: Any, folder: RequestFolder | None) -> datetime.datetime:
    try:
        return _EPOCH + datetime.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    except OverflowError as error:
        raise InvalidInput(f"a Timestamp of {value.seconds} s is beyond the years that a datetime holds") from error


def _instant_fields(value: datetime.datetime) -> dict[str, int]:
    known = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
    since = known - _EPOCH
    return {"seconds": since // _SECOND, "nanos": since % _SECOND // _MICROSECOND * 1000}


def _span(value: Any, folder: RequestFolder | None) -> datetime.timedelta:
    try:
        return datetime.timedelta(seconds=value.seconds, microseconds=math.trunc(value.nanos / 1000))
    except OverflowError as error:
        raise InvalidInput(f"a Duration of {value.seconds} s is longer than a timedelta holds") from error


def _span_fields(value: datetime.timedelta) -> dict[str, int]:
    """Seconds and nanoseconds of one sign, as the type wants it."""
    sign = -1 if value < datetime.timedelta() else 1
    length = abs(value)
    return {"seconds": sign * (length // _SECOND), "nanos": sign * (length % _SECOND // _MICROSECOND * 1000)}


def _struct(value: Any) -> dict[str, Any]:
    return {name: _value(item) for name, item in value.fields.items()}


def _list(value: Any) -> list[Any]:
    return [_value(item) for item in value.values]


def _value(value: Any) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "number_value":
        number: float = value.number_value
        return int(number) if number.is_integer() and abs(number) <= _EXACT_INTEGERS else number
    if kind == "struct_value":
        return _struct(value.struct_value)
    if kind == "list_value":
        return _list(value.list_value)
    return None if kind in (None, "null_value") else getattr(value, kind)


def _json_writer(made: Any, fill: Callable[[Any, Any], None]) -> Callable[[Any], Any]:
    def write(value: Any) -> Any:
        from trilith.service.codecs import types

        message = made()
        fill(message, types.to_json_builtins(value))
        return message

    return write


def _fill_struct(message: Any, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"expected an object for a google.protobuf.Struct, got {type(value).__name__}")
    message.fields.clear()
    message.SetInParent()
    for name, item in value.items():
        _fill_value(message.fields[name], item)


def _fill_list(message: Any, value: Any) -> None:
    if not isinstance(value, list):
        raise TypeError(f"expected a list for a google.protobuf.ListValue, got {type(value).__name__}")
    message.SetInParent()
    for item in value:
        _fill_value(message.values.add(), item)


def _fill_value(message: Any, value: Any) -> None:
    if value is None:
        message.null_value = 0
    elif isinstance(value, bool):
        message.bool_value = value
    elif isinstance(value, str):
        message.string_value = value
    elif isinstance(value, int | float):
        if isinstance(value, int) and abs(value) > _EXACT_INTEGERS:
            raise ValueError(f"{value} has no exact form as a number of a google.protobuf.Value; return it as text")
        message.number_value = value
    elif isinstance(value, dict):
        _fill_struct(message.struct_value, value)
    else:
        _fill_list(message.list_value, value)
