"""Server reflection: which services there are and what their messages look like, from their own descriptors.

Two editions of the protocol are in use, `grpc.reflection.v1` and `v1alpha`; they differ in the package's name alone.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from trilith.errors import InvalidInput
from trilith.wire.grpc_descriptors import FieldSchema, FileSchema, MethodSchema, SchemaMessages
from trilith.wire.grpc_status import GrpcStatus

if TYPE_CHECKING:
    from google.protobuf.descriptor import FileDescriptor, ServiceDescriptor

EDITIONS: Final = ("v1", "v1alpha")


def _schema(edition: str) -> FileSchema:
    asked, answered = "message_request", "message_response"
    return FileSchema(
        name=f"grpc/reflection/{edition}/reflection.proto",
        package=f"grpc.reflection.{edition}",
        messages={
            "ServerReflectionRequest": {
                "host": FieldSchema(number=1, kind="string"),
                "file_by_filename": FieldSchema(number=3, kind="string", oneof=asked),
                "file_containing_symbol": FieldSchema(number=4, kind="string", oneof=asked),
                "file_containing_extension": FieldSchema(number=5, kind="ExtensionRequest", oneof=asked),
                "all_extension_numbers_of_type": FieldSchema(number=6, kind="string", oneof=asked),
                "list_services": FieldSchema(number=7, kind="string", oneof=asked),
            },
            "ExtensionRequest": {
                "containing_type": FieldSchema(number=1, kind="string"),
                "extension_number": FieldSchema(number=2, kind="int32"),
            },
            "ServerReflectionResponse": {
                "valid_host": FieldSchema(number=1, kind="string"),
                "original_request": FieldSchema(number=2, kind="ServerReflectionRequest"),
                "file_descriptor_response": FieldSchema(number=4, kind="FileDescriptorResponse", oneof=answered),
                "all_extension_numbers_response": FieldSchema(number=5, kind="ExtensionNumberResponse", oneof=answered),
                "list_services_response": FieldSchema(number=6, kind="ListServiceResponse", oneof=answered),
                "error_response": FieldSchema(number=7, kind="ErrorResponse", oneof=answered),
            },
            "FileDescriptorResponse": {"file_descriptor_proto": FieldSchema(number=1, kind="bytes", repeated=True)},
            "ExtensionNumberResponse": {
                "base_type_name": FieldSchema(number=1, kind="string"),
                "extension_number": FieldSchema(number=2, kind="int32", repeated=True),
            },
            "ListServiceResponse": {"service": FieldSchema(number=1, kind="ServiceResponse", repeated=True)},
            "ServiceResponse": {"name": FieldSchema(number=1, kind="string")},
            "ErrorResponse": {
                "error_code": FieldSchema(number=1, kind="int32"),
                "error_message": FieldSchema(number=2, kind="string"),
            },
        },
        service="ServerReflection",
        methods={
            "ServerReflectionInfo": MethodSchema(
                request="ServerReflectionRequest",
                response="ServerReflectionResponse",
                request_stream=True,
                response_stream=True,
            )
        },
    )


@functools.cache
def reflection_messages(edition: str) -> SchemaMessages:
    """The messages and the service of one of `EDITIONS`."""
    return SchemaMessages(_schema(edition))


class DescriptorIndex:
    """The files of some services, by name and by what they declare.

    Args:
        services: descriptors; their files are served with all that these import.
    """

    __slots__ = ("_files", "_symbols", "services")

    def __init__(self, services: Sequence[ServiceDescriptor]) -> None:
        self.services = sorted(service.full_name for service in services)
        self._files: dict[str, FileDescriptor] = {}
        self._symbols: dict[str, str] = {}
        for service in services:
            for file in _with_imports(service.file):
                if file.name not in self._files:
                    self._files[file.name] = file
                    self._symbols.update((symbol, file.name) for symbol in _symbols(file))

    def file(self, name: str) -> list[bytes] | None:
        """A file and all that it imports, serialised, the file first; None when it is not served."""
        found = self._files.get(name)
        return None if found is None else [each.serialized_pb for each in _with_imports(found)]

    def file_of(self, symbol: str) -> list[bytes] | None:
        """The same for the file that declares a symbol: a message, field, enum, value, service or method."""
        return self.file(self._symbols.get(symbol.removeprefix("."), ""))

    def declares(self, symbol: str) -> bool:
        """True when a file declares the symbol."""
        return symbol.removeprefix(".") in self._symbols


def answer(index: DescriptorIndex, edition: str, octets: bytes | memoryview) -> bytes:
    """The `ServerReflectionResponse` to a `ServerReflectionRequest`.

    Raises:
        InvalidInput: the message is no such request.
    """
    from google.protobuf.message import DecodeError

    messages = reflection_messages(edition)
    try:
        request = messages.message("ServerReflectionRequest").FromString(bytes(octets))
    except DecodeError as error:
        raise InvalidInput(f"the message is no grpc.reflection.{edition}.ServerReflectionRequest: {error}") from error
    response = messages.message("ServerReflectionResponse")(valid_host=request.host, original_request=request)
    _fill(response, request, index)
    answered: bytes = response.SerializeToString()
    return answered


def _fill(response: Any, request: Any, index: DescriptorIndex) -> None:
    kind = request.WhichOneof("message_request")
    found: list[bytes] | None = None
    if kind == "list_services":
        for name in index.services:
            response.list_services_response.service.add(name=name)
        return
    if kind == "all_extension_numbers_of_type" and index.declares(request.all_extension_numbers_of_type):
        # proto3 has no extensions but of options, which none of our files declare.
        response.all_extension_numbers_response.base_type_name = request.all_extension_numbers_of_type
        return
    if kind == "file_by_filename":
        found = index.file(request.file_by_filename)
    elif kind == "file_containing_symbol":
        found = index.file_of(request.file_containing_symbol)
    if found is not None:
        response.file_descriptor_response.file_descriptor_proto.extend(found)
        return
    error = response.error_response
    error.error_code = GrpcStatus.NOT_FOUND if kind is not None else GrpcStatus.INVALID_ARGUMENT
    asked = "nothing was asked" if kind is None else f"{kind}: {str(getattr(request, kind)).strip()[:200]}"
    error.error_message = f"{asked}: not among what this server serves"


def _with_imports(file: FileDescriptor) -> list[FileDescriptor]:
    """A file and the files that it imports, each once."""
    found: dict[str, FileDescriptor] = {}
    left = [file]
    while left:
        each = left.pop(0)
        if each.name not in found:
            found[each.name] = each
            left.extend(each.dependencies)
    return list(found.values())


def _symbols(file: FileDescriptor) -> Iterator[str]:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    declared = FileDescriptorProto.FromString(file.serialized_pb)
    scope = f"{declared.package}." if declared.package else ""
    yield from _of_messages(scope, declared.message_type)
    yield from _of_enums(scope, declared.enum_type)
    for service in declared.service:
        yield scope + service.name
        yield from (f"{scope}{service.name}.{method.name}" for method in service.method)
    yield from (scope + extension.name for extension in declared.extension)


def _of_messages(scope: str, messages: Iterable[Any]) -> Iterator[str]:
    for message in messages:
        name = scope + message.name
        yield name
        inner = f"{name}."
        for members in (message.field, message.oneof_decl, message.extension):
            yield from (inner + member.name for member in members)
        yield from _of_messages(inner, message.nested_type)
        yield from _of_enums(inner, message.enum_type)


def _of_enums(scope: str, enums: Iterable[Any]) -> Iterator[str]:
    for enum in enums:
        yield scope + enum.name
        yield from (scope + value.name for value in enum.value)  # values stand beside their enum, as in C++
