"""What a service offers over gRPC, as plain values; and what of all services cannot stand beside each other."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from trilith.errors import InvalidConfig
from trilith.service.spec import ServiceSpec

if TYPE_CHECKING:
    from trilith.service.proto.binding import Binding

_log: Final = logging.getLogger("trilith.service")
_OWN: Final = ("inference.GRPCInferenceService", "grpc.health.v1.Health")
_OWN_PACKAGES: Final = ("grpc.reflection.",)


class RpcDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One rpc, and the name of the method that answers it."""

    name: str
    method: str


class GrpcDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A gRPC service.

    Attributes:
        service: `package.Service`.
        rpcs: what it offers.
        descriptor_set: a serialised `FileDescriptorSet` of the files that declare it.
    """

    service: str
    rpcs: list[RpcDescription]
    descriptor_set: bytes


def describe_grpc(specs: Iterable[ServiceSpec]) -> dict[str, GrpcDescription]:
    """What each of the services offers, by its name. Those that offer nothing are left out.

    Args:
        specs: the root first. Other services are reached through it, and offered only when they have a `.proto`.

    Raises:
        InvalidConfig: a `.proto` does not fit its class, or two services would have one name.
    """
    found: dict[str, GrpcDescription] = {}
    owners: dict[str, str] = {}
    for number, spec in enumerate(specs):
        if number and not spec.options.proto:
            continue  # only the root is public
        binding = _binding(spec)
        if binding is None:
            continue
        if binding.left_out and not spec.options.proto:
            for why in binding.left_out:  # begins with the name of the method
                _log.info("not offered over gRPC, but over HTTP: %s", why)
        if not binding.methods:
            continue
        other = owners.setdefault(binding.name, spec.name)
        if binding.name in _OWN or binding.name.startswith(_OWN_PACKAGES):
            raise InvalidConfig(f"{spec.name}: the gRPC service {binding.name} is the server's own; name it otherwise")
        if other != spec.name:
            raise InvalidConfig(
                f"{other} and {spec.name} are both the gRPC service {binding.name}; give one of them another: rpc=..."
            )
        found[spec.name] = GrpcDescription(
            service=binding.name,
            rpcs=[RpcDescription(name=one.rpc, method=one.method) for one in binding.methods.values()],
            descriptor_set=binding.descriptor_set,
        )
    return found


def _binding(spec: ServiceSpec) -> Binding | None:
    """How a service is served over gRPC. What nobody asked for must not keep it from being served otherwise."""
    if spec.options.proto:
        return spec.grpc
    try:
        return spec.grpc
    except Exception:  # noqa: BLE001  a mistake of ours in what is derived; it is logged, and HTTP goes on
        _log.exception("%s cannot be offered over gRPC; please report this", spec.name)
        return None
