"""`grpc.health.v1.Health`: its schema, and what its octets mean (gRPC's health-checking.md)."""

from __future__ import annotations

import enum
import functools
from typing import Final

from trilith.errors import InvalidInput
from trilith.wire.grpc_descriptors import FieldSchema, FileSchema, MethodSchema, SchemaMessages

_SCHEMA: Final = FileSchema(
    name="grpc/health/v1/health.proto",
    package="grpc.health.v1",
    messages={
        "HealthCheckRequest": {"service": FieldSchema(number=1, kind="string")},
        "HealthCheckResponse": {"status": FieldSchema(number=1, kind="enum:HealthCheckResponse.ServingStatus")},
    },
    enums={"HealthCheckResponse.ServingStatus": ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")},
    service="Health",
    methods={
        "Check": MethodSchema(request="HealthCheckRequest", response="HealthCheckResponse"),
        "Watch": MethodSchema(request="HealthCheckRequest", response="HealthCheckResponse", response_stream=True),
    },
)


class ServingStatus(enum.IntEnum):
    """The values of `HealthCheckResponse.ServingStatus`."""

    UNKNOWN = 0
    SERVING = 1
    NOT_SERVING = 2
    SERVICE_UNKNOWN = 3


@functools.cache
def health_messages() -> SchemaMessages:
    """The messages and the service."""
    return SchemaMessages(_SCHEMA)


def read_check_request(octets: bytes | memoryview) -> str:
    """The service that a request asks about; "" is the whole server.

    Raises:
        InvalidInput: it is no `HealthCheckRequest`.
    """
    from google.protobuf.message import DecodeError

    try:
        request = health_messages().message("HealthCheckRequest").FromString(bytes(octets))
    except DecodeError as error:
        raise InvalidInput(f"the message is no grpc.health.v1.HealthCheckRequest: {error}") from error
    service: str = request.service
    return service


def check_response(status: ServingStatus) -> bytes:
    """A `HealthCheckResponse`."""
    octets: bytes = health_messages().message("HealthCheckResponse")(status=int(status)).SerializeToString()
    return octets
