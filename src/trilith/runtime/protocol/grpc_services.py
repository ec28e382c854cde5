"""All that the models' gRPC port serves: the inference service, its health, and reflection of both."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from trilith.errors import NotFound
from trilith.net.grpc import Answer, GrpcCall, GrpcServices, HealthService, ReflectionService
from trilith.runtime.protocol import describe
from trilith.runtime.protocol.grpc import OipGrpc
from trilith.wire.grpc_health import health_messages
from trilith.wire.oip_messages import service_messages

if TYPE_CHECKING:
    from google.protobuf.descriptor import ServiceDescriptor

    from trilith.runtime.protocol.port import RuntimePort

_SERVICE: Final = "GRPCInferenceService"


class Front(Protocol):
    """Other services at the same port."""

    def __call__(self, call: GrpcCall) -> Answer:
        """Answers a call; it passes on to the inference service what it does not know."""
        ...

    def health(self, service: str) -> bool | None:
        """Whether a service serves; "" stands for all of them. None: it is none of these."""
        ...


class OipServices(GrpcServices):
    """The application of the gRPC port; give the server its `streaming` as well.

    Args:
        app: the inference service; once it is `exiting`, nothing is healthy.
        runtime: the models, whose health is told.
        front: other services beside them, through which all calls go; None for none.
    """

    def __init__(self, app: OipGrpc, runtime: RuntimePort, *, front: Front | None = None) -> None:
        beside = _no_other if front is None else front.health
        self._reflection = ReflectionService(_own())
        self._streams = app.streaming
        super().__init__(
            app if front is None else front,
            HealthService(model_health(runtime, draining=lambda: app.exiting, beside=beside), admit=app.admit_health),
            self._reflection,
            streaming=app.streaming,
        )

    def show(self, services: Sequence[ServiceDescriptor], streaming: Collection[bytes]) -> None:
        """Reflection tells of these other services from now on; `streaming` are paths of theirs, as `GrpcServer`'s."""
        self._reflection.show([*services, *_own()])
        self.stream({*self._streams, *streaming})


def _own() -> list[ServiceDescriptor]:
    return [service_messages().DESCRIPTOR.services_by_name[_SERVICE], health_messages().service]


def _no_other(service: str) -> bool | None:
    return True if service == "" else None


def model_health(
    runtime: RuntimePort,
    *,
    draining: Callable[[], bool],
    beside: Callable[[str], bool | None] = _no_other,
) -> Callable[[str], bool | None]:
    """A source of health: the server under "", each service under its name, a model under `NAME` or `NAME/VERSION`.

    `beside` knows of other services, as `Front.health`.
    """

    def health(service: str) -> bool | None:
        if service == "":
            return bool(beside("")) and runtime.ready and not draining()
        if (serves := beside(service)) is not None:
            return serves and not draining()
        if service == f"inference.{_SERVICE}":
            return runtime.ready and not draining()
        name, _, version = service.partition("/")
        try:
            model = runtime.model(name, version)
        except NotFound:
            return not draining() if runtime.seems_obtainable(name) else None
        return (describe.is_ready(model) or describe.is_obtainable(runtime, model)) and not draining()

    return health
