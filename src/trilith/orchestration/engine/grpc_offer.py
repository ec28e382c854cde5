"""What an application offers over gRPC, as the gateway needs it: paths, and what health and reflection tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trilith.errors import SetupError
from trilith.orchestration.deployments import MethodRoute
from trilith.service import AppDescription
from trilith.wire.grpc_descriptors import read_descriptor_set

if TYPE_CHECKING:
    from google.protobuf.descriptor import ServiceDescriptor


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcOffer:
    """The gRPC services of one revision of an application.

    Attributes:
        paths: the methods by path, `b"/package.Service/Method"`.
        streaming: paths whose clients may send several messages.
        services: by the full name of the gRPC service, the name of the service that answers.
        descriptors: of the gRPC services.
    """

    paths: Mapping[bytes, MethodRoute] = field(default_factory=dict)
    streaming: frozenset[bytes] = frozenset()
    services: Mapping[str, str] = field(default_factory=dict)
    descriptors: Sequence[ServiceDescriptor] = ()


def read_offer(description: AppDescription, routes: Mapping[tuple[str, str], MethodRoute]) -> GrpcOffer:
    """What a description says of gRPC.

    Args:
        description: of the application.
        routes: its methods by service and name.

    Raises:
        SetupError: descriptors cannot be read here.
    """
    paths: dict[bytes, MethodRoute] = {}
    services: dict[str, str] = {}
    descriptors: list[ServiceDescriptor] = []
    for service in description.services:
        offered = service.grpc
        if offered is None:
            continue
        services[offered.service] = service.name
        for rpc in offered.rpcs:
            paths[f"/{offered.service}/{rpc.name}".encode()] = routes[service.name, rpc.method]
        try:
            pool, _ = read_descriptor_set(offered.descriptor_set)
            descriptors.append(pool.FindServiceByName(offered.service))
        except (KeyError, TypeError, ValueError) as error:
            raise SetupError(f"{service.name}: the descriptors of {offered.service} cannot be read: {error}") from error
    streaming = frozenset(path for path, route in paths.items() if route.takes)
    return GrpcOffer(paths=paths, streaming=streaming, services=services, descriptors=descriptors)
