"""The text of a service's `.proto`, for `trilith proto`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from trilith.errors import InvalidConfig
from trilith.service.proto.binding import default_name, derive
from trilith.service.proto.compiler import read_file
from trilith.service.proto.derive import DerivedFile
from trilith.service.proto.derived_types import Inexpressible
from trilith.service.proto.numbers import keep_numbers
from trilith.service.proto.text import proto_text

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    from trilith.service.spec import ServiceSpec

_MADE: Final = "Made by `trilith proto`."
_HEAD: Final = (
    f"{_MADE} Numbers are the order of parameters and fields; `-o` to this file keeps those that it has.",
    "To keep the protocol whatever becomes of the class: @trilith.service(proto=...).",
    "",
)


def proto_of(spec: ServiceSpec, path: Path | None = None) -> str:
    """The `.proto` of a service.

    Args:
        spec: the service.
        path: the file that is to be written. If it is there already, the numbers in it hold.

    Raises:
        InvalidConfig: the service has no form in a `.proto`, or the file is not one of this kind.
    """
    if spec.options.proto and path is None:
        if not spec.grpc.text:
            raise InvalidConfig(f"{spec.name} is served by the descriptor set {spec.options.proto}, which has no text")
        return spec.grpc.text
    kept = None if path is None or not path.exists() else _kept(path, spec.name)
    package, _, name = _name(spec, kept).rpartition(".")
    file = DerivedFile(package, name)
    _, left_out = derive(spec, file)
    try:
        if kept is not None:
            keep_numbers(file.proto, kept)
    except Inexpressible as why:
        left_out.append(str(why))
    if left_out:
        raise InvalidConfig(f"{spec.name} cannot be written as a .proto: {'; '.join(left_out)}")
    return proto_text(file.proto, head=_HEAD, documents=file.documents)


def _name(spec: ServiceSpec, kept: FileDescriptorProto | None) -> str:
    if spec.options.rpc:
        return spec.options.rpc
    if kept is not None and len(kept.service) == 1:
        return f"{kept.package}.{kept.service[0].name}"
    return default_name(spec.name)


def _kept(path: Path, where: str) -> FileDescriptorProto:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    if _MADE not in path.read_text("utf-8", "replace"):
        raise InvalidConfig(
            f"{path} was not made by `trilith proto`, and is left as it is: a .proto of your own is served by"
            f" @trilith.service(proto={path.name!r}). Name another file"
        )
    return FileDescriptorSet.FromString(read_file(path, path.parent, where)).file[-1]
