"""What descriptors are called in sentences, and how Python's names and those of a `.proto` meet."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

_TYPES: Final = (
    *("", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group", "message"),
    *("bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64"),
)
"""The words of a `.proto` by the number of `FieldDescriptorProto.Type`."""
_REPEATED: Final = 3
_WORD_ENDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def snake_case(name: str) -> str:
    """`ReadPage` as `read_page`."""
    return _WORD_ENDS.sub("_", name).lower()


def pascal_case(name: str) -> str:
    """`read_page` as `ReadPage`."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def is_repeated(field: FieldDescriptor) -> bool:
    """Whether a field is a list or a map."""
    described: Any = field  # protobuf before 6.31 has `label` alone
    found: bool | None = getattr(described, "is_repeated", None)
    return bool(described.label == _REPEATED) if found is None else found


def is_map(field: FieldDescriptor) -> bool:
    """Whether a field is a map."""
    message: Descriptor | None = field.message_type
    return message is not None and bool(message.GetOptions().map_entry)


def is_deprecated(field: FieldDescriptor) -> bool:
    """Whether a field says that it should not be used any more."""
    return bool(field.GetOptions().deprecated)


def shown_field(field: FieldDescriptor) -> str:
    """The type of a field as it stands in a `.proto`: `repeated float`, `map<string, Line>`."""
    if field.message_type is not None and is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return f"map<{shown_one(key)}, {shown_one(value)}>"
    return f"repeated {shown_one(field)}" if is_repeated(field) else shown_one(field)


def shown_one(field: FieldDescriptor) -> str:
    """The type of one value of a field."""
    if field.message_type is not None:
        return str(field.message_type.full_name)
    if field.enum_type is not None:
        return str(field.enum_type.full_name)
    return _TYPES[field.type]
