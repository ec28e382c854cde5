"""From an annotation and the type of a field to the way between them: the choice among all kinds."""

from __future__ import annotations

import collections.abc
import typing
from typing import TYPE_CHECKING, Any, Final

from trilith.service.codecs.files import RequestFolder
from trilith.service.proto import special
from trilith.service.proto.choice import Choice
from trilith.service.proto.classes import ClassField, class_fields
from trilith.service.proto.conversion import Conversion, Mismatch, Unlike, bare, is_anything, without_none
from trilith.service.proto.plan import Plan, PlannedChoice, PlannedField
from trilith.service.proto.scalars import scalar
from trilith.service.proto.schema import message_class
from trilith.service.proto.shown import is_deprecated, is_map, is_repeated, shown_field
from trilith.service.proto.well_known import well_known
from trilith.service.signature import Kind, is_message, kind_of, shown_type, union_members

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor, OneofDescriptor

LISTS: Final = (list, tuple, set, frozenset, collections.abc.Sequence)
"""Origins of annotations that are lists in a message."""
DICTS: Final = (dict, collections.abc.Mapping)
"""Origins of annotations that are maps."""


class Converter:
    """Finds conversions. One for a service: what two of its methods share is worked out once."""

    def __init__(self) -> None:
        self._plans: dict[tuple[Any, str], Conversion] = {}

    def field(self, annotation: Any, field: FieldDescriptor) -> Conversion:
        """The conversion between an annotation and a whole field.

        Raises:
            Unlike: there is none.
            Mismatch: there is none for something inside.
        """
        inner, _ = without_none(annotation)
        if is_map(field):
            return self._map(inner, field)
        if is_repeated(field):
            return special.numbers(inner, field) if kind_of(inner) is Kind.ARRAY else self._list(inner, field)
        return self.one(inner, field)

    def one(self, annotation: Any, field: FieldDescriptor) -> Conversion:
        """The same for a single value of the field."""
        if field.message_type is not None:
            return self.message(annotation, field.message_type)
        found = special.in_bytes(annotation, field)
        if found is not None:
            return found
        members = union_members(bare(annotation))
        return scalar(annotation, field) if members is None else _union_of_scalars(members, field)

    def message(self, annotation: Any, descriptor: Descriptor) -> Conversion:
        """The same for a message."""
        found = well_known(annotation, descriptor) or special.as_message(annotation, descriptor)
        if found is not None:
            return found
        plain = bare(annotation)
        if is_message(plain):
            return _generated(plain, descriptor)
        if (typing.get_origin(plain) or plain) in LISTS:
            return self._wrapped(annotation, descriptor)
        only = descriptor.fields[0] if len(descriptor.fields) == 1 else None
        if only is not None and is_map(only) and typing.get_origin(plain) in DICTS:
            return self._wrapped(annotation, descriptor)
        members = union_members(plain)
        if members is not None:
            return self._choice(members, descriptor)
        key = (plain, descriptor.full_name)
        if key not in self._plans:
            plan = Plan()
            self._plans[key] = Conversion(read=plan.read, write=plan.write, sure=is_anything(plain))
            try:
                self._plan(plan, plain, descriptor)
            except (Unlike, Mismatch):
                del self._plans[key]
                raise
        return self._plans[key]

    def _choice(self, members: tuple[Any, ...], descriptor: Descriptor) -> Conversion:
        """A message that is a `oneof` and nothing else."""
        if len(descriptor.oneofs) != 1 or len(descriptor.oneofs[0].fields) != len(descriptor.fields):
            raise Unlike
        choice = Choice(members, descriptor.oneofs[0], self.field)
        return Conversion(read=choice.read_given, write=choice.write)

    def _wrapped(self, annotation: Any, descriptor: Descriptor) -> Conversion:
        """A message that holds a list, or a map, and nothing else."""
        fields = list(descriptor.fields)
        if len(fields) != 1 or not is_repeated(fields[0]):
            raise Unlike
        inner, name = self.field(annotation, fields[0]), fields[0].name
        read, write = inner.read or _as_list, inner.write
        return Conversion(
            read=lambda message, folder: read(getattr(message, name), folder),
            write=lambda value: {name: value if write is None else write(value)},
            sure=inner.sure,
        )

    def _plan(self, plan: Plan, plain: Any, descriptor: Descriptor) -> None:
        declared = class_fields(plain)
        if declared is not None:
            self.fill(plan, declared, descriptor, lambda name: f"`{name}` of {shown_type(plain)}")
            return
        arguments = typing.get_args(plain)
        if not is_anything(plain) and (typing.get_origin(plain) or plain) not in DICTS:
            raise Unlike
        value = arguments[1] if len(arguments) == 2 else Any
        anything = [ClassField(field.name, field.name, value, True) for field in descriptor.fields]
        self.fill(plan, anything, descriptor, lambda name: f"its values of {shown_type(plain)}")

    def fill(
        self, plan: Plan, declared: list[ClassField], descriptor: Descriptor, called: typing.Callable[[str], str]
    ) -> None:
        """Plans the fields of a message, each with that of the class or method which has its name.

        Args:
            plan: what is filled.
            declared: of the class, or the parameters of a method.
            descriptor: the message.
            called: what a field of the class is called in a sentence.

        Raises:
            Mismatch: one side has what the other has not, or of another type.
        """
        left = {field.attribute: field for field in declared}
        chosen: set[str] = set()
        for oneof in descriptor.oneofs:
            if oneof.name in left and oneof.name not in descriptor.fields_by_name:
                plan.choices.append(self._planned_choice(left.pop(oneof.name), oneof, called(oneof.name)))
                chosen.update(field.name for field in oneof.fields)
        for field in descriptor.fields:
            if field.name in chosen:
                continue
            mine = next((left.pop(name) for name in (field.name, f"{field.name}_") if name in left), None)
            if mine is not None:
                plan.fields.append(self._planned_field(mine, field, descriptor.full_name, called(mine.attribute)))
            elif not is_deprecated(field):
                raise Mismatch(
                    f"{descriptor.full_name} has the field `{field.name}` ({shown_field(field)}), and there is no "
                    f"{called(field.name)}"
                )
        if left:
            name, mine = next(iter(left.items()))
            raise Mismatch(
                f"there is {called(name)} ({shown_type(mine.annotation)}), and {descriptor.full_name} has no such field"
            )

    def _planned_choice(self, mine: ClassField, oneof: OneofDescriptor, called: str) -> PlannedChoice:
        inner, optional = without_none(mine.annotation)
        try:
            choice = Choice(union_members(bare(inner)) or (inner,), oneof, self.field)
        except Unlike as unlike:
            raise Mismatch(
                f"{oneof.containing_type.full_name} has the oneof `{oneof.name}`, and {called} is"
                f" {shown_type(mine.annotation)}; {unlike}"
            ) from None
        return PlannedChoice(mine.attribute, mine.key, mine.has_default or not optional, choice)

    def _planned_field(self, mine: ClassField, field: FieldDescriptor, message: str, called: str) -> PlannedField:
        try:
            conversion = self.field(mine.annotation, field)
        except Unlike as unlike:
            why = f"; {unlike}" if str(unlike) else ""
            raise Mismatch(
                f"the field `{field.name}` of {message} is {shown_field(field)}, and {called} is"
                f" {shown_type(mine.annotation)}{why}"
            ) from None
        _, optional = without_none(mine.annotation)
        return PlannedField(
            name=field.name,
            attribute=mine.attribute,
            key=mine.key,
            tells=bool(field.has_presence),
            omitted=mine.has_default or not optional,
            is_enum=field.enum_type is not None,
            read=conversion.read,
            write=conversion.write,
        )

    def _list(self, annotation: Any, field: FieldDescriptor) -> Conversion:
        item = _item(annotation)
        _, optional = without_none(item)
        if optional and not is_anything(item):
            raise Unlike("a list in a message holds no None")
        one = self.one(item, field)
        read, write = one.read, one.write
        listed = is_anything(bare(annotation)) or (typing.get_origin(annotation) or annotation) is list
        return Conversion(
            read=_as_list if read is None else (lambda value, folder: [read(item, folder) for item in value]),
            write=None if write is None else (lambda value: [write(item) for item in value]),
            sure=one.sure and listed,
        )

    def _map(self, annotation: Any, field: FieldDescriptor) -> Conversion:
        plain = bare(annotation)
        if not is_anything(plain) and (typing.get_origin(plain) or plain) not in DICTS:
            raise Unlike
        key_type, value_type = typing.get_args(plain) or (Any, Any)
        entry = field.message_type.fields_by_name if field.message_type is not None else {}
        key, value = self.one(key_type, entry["key"]), self.one(value_type, entry["value"])
        return Conversion(
            read=lambda found, folder: {
                name if key.read is None else key.read(name, folder): item
                if value.read is None
                else value.read(item, folder)
                for name, item in found.items()
            },
            write=_map_writer(key, value, entry["value"]),
            sure=key.sure and value.sure and plain is annotation,
        )


