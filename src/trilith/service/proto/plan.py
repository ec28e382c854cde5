"""A message as a dict of its fields, and the reverse: worked out once, for one class and one message.

Rule: what a client did not set is left out where a default stands for it, and None where None is allowed. Only fields
that tell whether they were set can be left out so: messages, members of a `oneof`, and what is `optional`. All others
have their zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from trilith.service.codecs.files import RequestFolder
from trilith.service.proto.choice import Choice
from trilith.service.proto.conversion import Read, Write


class PlannedField(NamedTuple):
    """One field.

    Attributes:
        name: in the message.
        attribute: in an instance of the class.
        key: in the dict from which the class is made.
        tells: the message knows whether it was set.
        omitted: it is left out of the dict when it was not set; else it is None there.
        is_enum: its zero may mean that nothing was said.
        read, write: of its values; None for values as they are.
    """

    name: str
    attribute: str
    key: str
    tells: bool
    omitted: bool
    is_enum: bool
    read: Read | None
    write: Write | None


class PlannedChoice(NamedTuple):
    """A `oneof` that is one field of the class, a union."""

    attribute: str
    key: str
    omitted: bool
    choice: Choice


class Plan:
    """The fields of one message. They are put in after it is made: a message may hold itself."""

    __slots__ = ("choices", "fields")

    def __init__(self) -> None:
        self.fields: list[PlannedField] = []
        self.choices: list[PlannedChoice] = []

    def read(self, message: Any, folder: RequestFolder | None) -> dict[str, Any]:
        """The fields of a message by the keys of the class.

        Raises:
            InvalidInput: a value is none of those that the class has.
        """
        values: dict[str, Any] = {}
        for name, _, key, tells, omitted, is_enum, read, _ in self.fields:
            if tells and not message.HasField(name):
                if not omitted:
                    values[key] = None
                continue
            value = getattr(message, name)
            if read is not None:
                value = read(value, folder)
            if not (is_enum and omitted and value is None):
                values[key] = value
        for _, key, omitted, choice in self.choices:
            value = choice.read(message, folder)
            if value is not None or not omitted:
                values[key] = value
        return values

    def write(self, value: Any) -> dict[str, Any]:
        """What the message's constructor takes, of an instance of the class or a dict of its fields.

        Raises:
            TypeError, ValueError: a value has no form in the message.
        """
        given: dict[str, Any] = {}
        named = isinstance(value, Mapping)
        if named:
            self._check_names(value)
        for name, attribute, key, _, _, _, _, write in self.fields:
            item = value.get(attribute, value.get(key)) if named else getattr(value, attribute)
            if item is not None:
                given[name] = item if write is None else write(item)
        for attribute, key, _, choice in self.choices:
            item = value.get(attribute, value.get(key)) if named else getattr(value, attribute)
            if item is not None:
                given |= choice.write(item)
        return given

    def _check_names(self, value: Mapping[Any, Any]) -> None:
        known = {name for field in self.fields for name in (field.attribute, field.key)}
        known |= {name for choice in self.choices for name in (choice.attribute, choice.key)}
        strange = next((name for name in value if name not in known), None)
        if strange is not None:
            raise ValueError(f"there is no field {strange!r}; there are {', '.join(sorted(known))}")
