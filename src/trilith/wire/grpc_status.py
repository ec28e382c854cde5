"""The error tree as gRPC status codes: the one place that knows.

The codes are those of gRPC's `status.md`; the pairs follow its mapping of common failures.
"""

from __future__ import annotations

import enum
from typing import Final

from trilith import errors


class GrpcStatus(enum.IntEnum):
    """The canonical gRPC status codes."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


_STATUS: Final[dict[type[errors.TrilithError], GrpcStatus]] = {
    errors.TrilithError: GrpcStatus.INTERNAL,
    errors.CallerError: GrpcStatus.INVALID_ARGUMENT,
    errors.PayloadTooLarge: GrpcStatus.RESOURCE_EXHAUSTED,
    errors.NotFound: GrpcStatus.NOT_FOUND,
    errors.MethodNotAllowed: GrpcStatus.UNIMPLEMENTED,
    errors.Unauthenticated: GrpcStatus.UNAUTHENTICATED,
    errors.Forbidden: GrpcStatus.PERMISSION_DENIED,
    errors.AlreadyExists: GrpcStatus.ALREADY_EXISTS,
    errors.Conflict: GrpcStatus.ABORTED,
    errors.Unsupported: GrpcStatus.UNIMPLEMENTED,
    errors.CapacityError: GrpcStatus.UNAVAILABLE,
    errors.QueueFull: GrpcStatus.RESOURCE_EXHAUSTED,
    errors.RateLimited: GrpcStatus.RESOURCE_EXHAUSTED,
    errors.DeadlineExceeded: GrpcStatus.DEADLINE_EXCEEDED,
    errors.Cancelled: GrpcStatus.CANCELLED,
    errors.ReplicaLost: GrpcStatus.UNAVAILABLE,
    errors.UnknownFailure: GrpcStatus.UNKNOWN,
}


def grpc_status(error: errors.TrilithError) -> GrpcStatus:
    """The gRPC status of an error: that of the nearest of its classes which has one."""
    for kind in type(error).__mro__:
        status = _STATUS.get(kind)
        if status is not None:
            return status
    return GrpcStatus.INTERNAL
