"""A file descriptor as the text of a `.proto`.

Rule: what protoc makes of the text is the descriptor again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import (
        DescriptorProto,
        EnumDescriptorProto,
        FieldDescriptorProto,
        FileDescriptorProto,
        ServiceDescriptorProto,
    )

_TYPES: Final = {1: "double", 3: "int64", 8: "bool", 9: "string", 12: "bytes"}
_REPEATED: Final = 3
_INDENT: Final = "  "


def proto_text(
    file: FileDescriptorProto, *, head: Iterable[str] = (), documents: Mapping[str, str] | None = None
) -> str:
    """The text.

    Args:
        file: in proto3, with the types that a derived file has.
        head: comment lines at its top.
        documents: comments by the name of what they describe: `Ocr`, `Ocr.Read`, `Line`.
    """
    known = documents or {}
    parts = ["\n".join([*(f"// {line}".rstrip() for line in head), 'syntax = "proto3";'])]
    parts.append(f"package {file.package};")
    if file.dependency:
        parts.append("\n".join(f'import "{name}";' for name in sorted(file.dependency)))
    scope = f".{file.package}."
    parts += ["\n".join(_service(service, scope, known)) for service in file.service]
    parts += ["\n".join(_message(message, scope, known)) for message in file.message_type]
    parts += ["\n".join(_enum(enum, known)) for enum in file.enum_type]
    return "\n\n".join(parts) + "\n"


def _comment(text: str, indent: str = "") -> Iterator[str]:
    for line in text.strip().splitlines():
        yield f"{indent}// {line}".rstrip()


def _service(service: ServiceDescriptorProto, scope: str, documents: Mapping[str, str]) -> Iterator[str]:
    yield from _comment(documents.get(service.name, ""))
    names = {rpc.name for rpc in service.method}  # which hide messages of the same names from each other

    def shown(name: str) -> str:
        return name if name.removeprefix(scope) in names else name.removeprefix(scope)

    yield f"service {service.name} {{"
    for rpc in service.method:
        yield from _comment(documents.get(f"{service.name}.{rpc.name}", ""), _INDENT)
        asked = ("stream " if rpc.client_streaming else "") + shown(rpc.input_type)
        answered = ("stream " if rpc.server_streaming else "") + shown(rpc.output_type)
        yield f"{_INDENT}rpc {rpc.name}({asked}) returns ({answered});"
    yield "}"


def _message(message: DescriptorProto, scope: str, documents: Mapping[str, str]) -> Iterator[str]:
    yield from _comment(documents.get(message.name, ""))
    if not message.field and not message.reserved_range:
        yield f"message {message.name} {{}}"
        return
    yield f"message {message.name} {{"
    yield from _reserved([range(each.start, each.end) for each in message.reserved_range], message.reserved_name)
    said: set[int] = set()
    for field in message.field:
        if not field.HasField("oneof_index") or field.proto3_optional:
            yield f"{_INDENT}{_field_type(message, field, scope)} {field.name} = {field.number};"
        elif field.oneof_index not in said:
            said.add(field.oneof_index)
            yield f"{_INDENT}oneof {message.oneof_decl[field.oneof_index].name} {{"
            for member in message.field:
                if member.HasField("oneof_index") and member.oneof_index == field.oneof_index:
                    yield f"{_INDENT * 2}{_one(member, scope)} {member.name} = {member.number};"
            yield f"{_INDENT}}}"
    yield "}"


def _reserved(ranges: Iterable[range], names: Iterable[str]) -> Iterator[str]:
    numbers = ", ".join(str(number) for each in ranges for number in each)
    if numbers:
        yield f"{_INDENT}reserved {numbers};"
    shown = ", ".join(f'"{name}"' for name in names)
    if shown:
        yield f"{_INDENT}reserved {shown};"


def _field_type(message: DescriptorProto, field: FieldDescriptorProto, scope: str) -> str:
    for entry in message.nested_type:
        if field.type_name == f"{scope}{message.name}.{entry.name}":
            key, value = (_one(each, scope) for each in entry.field)
            return f"map<{key}, {value}>"
    if field.label == _REPEATED:
        return f"repeated {_one(field, scope)}"
    return f"optional {_one(field, scope)}" if field.proto3_optional else _one(field, scope)


def _one(field: FieldDescriptorProto, scope: str) -> str:
    return field.type_name.removeprefix(scope).removeprefix(".") if field.type_name else _TYPES[field.type]


def _enum(enum: EnumDescriptorProto, documents: Mapping[str, str]) -> Iterator[str]:
    yield from _comment(documents.get(enum.name, ""))
    yield f"enum {enum.name} {{"
    yield from _reserved([range(each.start, each.end + 1) for each in enum.reserved_range], enum.reserved_name)
    for value in enum.value:
        yield f"{_INDENT}{value.name} = {value.number};"
    yield "}"
