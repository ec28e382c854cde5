"""One line for each request that was refused or failed, in the one place that every answer of its protocol passes."""

from __future__ import annotations

import logging
from typing import Final

from trilith.core.foreign import shortened
from trilith.core.logs import REQUESTS
from trilith.wire.grpc_status import GrpcStatus

_log: Final = logging.getLogger(REQUESTS)
_LONGEST: Final = 2000
_OURS: Final = (GrpcStatus.INTERNAL, GrpcStatus.UNKNOWN, GrpcStatus.DATA_LOSS)


def http_failed(request_id: str, method: str, path: str, status: int, body: bytes | bytearray | memoryview) -> None:
    """An answer with an error status (>= 400). What a probe asks is said at debug level."""
    if path.endswith(("/ready", "/readyz", "/live", "/livez")):
        level = logging.DEBUG
    else:
        level = logging.WARNING if status == 500 or status == 502 else logging.INFO
    if _log.isEnabledFor(level):
        text = bytes(body[: 4 * _LONGEST]).decode(errors="replace")
        _log.log(level, "%s: %s %s %d: %s", request_id, method, shortened(path, 300), status, shortened(text, _LONGEST))


def grpc_failed(request_id: str, path: bytes, status: GrpcStatus, message: str) -> None:
    """An answer with a status that is not OK."""
    level = logging.WARNING if status in _OURS else logging.INFO
    if _log.isEnabledFor(level):
        method = shortened(path.decode("latin-1"), 300)
        _log.log(level, "%s: gRPC %s %s: %s", request_id, method, status.name, shortened(message, _LONGEST))
