"""A service and its gRPC service, matched: which rpc is which method, and how the messages of each become values.

Rule: everything that could not work is refused when the service starts, by a sentence with the names of both sides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trilith.errors import InvalidConfig
from trilith.service.local import source_folder
from trilith.service.proto.codec import RequestReader, ResponseWriter
from trilith.service.proto.compiler import read_file, text_of
from trilith.service.proto.conversion import Mismatch
from trilith.service.proto.converter import Converter
from trilith.service.proto.derive import DerivedFile
from trilith.service.proto.derived_types import Inexpressible
from trilith.service.proto.schema import Schema
from trilith.service.proto.shown import pascal_case, snake_case

if TYPE_CHECKING:
    from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

    from trilith.service.spec import MethodSpec, ServiceSpec


class BoundMethod:
    """One rpc and the method that answers it."""

    def __init__(self, rpc: MethodDescriptor, spec: MethodSpec, converter: Converter) -> None:
        """Matches them.

        Raises:
            InvalidConfig: they do not fit.
        """
        self.rpc = rpc.name
        self.method = spec.name
        where = f"{rpc.containing_service.full_name}/{rpc.name}"
        try:
            self.reader = RequestReader(spec.signature, rpc.input_type, spec.where, converter)
            self.writer = ResponseWriter(spec.signature, rpc.output_type, spec.where, converter)
        except Mismatch as mismatch:
            raise InvalidConfig(f"{where} does not fit {spec.where}: {mismatch}") from None
        except NameError as error:
            raise InvalidConfig(f"{where}: an annotation of {spec.where} cannot be resolved: {error}") from error


class Binding:
    """A service over gRPC.

    Attributes:
        name: `package.Service`.
        methods: by the name of the Python method.
        descriptor_set: the files, serialised.
        text: the `.proto` that is served; "" where there is none.
        left_out: why each of the other methods is not offered.
    """

    def __init__(
        self,
        name: str,
        methods: dict[str, BoundMethod],
        descriptor_set: bytes,
        *,
        text: str,
        left_out: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.methods = methods
        self.descriptor_set = descriptor_set
        self.text = text
        self.left_out = left_out


def bind(spec: ServiceSpec) -> Binding:
    """The binding of a service: of its `.proto`, or derived from its annotations.

    Raises:
        InvalidConfig: its `.proto` cannot be read, or does not fit.
    """
    return bind_file(spec) if spec.options.proto else bind_annotations(spec)


def bind_annotations(spec: ServiceSpec) -> Binding:
    """The binding of a service that has no `.proto`. Methods that have no form there are left out."""
    package, _, name = (spec.options.rpc or default_name(spec.name)).rpartition(".")
    file = DerivedFile(package, name)
    named, left_out = derive(spec, file)
    descriptor_set = file.descriptor_set()
    schema, converter = Schema(descriptor_set, spec.name), Converter()
    declared = schema.service(f"{package}.{name}")
    rpcs = () if declared is None else declared.methods
    bound = []
    for rpc in rpcs:
        try:
            bound.append(BoundMethod(rpc, named[rpc.name], converter))
        except InvalidConfig as why:
            left_out.append(why.message)
    return Binding(
        f"{package}.{name}",
        {method.method: method for method in bound},
        descriptor_set,
        text="",
        left_out=left_out,
    )


def derive(spec: ServiceSpec, file: DerivedFile) -> tuple[dict[str, MethodSpec], list[str]]:
    """Puts the methods of a service into a file: the methods by the names of their rpcs; why others are left out."""
    left_out: list[str] = []
    named: dict[str, MethodSpec] = {}
    for method in spec.methods.values():
        try:
            named[file.add(method)] = method
        except Inexpressible as why:
            left_out.append(str(why))
    file.documents.setdefault(file.service.name, spec.documentation)
    return named, left_out


def default_name(service: str) -> str:
    """The gRPC service of a service: `LineReader` is `line_reader.LineReader`."""
    word = re.sub(r"[^A-Za-z0-9_]", "_", service)
    return f"{snake_case(word)}.{pascal_case(word)}"


def bind_file(spec: ServiceSpec) -> Binding:
    """The binding of a service with `proto=`.

    Raises:
        InvalidConfig: there is no such file, rpc or method, or they do not fit.
    """
    folder = source_folder(spec.target)
    path = folder / spec.options.proto
    schema = Schema(read_file(path, folder, spec.name), spec.name)
    declared = _declared(spec, schema, path)
    converter = Converter()
    methods: dict[str, BoundMethod] = {}
    for rpc in declared.methods:
        method = spec.methods.get(rpc.name) or spec.methods.get(snake_case(rpc.name))
        if method is None:
            raise InvalidConfig(
                f"{declared.full_name}/{rpc.name} has no method: expected {spec.name} to have a public method"
                f" `{snake_case(rpc.name)}` or `{rpc.name}`; it has {', '.join(spec.methods)}"
            )
        _check_streams(rpc, method)
        if method.name in methods:
            raise InvalidConfig(
                f"{declared.full_name}: {methods[method.name].rpc} and {rpc.name} are both {method.where}; give one of"
                " them a method of its own"
            )
        methods[method.name] = BoundMethod(rpc, method, converter)
    left_out = [
        f"{one.where}: {path.name} has no rpc for it" for one in spec.methods.values() if one.name not in methods
    ]
    return Binding(declared.full_name, methods, schema.descriptor_set, text=text_of(path), left_out=left_out)


def _check_streams(rpc: MethodDescriptor, method: MethodSpec) -> None:
    """Both are streams, or neither is, either way."""
    signature, where = method.signature, f"{rpc.containing_service.full_name}/{rpc.name}"
    if bool(rpc.client_streaming) != (signature.taken is not None):
        here, there = ("a stream of", "one message") if rpc.client_streaming else ("one", "a stream")
        way = "write AsyncIterator[...] (in a plain def: Iterator[...])" if rpc.client_streaming else "write its type"
        raise InvalidConfig(
            f"{where} takes {here} {rpc.input_type.full_name}, and {method.where} takes {there}; for the parameter,"
            f" {way}"
        )
    if bool(rpc.server_streaming) != signature.streams:
        here, there = ("a stream of", "one message") if rpc.server_streaming else ("one", "a stream")
        way = "-> AsyncIterator[...] (in a plain def: Iterator[...])" if rpc.server_streaming else "-> its type"
        raise InvalidConfig(
            f"{where} answers with {here} {rpc.output_type.full_name}, and {method.where} with {there}: write {way}"
        )


def _declared(spec: ServiceSpec, schema: Schema, path: Path) -> ServiceDescriptor:
    known = schema.services
    wanted = spec.options.rpc
    if not wanted:
        if len(known) != 1:
            raise InvalidConfig(
                f"{spec.name}: {path.name} declares {', '.join(known) or 'no service'}; say which one:"
                " @trilith.service(proto=..., rpc='package.Service')"
            )
        wanted = known[0]
    found = schema.service(wanted)
    if found is None:
        raise InvalidConfig(
            f"{spec.name}: rpc={wanted!r}: {path.name} has no such service; it has {', '.join(known) or 'none'}"
        )
    return found
