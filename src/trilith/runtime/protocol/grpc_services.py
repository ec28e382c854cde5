"""All that the models' gRPC port serves: the inference service, its health, and reflection of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from trilith.errors import NotFound
from trilith.net.grpc import GrpcServices, HealthService, ReflectionService
from trilith.runtime.protocol import describe
from trilith.runtime.protocol.grpc import OipGrpc
from trilith.wire.grpc_health import health_messages
from trilith.wire.oip_messages import service_messages

if TYPE_CHECKING:
    from trilith.runtime.protocol.port import RuntimePort

_SERVICE: Final = "GRPCInferenceService"


def oip_services(app: OipGrpc, runtime: RuntimePort) -> GrpcServices:
    """The application of the gRPC port; give the server its `streaming` as well.

    Args:
        app: the inference service; once it is `exiting`, nothing is healthy.
        runtime: the models, whose health is told.
    """
    inference = service_messages().DESCRIPTOR.services_by_name[_SERVICE]
    return GrpcServices(
        app,
        HealthService(model_health(runtime, draining=lambda: app.exiting), admit=app.admit_health),
        ReflectionService([inference, health_messages().service]),
        streaming=app.streaming,
    )


def model_health(runtime: RuntimePort, *, draining: Callable[[], bool]) -> Callable[[str], bool | None]:
    """A source of health: the server under "" and under its service's name, a model under `NAME` or `NAME/VERSION`."""

    def health(service: str) -> bool | None:
        if service in ("", f"inference.{_SERVICE}"):
            return runtime.ready and not draining()
        name, _, version = service.partition("/")
        try:
            model = runtime.model(name, version)
        except NotFound:
            return not draining() if runtime.absent(name) else None
        return (describe.is_ready(model) or describe.is_obtainable(runtime, model)) and not draining()

    return health
