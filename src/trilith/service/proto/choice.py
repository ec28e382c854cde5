"""A `oneof` as a union: which member was set decides the class, and the class which member is set.

Rule: each member of the union is a member of the `oneof`, one for one. A value is given to the first whose class it is.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from trilith.errors import InvalidInput
from trilith.service.codecs.files import RequestFolder
from trilith.service.proto.classes import class_fields
from trilith.service.proto.conversion import Conversion, Mismatch, Unlike, bare
from trilith.service.signature import shown_type

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor, OneofDescriptor

Convert = Callable[[Any, "FieldDescriptor"], Conversion]


class _Member(NamedTuple):
    """One member of the union and the field that holds it.

    Attributes:
        name: of the field.
        kind: the class of its values.
        conversion: of its values.
        make: an instance of the class, of what was read; None where that is one already.
    """

    name: str
    kind: type
    conversion: Conversion
    make: Callable[[Any], Any] | None


class Choice:
    """The way between a union and a `oneof`.

    Raises:
        Unlike: members of one side have no counterpart on the other.
    """

    def __init__(self, members: tuple[Any, ...], oneof: OneofDescriptor, convert: Convert) -> None:
        self._name = oneof.name
        left = list(members)
        self._members: dict[str, _Member] = {}
        for field in oneof.fields:
            found = next((member for member in left if _converts(member, field, convert)), None)
            if found is None:
                raise Unlike(f"no member of the union is the `{field.name}` of the oneof `{oneof.name}`")
            left.remove(found)
            self._members[field.name] = _member(found, field, convert)
        if left:
            raise Unlike(f"the oneof `{oneof.name}` has nothing for {shown_type(left[0])}")
        # bool is an int to Python: the narrower class is asked first.
        self._order = sorted(self._members.values(), key=lambda member: member.kind is not bool)

    def read(self, message: Any, folder: RequestFolder | None) -> Any:
        """The member that is set; None: none is.

        Raises:
            InvalidInput: its value is not what the class says.
        """
        name = message.WhichOneof(self._name)
        if name is None:
            return None
        member = self._members[name]
        value = getattr(message, name)
        if member.conversion.read is not None:
            value = member.conversion.read(value, folder)
        return value if member.make is None else member.make(value)

    def read_given(self, message: Any, folder: RequestFolder | None) -> Any:
        """The same where one must be set."""
        value = self.read(message, folder)
        if value is None:
            raise InvalidInput(f"nothing of the oneof `{self._name}` is set; set one of {', '.join(self._members)}")
        return value

    def write(self, value: Any) -> dict[str, Any]:
        """The field that holds the value, for a message's constructor.

        Raises:
            TypeError: it is of none of the classes.
        """
        member = next((one for one in self._order if isinstance(value, one.kind)), None)
        if member is None and isinstance(value, Mapping):
            member = next((one for one in self._order if _makes(one, value)), None)
        if member is None and type(value) is int:
            member = next((one for one in self._order if one.kind is float), None)
        if member is None:
            raise TypeError(f"{type(value).__name__} is no member of the oneof `{self._name}`")
        write = member.conversion.write
        return {member.name: value if write is None else write(value)}


def _converts(member: Any, field: FieldDescriptor, convert: Convert) -> bool:
    try:
        convert(member, field)
    except (Unlike, Mismatch):
        return False
    return True


def _member(annotation: Any, field: FieldDescriptor, convert: Convert) -> _Member:
    conversion, plain = convert(annotation, field), bare(annotation)
    kind = typing.get_origin(plain) or plain
    if not isinstance(kind, type):
        raise Unlike(f"{shown_type(annotation)} is no class that its values could be told by")
    if class_fields(plain) is None or hasattr(plain, "__required_keys__"):
        return _Member(field.name, dict if hasattr(plain, "__required_keys__") else kind, conversion, None)
    from trilith.service.codecs import types

    validator = types.value_validator(types.adapter_of(plain, shown_type(plain)))
    return _Member(field.name, kind, conversion, lambda value: types.read_value(validator, value, field.name))


def _makes(member: _Member, value: Mapping[Any, Any]) -> bool:
    try:
        return member.make is not None and member.make(value) is not None
    except InvalidInput:
        return False
