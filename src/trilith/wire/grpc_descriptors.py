"""Small protobuf schemas written down as data, with their message classes made at run time.

Rule 1: a schema lives in a descriptor pool of its own. The process's pool may hold another edition of the same file,
which some package brought, and two editions in one pool are an error.
Rule 2: protobuf is imported when the first schema is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from google.protobuf.descriptor import ServiceDescriptor
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

# Numbers of `FieldDescriptorProto.Type` and `Label`, which protobuf types as it likes.
_SCALARS: Final[dict[str, Any]] = {"int32": 5, "string": 9, "bytes": 12}
_MESSAGE: Final[Any] = 11
_ENUM: Final[Any] = 14
_OPTIONAL: Final[Any] = 1
_REPEATED: Final[Any] = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSchema:
    """One field.

    Attributes:
        number: on the wire.
        kind: `int32`, `string`, `bytes`, or the name of a message of the same file; `enum:Message.Enum` for an enum.
        repeated: a list of them.
        oneof: the group of which only one field is set, or "".
    """

    number: int
    kind: str
    repeated: bool = False
    oneof: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodSchema:
    """One method: the names of its messages, and which of them are streams."""

    request: str
    response: str
    request_stream: bool = False
    response_stream: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSchema:
    """One file with one service.

    Attributes:
        name: of the file, as others import it.
        package: of everything in it.
        messages: their fields by name.
        enums: values of enums by `Message.Enum`.
        service: the name of the service.
        methods: of the service.
    """

    name: str
    package: str
    messages: Mapping[str, Mapping[str, FieldSchema]]
    service: str
    methods: Mapping[str, MethodSchema]
    enums: Mapping[str, Sequence[str]] = field(default_factory=dict)


class SchemaMessages:
    """The message classes of one schema, as attributes-by-name through `message`, and its service's descriptor."""

    __slots__ = ("_classes", "service")

    def __init__(self, schema: FileSchema) -> None:
        from google.protobuf import descriptor_pool, message_factory

        pool = descriptor_pool.DescriptorPool()
        pool.Add(_file(schema))
        self.service: ServiceDescriptor = pool.FindServiceByName(f"{schema.package}.{schema.service}")
        self._classes = {
            name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{schema.package}.{name}"))
            for name in schema.messages
        }

    def message(self, name: str) -> Any:
        """The class of a message."""
        return self._classes[name]


def read_descriptor_set(octets: bytes) -> tuple[DescriptorPool, list[str]]:
    """The files of a serialised `FileDescriptorSet` in a pool of their own, and their names in order.

    Raises:
        ValueError: it is no such set, has no file, or a file that an earlier one does not prepare.
        TypeError: a file contradicts itself.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool
    from google.protobuf.message import DecodeError

    try:
        found = descriptor_pb2.FileDescriptorSet.FromString(octets)
    except DecodeError as error:
        raise ValueError(f"they are no FileDescriptorSet: {error}") from error
    if not found.file:
        raise ValueError("the FileDescriptorSet has no file")
    pool = descriptor_pool.DescriptorPool()
    for file in found.file:
        pool.AddSerializedFile(file.SerializeToString())
    names = [file.name for file in found.file]
    for name in names:
        pool.FindFileByName(name)
    return pool, names


def _file(schema: FileSchema) -> FileDescriptorProto:
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name=schema.name, package=schema.package, syntax="proto3")
    for name, fields in schema.messages.items():
        message = file.message_type.add(name=name)
        for field_name, field_schema in fields.items():
            _add_field(message, field_name, field_schema, f".{schema.package}.")
    for path, values in schema.enums.items():
        owner, _, name = path.partition(".")
        [message] = (each for each in file.message_type if each.name == owner)
        enum = message.enum_type.add(name=name)
        for number, value in enumerate(values):
            enum.value.add(name=value, number=number)
    service = file.service.add(name=schema.service)
    for name, method in schema.methods.items():
        service.method.add(
            name=name,
            input_type=f".{schema.package}.{method.request}",
            output_type=f".{schema.package}.{method.response}",
            client_streaming=method.request_stream,
            server_streaming=method.response_stream,
        )
    return file


def _add_field(message: DescriptorProto, name: str, schema: FieldSchema, scope: str) -> None:
    added = message.field.add(name=name, number=schema.number)
    added.label = _REPEATED if schema.repeated else _OPTIONAL
    if schema.kind in _SCALARS:
        added.type = _SCALARS[schema.kind]
    else:
        is_enum = schema.kind.startswith("enum:")
        added.type = _ENUM if is_enum else _MESSAGE
        added.type_name = scope + schema.kind.removeprefix("enum:")
    if schema.oneof:
        names = [each.name for each in message.oneof_decl]
        if schema.oneof not in names:
            message.oneof_decl.add(name=schema.oneof)
            names.append(schema.oneof)
        added.oneof_index = names.index(schema.oneof)
