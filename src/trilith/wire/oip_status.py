"""The error tree as the Open Inference Protocol's endpoints answer it: Triton's statuses, which its clients act on.

Rule 1: by default a status differs from that of the other endpoints (`http_status.py`, `grpc_status.py`) only where
    Triton's clients would act wrongly on ours: a full queue is "unavailable, try again".
Rule 2: `compat` answers as Triton does also where its answer is the worse one.
"""

from __future__ import annotations

import re
from typing import Final

from trilith import errors
from trilith.wire.grpc_status import GrpcStatus, grpc_status
from trilith.wire.http_status import http_status

_BAD_REQUEST: Final = (
    errors.Cancelled,
    errors.PayloadTooLarge,
    errors.UnknownFailure,
    errors.UnsupportedMediaType,
)
_NO_SHARED_MEMORY: Final = "Client shared memory is disabled."
_NO_ROOM: Final = re.compile(
    r"MemoryError|[Oo]ut ?[Oo]f ?[Mm]emory|OUT_OF_MEMORY|\bOOM\b|No space left on device|llocate memory|no room for"
)
_NAMES: Final = re.compile(r"'[^']*'|\"[^\"]*\"|\S*/\S*")  # what texts quote, and paths: their words are somebody's own
_UNKNOWN_ID: Final = "<id_unknown>"


class JsonTypeError(errors.InvalidInput):
    """A field of a JSON request has another type than the protocol gives it; for Triton an error of its own."""

    def __init__(self, field: str, expected: str, more: str = "") -> None:
        """`expected` is one of Triton's words: `string`, `boolean`, `array`, `object`, `unsigned-integer` ..."""
        super().__init__(f"Unable to parse '{field}': attempt to access JSON non-{expected} as {expected}{more}")


class SharedMemoryDisabled(errors.Unsupported):
    """A client offers memory to share. The text begins as Triton's does, which goes on to name an option of its own.

    Attributes:
        tritons_text: the whole of that.
    """

    def __init__(self, where: str = "") -> None:
        """`where`: which tensor of the request."""
        own = f"{_NO_SHARED_MEMORY} This server reads tensors from requests only: send their data in the request{where}"
        super().__init__(own)
        self.tritons_text = f"{_NO_SHARED_MEMORY} Start the server with '--allow-client-shm=true' to enable.{where}"


class ModelControlDisabled(errors.Unsupported):
    """A client wants a model loaded or unloaded, and the server's configuration lets no client decide that.

    Trying again cannot help, so it is none of the errors that say so; Triton says "unavailable".
    """

    def __init__(self, mode: str) -> None:
        """`mode`: the server's model control mode."""
        super().__init__(
            "explicit model load / unload is not allowed if polling is enabled: the server's model control mode is "
            f"'{mode}'; start it with --model-control-mode explicit to allow it"
        )


class NoRoomForModel(errors.SetupError):
    """A model cannot be loaded beside those that are there: who hosts them may unload others, and try again."""


def says_no_room(text: str) -> bool:
    """Whether an error's text says that there is no memory, or no place on the disk, in the words of some library."""
    return _NO_ROOM.search(_NAMES.sub("", text)) is not None


def oip_http_status(error: errors.TrilithError, *, compat: bool = False) -> int:
    """The HTTP status of an error under `/v2`."""
    if _is_full(error) or (compat and isinstance(error, ModelControlDisabled)):
        return 503
    if isinstance(error, NoRoomForModel):
        return 507
    if compat and isinstance(error, JsonTypeError):
        return 500
    if compat and isinstance(error, _BAD_REQUEST):
        return 400
    return http_status(error)


def oip_grpc_status(error: errors.TrilithError, *, compat: bool = False) -> GrpcStatus:
    """The gRPC status of an error of the inference service."""
    if _is_full(error):
        return GrpcStatus.UNAVAILABLE
    if compat and isinstance(error, (errors.Forbidden, ModelControlDisabled)):
        return GrpcStatus.UNAVAILABLE
    return grpc_status(error)


def _is_full(error: errors.TrilithError) -> bool:
    """Whether the server is full, for whoever asks; not a caller's own bounds, of which Triton knows none."""
    return isinstance(error, errors.QueueFull) and not isinstance(error, errors.RateLimited)


def oip_text(error: errors.TrilithError, *, compat: bool = False) -> str:
    """The text of an error; with `compat` that of Triton, also where it is not true here."""
    return error.tritons_text if compat and isinstance(error, SharedMemoryDisabled) else error.message


def oip_message(error: errors.TrilithError, request_id: str, *, compat: bool = False) -> str:
    """The text of an error that the runtime found in a request: `[request id: ID] ...`.

    Args:
        error: what it found. What a model says of itself stays as it is.
        request_id: the id that the caller gave the request, or "": then only `compat` says that there is none.
        compat: whether to write what Triton writes.
    """
    if isinstance(error, errors.ExecutionError) or not (request_id or compat):
        return error.message
    return f"[request id: {request_id or _UNKNOWN_ID}] {error.message}"
