"""Field numbers that stay: those of a `.proto` that was written before hold for what has the same name now.

Rule 1: a number is never given to something else. What is gone is reserved, what is new gets the next one.
Rule 2: what has another type than before is refused: clients would read its octets as what it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from trilith.service.proto.derived_types import Inexpressible

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import (
        DescriptorProto,
        EnumDescriptorProto,
        FieldDescriptorProto,
        FileDescriptorProto,
    )

_RESERVED_BY_PROTOBUF: Final = range(19_000, 20_000)


def keep_numbers(file: FileDescriptorProto, kept: FileDescriptorProto) -> None:
    """Renumbers a derived file.

    Args:
        file: as the annotations say it.
        kept: as it was written before.

    Raises:
        Inexpressible: a field has another type than before.
    """
    messages = {message.name: message for message in kept.message_type}
    for message in file.message_type:
        if message.name in messages:
            _keep_message(message, messages[message.name])
    enums = {enum.name: enum for enum in kept.enum_type}
    for enum in file.enum_type:
        if enum.name in enums:
            _keep_enum(enum, enums[enum.name])


def _keep_message(message: DescriptorProto, kept: DescriptorProto) -> None:
    known = {field.name: field for field in kept.field}
    for field in message.field:
        before = known.get(field.name)
        if before is not None and _form(message, field) != _form(kept, before):
            raise Inexpressible(
                f"`{field.name}` of {message.name} is of another type than in the file, where it is number"
                f" {before.number}: name it otherwise, or write to a new file, which begins anew"
            )
    names = {name: field.number for name, field in known.items()}
    ends = [reserved.end - 1 for reserved in kept.reserved_range]
    _renumber(message.field, names, ends)
    present = {field.name for field in message.field}
    gone = [field for field in kept.field if field.name not in present]
    for number in sorted({*(field.number for field in gone), *_numbers(kept.reserved_range)}):
        message.reserved_range.add(start=number, end=number + 1)
    message.reserved_name.extend(
        sorted({*(field.name for field in gone), *(name for name in kept.reserved_name if name not in present)})
    )


def _keep_enum(enum: EnumDescriptorProto, kept: EnumDescriptorProto) -> None:
    names = {value.name: value.number for value in kept.value}
    ends = [reserved.end for reserved in kept.reserved_range]
    _renumber(enum.value, names, ends)
    present = {value.name for value in enum.value}
    gone = [value for value in kept.value if value.name not in present]
    before = (number for each in kept.reserved_range for number in range(each.start, each.end + 1))
    for number in sorted({*(value.number for value in gone), *before}):
        enum.reserved_range.add(start=number, end=number)  # of enums both are inside
    enum.reserved_name.extend(
        sorted({*(value.name for value in gone), *(name for name in kept.reserved_name if name not in present)})
    )


def _renumber(fields: Iterable[Any], known: dict[str, int], taken: list[int]) -> None:
    highest = max([0, *known.values(), *taken])
    for field in fields:
        number = known.get(field.name)
        if number is None:
            highest += 1
            if highest in _RESERVED_BY_PROTOBUF:
                highest = _RESERVED_BY_PROTOBUF.stop
            number = highest
        field.number = number


def _numbers(ranges: Iterable[Any]) -> Iterable[int]:
    return (number for each in ranges for number in range(each.start, each.end))


def _form(message: DescriptorProto, field: FieldDescriptorProto) -> tuple[Any, ...]:
    """What of a field decides how its octets are read."""
    entries = {f".{entry.name}": entry for entry in message.nested_type}
    for name, entry in entries.items():
        if field.type_name.endswith(f".{message.name}{name}"):
            return ("map", *((each.type, each.type_name) for each in entry.field))
    return (field.label, field.type, field.type_name)
