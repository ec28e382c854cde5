"""The error tree as HTTP: the one place that knows which error is which status.

Rule: nobody else writes an HTTP error status. The body is JSON: code, a sentence that says what to do, request id.
"""

from __future__ import annotations

from typing import Final

import orjson

from trilith import errors

# A class stands before its children: `error_of_status` takes the first of a status.
_STATUS: Final[dict[type[errors.TrilithError], int]] = {
    errors.TrilithError: 500,
    errors.CallerError: 400,
    errors.InvalidInput: 400,
    errors.PayloadTooLarge: 413,
    errors.UnsupportedMediaType: 415,
    errors.NotFound: 404,
    errors.UnknownModel: 404,
    errors.MethodNotAllowed: 405,
    errors.Unauthenticated: 401,
    errors.NotAcceptable: 406,
    errors.Forbidden: 403,
    errors.AlreadyExists: 400,
    errors.Conflict: 409,
    errors.Unsupported: 501,
    errors.CapacityError: 503,
    errors.QueueFull: 429,
    errors.RateLimited: 429,
    errors.NoReadyReplica: 503,
    errors.Draining: 503,
    errors.DeadlineExceeded: 504,
    errors.Cancelled: 499,
    errors.ExecutionError: 500,
    errors.ModelError: 500,
    errors.ServiceError: 500,
    errors.ReplicaLost: 502,
    errors.UnknownFailure: 500,
    errors.SetupError: 500,
    errors.Bug: 500,
}


def status_of(kind: type[errors.TrilithError]) -> int:
    """The HTTP status of a class of errors: that of the nearest of its classes which has one."""
    return next((_STATUS[each] for each in kind.__mro__ if each in _STATUS), 500)


def http_status(error: errors.TrilithError) -> int:
    """The HTTP status of an error."""
    return status_of(type(error))


def error_of_status(status: int, message: str, *, retry_after_s: float | None = None) -> errors.TrilithError:
    """The error that an answer of this status means when nothing else says it, as a proxy's page does not.

    Args:
        status: 400 or above.
        message: for a person.
        retry_after_s: seconds, or None.

    Returns:
        one of the most general class that is sent with this status; for one that Trilith never sends a `CallerError`
        below 500 and the root from there on.
    """
    other = errors.CallerError if status < 500 else errors.TrilithError
    kind = next((kind for kind, known in _STATUS.items() if known == status), other)
    return kind(message, retry_after_s=retry_after_s)


def retry_after(error: errors.TrilithError) -> bytes | None:
    """The value of a `Retry-After` header (whole seconds, at least 1), or None when there is none to send."""
    seconds = error.retry_after_s
    if seconds is None and isinstance(error, errors.CapacityError):
        seconds = 1.0
    return None if seconds is None else str(max(1, round(seconds))).encode()


def error_body(error: errors.TrilithError, request_id: str) -> bytes:
    """`{"error": {"code": ..., "message": ..., "request_id": ...}}` as JSON."""
    return orjson.dumps({"error": {"code": error.code, "message": _text(error.message), "request_id": request_id}})


NOT_READY_STATUS: Final = 400
"""What the Open Inference Protocol's health endpoints answer for "no": Triton's choice, which its users probe for."""


def oip_error_body(error: errors.TrilithError, request_id: str, message: str = "") -> bytes:
    """`{"error": message, "code": ..., "request_id": ...}` as JSON: clients of Triton read `error` as text.

    `message` stands instead of the error's own when it is not empty.
    """
    return orjson.dumps({"error": _text(message or error.message), "code": error.code, "request_id": request_id})


def _text(message: str) -> str:
    """A sentence that can be sent: it may quote what no encoding has, and an error must reach its caller."""
    return message if message.isascii() else message.encode("utf-8", "replace").decode()
