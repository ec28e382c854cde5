"""The `.proto` of a service, from its annotations.

Rule 1: field numbers are the order of parameters and of a class's fields, from 1. Whoever changes that order, or puts
one in between, changes the protocol: new ones go to the end, or the file is kept and served by `proto=`.
Rule 2: what may be left out can be told from what is zero: `optional`. A list that may be None is a message
    with a list.
Rule 3: what has no form is refused with a sentence. Nothing is sent as something else than it is.
"""

from __future__ import annotations

import enum
import re
import typing
from typing import TYPE_CHECKING, Any, Final

from trilith.service.proto.classes import ClassField, class_fields
from trilith.service.proto.conversion import bare, without_none
from trilith.service.proto.converter import DICTS, LISTS
from trilith.service.proto.derived_types import (
    BOOL,
    BYTES,
    DOUBLE,
    ENUM,
    GOOGLE,
    INT64,
    MESSAGE,
    OPTIONAL,
    REPEATED,
    STRING,
    WORDS,
    Inexpressible,
    One,
    document_of,
    is_json_type,
    simple_type,
)
from trilith.service.proto.shown import pascal_case, snake_case
from trilith.service.signature import Kind, is_message, kind_of, shown_type, union_members

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

    from trilith.service.spec import MethodSpec

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class DerivedFile:
    """One file that grows by the methods of a service.

    Args:
        package: of everything in it.
        service: the gRPC service's own name.
    """

    def __init__(self, package: str, service: str) -> None:
        from google.protobuf.descriptor_pb2 import FileDescriptorProto

        self.package = package
        self.proto: FileDescriptorProto = FileDescriptorProto(
            name=f"{package.replace('.', '/')}.proto", package=package, syntax="proto3"
        )
        self.documents: dict[str, str] = {}
        """Docstrings by the names of what they describe: `Ocr`, `Ocr.Read`, `Line`."""
        self._names: dict[str, Any] = {}
        self.service = self.proto.service.add(name=service)

    def add(self, method: MethodSpec) -> str:
        """Adds an rpc for a method, and all messages that it needs; its name. The file stays as it was when it cannot.

        Raises:
            Inexpressible: a type has no form.
        """
        before, names = self.proto.SerializeToString(), dict(self._names)
        try:
            return self._add(method)
        except BaseException:
            self.proto.ParseFromString(before)
            self.service, self._names = self.proto.service[0], names
            raise

    def descriptor_set(self) -> bytes:
        """The file and what it imports, as a serialised `FileDescriptorSet`."""
        from google.protobuf import descriptor_pb2, duration_pb2, struct_pb2, timestamp_pb2

        known = {file.DESCRIPTOR.name: file.DESCRIPTOR for file in (duration_pb2, struct_pb2, timestamp_pb2)}
        found = descriptor_pb2.FileDescriptorSet()
        for name in self.proto.dependency:
            found.file.add().ParseFromString(known[name].serialized_pb)
        found.file.add().CopyFrom(self.proto)
        return found.SerializeToString()

    def _add(self, method: MethodSpec) -> str:
        name = pascal_case(method.name.strip("_"))
        if not _NAME.fullmatch(name) or any(rpc.name == name for rpc in self.service.method):
            raise Inexpressible(f"{method.where}: {name!r} is no name of an rpc, or another method has it")
        signature, where = method.signature, method.where
        if signature.taken is not None:
            asked = self._asked_stream(method, name)
        elif signature.root and class_fields(bare(signature.parameters[0].value.annotation)) is not None:
            asked = self._one(signature.parameters[0].value.annotation, where).name
        else:
            fields = [ClassField(p.name, p.name, p.value.annotation, not p.required) for p in signature.parameters]
            asked = self._message(f"{name}Request", (method, "request"), fields, where)
        annotation = signature.result.annotation
        if annotation in (None, type(None)):
            answered = self._message(f"{name}Response", (method, "response"), [], where)
        elif class_fields(bare(annotation)) is not None:
            answered = self._one(annotation, where).name
        else:
            result = ClassField("result", "result", annotation, False)
            answered = self._message(f"{name}Response", (method, "response"), [result], where)
        self.service.method.add(
            name=name,
            input_type=asked,
            output_type=answered,
            client_streaming=True if signature.taken is not None else None,
            server_streaming=True if signature.streams else None,
        )
        self.documents[f"{self.service.name}.{name}"] = method.documentation
        return name

    def _asked_stream(self, method: MethodSpec, name: str) -> str:
        """The message of each item that a method takes."""
        taken, where = method.signature.taken, method.where
        beside = next((parameter.name for parameter in method.signature.parameters if parameter.required), None)
        if taken is None or beside is not None:
            raise Inexpressible(
                f"{where}: each message of a stream is an item, so there is none for `{beside}`; give it a default"
            )
        if class_fields(bare(taken.value.annotation)) is not None:
            return self._one(taken.value.annotation, where).name
        field = ClassField(taken.name, taken.name, taken.value.annotation, False)
        return self._message(f"{name}Request", (method, "request"), [field], where)

    def _claim(self, name: str, owner: Any, where: str) -> bool:
        """Whether the name is new. It is not, when the same owner has it already."""
        if not _NAME.fullmatch(name):
            raise Inexpressible(f"{where}: {name!r} is no name of a message; name the class otherwise")
        if name in self._names:
            if self._names[name] == owner:
                return False
            raise Inexpressible(f"{where}: two messages would be called {name}; name one of the classes otherwise")
        self._names[name] = owner
        return True

    def _message(self, name: str, owner: Any, fields: list[ClassField], where: str) -> str:
        if self._claim(name, owner, where):
            from google.protobuf.descriptor_pb2 import DescriptorProto

            message = DescriptorProto(name=name)
            position = len(self.proto.message_type)
            for number, field in enumerate(fields, 1):
                self._add_field(message, field, number, where)
            self.proto.message_type.insert(position, message)
        return f".{self.package}.{name}"

    def _add_field(self, message: DescriptorProto, field: ClassField, number: int, where: str) -> None:
        place = f"{where}: `{field.attribute}`"
        if not _NAME.fullmatch(field.attribute):
            raise Inexpressible(f"{place}: names in a .proto have ASCII letters alone")
        inner, none_allowed = without_none(field.annotation)
        plain = bare(inner)
        added = message.field.add(name=field.attribute, number=number, label=OPTIONAL)
        origin, arguments = typing.get_origin(plain) or plain, typing.get_args(plain)
        if origin in LISTS and not is_json_type(plain) and not none_allowed:
            added.label = REPEATED
            one = self._item(plain, place)
        elif origin in DICTS and not is_json_type(plain) and not none_allowed:
            added.label = REPEATED
            one = self._entry(message, field.attribute, arguments, place)
        else:
            one = self._one(inner, place)
            if (field.has_default or none_allowed) and one.number != MESSAGE:
                added.proto3_optional = True
                added.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.attribute}")
        added.type = typing.cast("Any", one.number)
        if one.name:
            added.type_name = one.name

    def _item(self, plain: Any, place: str) -> One:
        items = [item for item in typing.get_args(plain) if item is not Ellipsis]
        if any(item != items[0] for item in items):
            raise Inexpressible(
                f"{place}: items of a list are all of one type, got {shown_type(plain)}; use a dataclass or NamedTuple"
            )
        if without_none(items[0])[1]:
            raise Inexpressible(f"{place}: a list in a message holds no None, got {shown_type(plain)}")
        return self._one(items[0], place)

    def _entry(self, message: DescriptorProto, name: str, arguments: tuple[Any, ...], place: str) -> One:
        key = self._one(arguments[0], place)
        if key.number not in (INT64, BOOL, STRING):
            raise Inexpressible(f"{place}: keys of a map are text, integers or bools, got {shown_type(arguments[0])}")
        if without_none(arguments[1])[1]:
            raise Inexpressible(f"{place}: a map in a message holds no None")
        value = self._one(arguments[1], place)
        entry = message.nested_type.add(name=f"{pascal_case(name)}Entry")
        entry.options.map_entry = True
        for number, (label, one) in enumerate((("key", key), ("value", value)), 1):
            kind: Any = one.number
            entry.field.add(name=label, number=number, label=OPTIONAL, type=kind, type_name=one.name or None)
        return One(MESSAGE, f".{self.package}.{message.name}.{entry.name}")

    def _one(self, annotation: Any, place: str) -> One:
        """The type of one value, where there is no room for a list of them."""
        plain = bare(annotation)
        found = self._special(plain) or self._simple(plain)
        if found is not None:
            return found
        if isinstance(plain, type) and issubclass(plain, enum.Enum):
            return self._enum(plain, place)
        origin = typing.get_origin(plain) or plain
        if origin in LISTS or origin in DICTS:
            return self._wrapped(plain, place)
        fields = class_fields(plain)
        if fields is not None:
            self.documents.setdefault(plain.__name__, document_of(plain))
            return One(MESSAGE, self._message(plain.__name__, plain, fields, place))
        if is_message(plain):
            raise Inexpressible(
                f"{place}: {shown_type(plain)} comes from a .proto already: serve that one, by proto=..."
            )
        members = union_members(plain)
        if members is not None and set(members) == {int, float}:
            return One(DOUBLE)
        if members is not None and type(None) not in members:
            return self._union(members, plain, place)
        raise Inexpressible(
            f"{place}: {shown_type(plain)} has no form in a .proto; use numbers, text, bytes, arrays, pictures, files, "
            "dataclasses, lists and dicts of them, or Any for JSON"
        )

    def _special(self, plain: Any) -> One | None:
        kind = kind_of(plain)
        if kind is Kind.BYTES:
            return One(BYTES)
        if kind is Kind.ARRAY:
            fields = [("dtype", str), ("shape", list[int]), ("data", bytes)]
            self.documents.setdefault("Tensor", "An array: numpy's name of the dtype, and the numbers, little endian.")
        elif kind in (Kind.IMAGE, Kind.FILE, Kind.FRAME):
            fields = [("content", bytes), ("content_type", str), ("name", str)]
            self.documents.setdefault("File", "A picture, a frame, or another file.")
        else:
            return None
        name = "Tensor" if kind is Kind.ARRAY else "File"
        declared = [ClassField(each, each, annotation, False) for each, annotation in fields]
        return One(MESSAGE, self._message(name, name, declared, name))

    def _simple(self, plain: Any) -> One | None:
        """Scalars, and what protobuf has types of its own for."""
        found = simple_type(plain)
        return self._google(found) if isinstance(found, str) else found

    def _google(self, name: str) -> One:
        if GOOGLE[name] not in self.proto.dependency:
            self.proto.dependency.append(GOOGLE[name])
        return One(MESSAGE, f".google.protobuf.{name}")

    def _wrapped(self, plain: Any, place: str) -> One:
        """A list in a list, in a map, or one that may be None: a message with the list."""
        name = self._word(plain, place)
        values = ClassField("values", "values", plain, False)
        return One(MESSAGE, self._message(name, ("wrapped", name), [values], place))

    def _word(self, plain: Any, place: str) -> str:
        arguments = typing.get_args(plain)
        if (typing.get_origin(plain) or plain) in LISTS and arguments:
            return f"{self._word_of(arguments[0], place)}List"
        return f"{self._word_of(arguments[1], place)}Map"

    def _word_of(self, annotation: Any, place: str) -> str:
        plain = bare(annotation)
        if (typing.get_origin(plain) or plain) in (*LISTS, *DICTS) and not is_json_type(plain):
            return self._word(plain, place)
        one = self._one(plain, place)
        return one.name.rpartition(".")[2] or WORDS[one.number]

    def _union(self, members: tuple[Any, ...], plain: Any, place: str) -> One:
        """A union: a message with a `oneof` of its members."""
        words = [self._word_of(member, place) for member in members]
        if len(set(words)) < len(words) or (float in members and int in members):
            raise Inexpressible(
                f"{place}: two members of {shown_type(plain)} are alike in a .proto; use classes of their own"
            )
        name = "Or".join(words)
        if self._claim(name, plain, place):
            from google.protobuf.descriptor_pb2 import DescriptorProto

            message = DescriptorProto(name=name)
            message.oneof_decl.add(name="value")
            for number, (word, member) in enumerate(zip(words, members, strict=True), 1):
                field = ClassField(f"{snake_case(word)}_value", "", member, False)
                self._add_field(message, field, number, place)
                message.field[-1].oneof_index = 0
                if message.field[-1].label == REPEATED:
                    raise Inexpressible(f"{place}: a list is no member of a oneof; use a class that holds it")
            self.proto.message_type.append(message)
        return One(MESSAGE, f".{self.package}.{name}")

    def _enum(self, plain: type[enum.Enum], place: str) -> One:
        if self._claim(plain.__name__, plain, place):
            prefix = snake_case(plain.__name__).upper()
            declared = self.proto.enum_type.add(name=plain.__name__)
            declared.value.add(name=f"{prefix}_UNSPECIFIED", number=0)
            for number, member in enumerate(plain, 1):
                declared.value.add(name=f"{prefix}_{member.name.upper()}", number=number)
            self.documents.setdefault(plain.__name__, document_of(plain))
        return One(ENUM, f".{self.package}.{plain.__name__}")
