"""What a gRPC method takes: asked of the server by reflection, or read from a `.proto`; and JSON as its messages.

Rule 1: descriptors live in a pool of their own, since the server's edition of a file may be another than ours.
Rule 2: protobuf is imported when it is needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trilith.errors import InvalidConfig, SetupError
from trilith.measure.load.grpc_call import call
from trilith.measure.load.grpc_target import GrpcTarget
from trilith.wire.grpc_descriptors import read_descriptor_set
from trilith.wire.grpc_reflection import EDITIONS, reflection_messages

if TYPE_CHECKING:
    from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

_UNKNOWN_METHOD = ("grpc-status 12", "grpc-status 5 ", "status 404")


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcMethod:
    """A method of a server.

    Attributes:
        request: the class of its request messages.
        streams_requests: whether it takes a stream of them.
        streams_answers: whether it gives a stream of answers.
    """

    request: Any
    streams_requests: bool
    streams_answers: bool

    def serialise(self, text: bytes, where: str) -> tuple[bytes, ...]:
        """JSON, by protobuf's mapping, as the messages of one call; where it takes a stream, an array is several.

        Raises:
            InvalidConfig: it is no such message; `where` names the data.
        """
        from google.protobuf import json_format

        try:
            value = json.loads(text or b"{}")
        except ValueError as error:
            raise InvalidConfig(f"{where}: expected JSON of a {self.request.DESCRIPTOR.full_name}: {error}") from None
        several = value if isinstance(value, list) and self.streams_requests else [value]
        try:
            parsed = [json_format.ParseDict(each, self.request()) for each in several]
        except (json_format.ParseError, TypeError, AttributeError) as error:
            fields = ", ".join(field.json_name for field in self.request.DESCRIPTOR.fields)
            raise InvalidConfig(
                f"{where}: expected JSON of a {self.request.DESCRIPTOR.full_name} (fields: {fields or 'none'}): {error}"
            ) from None
        return tuple(message.SerializeToString() for message in parsed)


async def method_by_reflection(
    target: GrpcTarget, headers: Sequence[tuple[str, str]] = (), *, timeout_s: float = 30.0
) -> GrpcMethod:
    """Asks the server what the target's method takes.

    Raises:
        SetupError: nobody answers, or the server has no reflection.
        InvalidConfig: it has no such service or method; the message names those that it has.
    """
    asking = _Reflection(target, headers, timeout_s)
    files = await asking.files("file_containing_symbol", target.service) if target.service else None
    if files is None:
        names = ", ".join(await asking.services()) or "none"
        missing = f"the server has no service {target.service!r}" if target.service else "no method is named"
        raise InvalidConfig(
            f"{target.url}: {missing}; expected grpc://HOST:PORT/package.Service/Method. Its services: {names}"
        )
    known = {each.name: each for each in files}
    pending = [name for each in files for name in each.dependency]
    while pending:
        name = pending.pop()
        if name in known:
            continue
        more = await asking.files("file_by_filename", name) or _well_known(name)
        if not more:
            raise SetupError(f"{target.url}: the server's reflection has no file {name!r}, which its own files import")
        for each in more:
            known.setdefault(each.name, each)
            pending += each.dependency
    return _method_in(_pool_of(known), target)


def method_by_file(target: GrpcTarget, descriptor_set: bytes, path: Path) -> GrpcMethod:
    """The target's method by a serialised `FileDescriptorSet`.

    Raises:
        InvalidConfig: it is none, or does not declare the method.
    """
    try:
        pool, _ = read_descriptor_set(descriptor_set)
    except (ValueError, TypeError) as error:
        raise InvalidConfig(f"--proto {path}: {error}") from None
    return _method_in(pool, target)


def _method_in(pool: DescriptorPool, target: GrpcTarget) -> GrpcMethod:
    from google.protobuf import message_factory

    try:
        service: ServiceDescriptor = pool.FindServiceByName(target.service)
    except KeyError:
        raise InvalidConfig(f"{target.url}: no service {target.service!r} is declared") from None
    found: MethodDescriptor | None = service.methods_by_name.get(target.method)
    if found is None:
        names = ", ".join(service.methods_by_name)
        raise InvalidConfig(f"{target.url}: {target.service} has no method {target.method!r}; it has: {names}")
    return GrpcMethod(
        request=message_factory.GetMessageClass(found.input_type),
        streams_requests=found.client_streaming,
        streams_answers=found.server_streaming,
    )


class _Reflection:
    """Questions to a server's reflection, in the newer edition of the protocol, else in the older."""

    def __init__(self, target: GrpcTarget, headers: Sequence[tuple[str, str]], timeout_s: float) -> None:
        self._target = target
        self._headers = headers
        self._timeout_s = timeout_s

    async def files(self, kind: str, value: str) -> list[FileDescriptorProto] | None:
        """Files by name or by what they declare; None when the server has none."""
        from google.protobuf import descriptor_pb2

        response = await self._ask(kind, value)
        if response.WhichOneof("message_response") != "file_descriptor_response":
            return None
        found = response.file_descriptor_response.file_descriptor_proto
        return [descriptor_pb2.FileDescriptorProto.FromString(each) for each in found]

    async def services(self) -> list[str]:
        """Names of its services."""
        response = await self._ask("list_services", "")
        return [service.name for service in response.list_services_response.service]

    async def _ask(self, kind: str, value: str) -> Any:
        said = ""
        for edition in EDITIONS:
            messages = reflection_messages(edition)
            request = messages.message("ServerReflectionRequest")(**{kind: value})
            path = f"/grpc.reflection.{edition}.ServerReflection/ServerReflectionInfo"
            answer = await call(
                self._target, [request.SerializeToString()], self._headers, path=path, timeout_s=self._timeout_s
            )
            if answer.messages:
                return messages.message("ServerReflectionResponse").FromString(answer.messages[0])
            said = f"{answer.error}{': ' if answer.message else ''}{answer.message}"
            if not answer.error.startswith(_UNKNOWN_METHOD):
                break
        raise SetupError(
            f"{self._target.url}: the server does not tell its services by reflection ({said or 'no answer'}): give"
            " --proto FILE, a .proto or a descriptor set"
        )


def _well_known(name: str) -> list[FileDescriptorProto]:
    """A file that protobuf itself ships, which some servers leave out."""
    from google.protobuf import (
        any_pb2,
        descriptor_pb2,
        duration_pb2,
        empty_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )

    modules = (any_pb2, descriptor_pb2, duration_pb2, empty_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
    found = [module.DESCRIPTOR.serialized_pb for module in modules if module.DESCRIPTOR.name == name]
    return [descriptor_pb2.FileDescriptorProto.FromString(each) for each in found]


def _pool_of(files: Mapping[str, FileDescriptorProto]) -> DescriptorPool:
    """The files in a pool of their own, what is imported first."""
    from google.protobuf import descriptor_pool

    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()
    left = list(files)
    while left:
        ready = [name for name in left if added.issuperset(files[name].dependency)]
        for name in ready or left:  # a circle is an error that the pool tells
            pool.AddSerializedFile(files[name].SerializeToString())
        added.update(ready or left)
        left = [name for name in left if name not in added]
    return pool