def _as_list(value: Any, folder: RequestFolder | None) -> list[Any]:
    return list(value)


def _map_writer(key: Conversion, value: Conversion, field: FieldDescriptor) -> typing.Callable[[Any], Any]:
    # Constructors take dicts for messages everywhere but in maps.
    made = None if field.message_type is None else message_class(field.message_type)

    def one(item: Any) -> Any:
        written = item if value.write is None else value.write(item)
        return made(**written) if made is not None and isinstance(written, dict) else written

    return lambda values: {name if key.write is None else key.write(name): one(item) for name, item in values.items()}


def _item(annotation: Any) -> Any:
    """What a list holds."""
    plain = bare(annotation)
    if is_anything(plain):
        return Any
    if (typing.get_origin(plain) or plain) not in LISTS:
        raise Unlike
    arguments = [one for one in typing.get_args(plain) if one is not Ellipsis]
    if any(one != arguments[0] for one in arguments):
        raise Unlike("items of a list are all of one type")
    return arguments[0] if arguments else Any


def _union_of_scalars(members: tuple[Any, ...], field: FieldDescriptor) -> Conversion:
    """A union where every member is a form of the field's type: `int | float` for a double."""
    reads = [scalar(member, field) for member in members if not (member is int and float in members)]
    if any(one.read is not None or one.write is not None for one in reads):
        raise Unlike("members of a union have different forms")
    return Conversion()


def _generated(plain: Any, descriptor: Descriptor) -> Conversion:
    """A class that protoc made: the same message, from another pool."""
    if plain.DESCRIPTOR.full_name != descriptor.full_name:
        raise Unlike(f"it is the message {plain.DESCRIPTOR.full_name}")
    made = message_class(descriptor)
    return Conversion(
        read=lambda value, folder: plain.FromString(value.SerializeToString()),
        write=lambda value: made.FromString(value.SerializeToString()),
        sure=True,
    )
