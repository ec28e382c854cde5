"""Lines about requests, in the one place that every answer of its protocol passes.

Rule 1: each request that was refused or failed is a line of `trilith.requests`, at a bounded rate.
Rule 2: each answered request is a line of `trilith.access`, where that is wanted. Where it is not, it costs one look.
Rule 3: a line names the request, who sent it (address, and who an access check says that is) and its trace. In the JSON
    form these are fields of their own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any, Final, Protocol

import msgspec

from trilith.core.foreign import shortened
from trilith.core.identity import Identity
from trilith.core.logs import ACCESS, FIELDS, REQUESTS
from trilith.wire.grpc_status import GrpcStatus

_log: Final = logging.getLogger(REQUESTS)
_access: Final = logging.getLogger(ACCESS)
_LONGEST: Final = 2000
_LONGEST_PATH: Final = 300
_UNREADABLE: Final = "what is no request of HTTP"
_OURS: Final = (GrpcStatus.INTERNAL, GrpcStatus.UNKNOWN, GrpcStatus.DATA_LOSS)
_TRACE: Final = b"traceparent"
_TRACE_ID: Final = slice(3, 35)
_TRACE_LENGTH: Final = 55


class _Error(msgspec.Struct):
    code: str
    message: str


class _ErrorBody(msgspec.Struct):
    error: str | _Error


class HttpAsked(Protocol):
    """What of an HTTP request is logged."""

    method: str
    path: str
    headers: list[tuple[bytes, bytes]]
    request_id: str
    received_at: float
    identity: Identity | None

    @property
    def peer(self) -> str:
        """The client's address."""
        ...


class GrpcAsked(Protocol):
    """What of a gRPC call is logged."""

    path: bytes
    peer: str
    received_at: float
    identity: Identity | None

    @property
    def request_id(self) -> str:
        """As it appears in answers."""
        ...

    @property
    def metadata_fields(self) -> tuple[tuple[bytes, bytes], ...]:
        """What it brought."""
        ...


def http_failed(request: HttpAsked, status: int, body: bytes | bytearray | memoryview) -> None:
    """An answer with an error status (>= 400). What a probe asks is said at debug level."""
    path = request.path
    if path.endswith(("/ready", "/readyz", "/live", "/livez")):
        level = logging.DEBUG
    else:
        level = logging.WARNING if status == 500 or status == 502 else logging.INFO
    if _log.isEnabledFor(level):
        text = shortened(_said(bytes(body[: 4 * _LONGEST])), _LONGEST)
        asked = f"{request.method} {shortened(path, _LONGEST_PATH)}".strip() or _UNREADABLE
        about = {FIELDS: _about(request, request.headers)}
        _log.log(level, "%s%s: %s %d: %s", request.request_id, _by(request.identity), asked, status, text, extra=about)


def _said(body: bytes) -> str:
    """The code and the sentence of an error's JSON; a body of another form as it is."""
    try:
        error = msgspec.json.decode(body, type=_ErrorBody).error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return body.decode(errors="replace")
    return error if isinstance(error, str) else f"{error.code}: {error.message}"


def grpc_failed(call: GrpcAsked, status: GrpcStatus, message: str) -> None:
    """An answer with a status that is not OK."""
    level = logging.WARNING if status in _OURS else logging.INFO
    if _log.isEnabledFor(level):
        asked = shortened(call.path.decode("latin-1"), _LONGEST_PATH)
        text = shortened(message, _LONGEST)
        about = {FIELDS: _about(call, call.metadata_fields)}
        _log.log(
            level, "%s%s: gRPC %s %s: %s", call.request_id, _by(call.identity), asked, status.name, text, extra=about
        )


def http_answered(request: HttpAsked, status: int, size_bytes: int | None = None, *, whole: bool = True) -> None:
    """An answer, however it is; called where `Accesses.on`.

    Args:
        request: what was asked.
        status: of the answer.
        size_bytes: of its body; None for a stream's.
        whole: it was not broken off.
    """
    fields = {"protocol": "http", "method": request.method, "path": shortened(request.path, _LONGEST_PATH)}
    _answered(request, request.headers, fields, status, size_bytes, whole=whole)


def grpc_answered(call: GrpcAsked, status: GrpcStatus, size_bytes: int | None = None) -> None:
    """The end of a call, however it is; called where `Accesses.on`."""
    fields = {"protocol": "grpc", "path": shortened(call.path.decode("latin-1"), _LONGEST_PATH)}
    _answered(call, call.metadata_fields, fields, status.name, size_bytes, whole=True)


def _answered(
    asked: HttpAsked | GrpcAsked,
    headers: Iterable[tuple[bytes, bytes]],
    fields: dict[str, Any],
    status: int | str,
    size_bytes: int | None,
    *,
    whole: bool,
) -> None:
    seconds = round(time.monotonic() - asked.received_at, 6) if asked.received_at else None
    fields |= {"status": status, "seconds": seconds, **_about(asked, headers)}
    if size_bytes is not None:
        fields["size_bytes"] = size_bytes
    if not whole:
        fields["whole"] = False
    what = f"{fields.get('method', 'gRPC')} {fields['path']} {status}{'' if whole else ' broken off'}"
    took = "" if seconds is None else f" {seconds * 1e3:.1f} ms"
    size = "" if size_bytes is None else f" {size_bytes} bytes"
    _access.info(
        "%s%s: %s%s%s to %s",
        asked.request_id,
        _by(asked.identity),
        what,
        took,
        size,
        asked.peer,
        extra={FIELDS: fields},
    )


def _about(asked: HttpAsked | GrpcAsked, headers: Iterable[tuple[bytes, bytes]]) -> dict[str, Any]:
    found: dict[str, Any] = {"request_id": asked.request_id, "client": asked.peer}
    if asked.identity is not None:
        found["identity"] = asked.identity.name
    for name, value in headers:
        if name == _TRACE and len(value) >= _TRACE_LENGTH and value.isascii():
            found["trace_id"] = value[_TRACE_ID].decode()
    return found


def _by(identity: Identity | None) -> str:
    return "" if identity is None else f" ({identity.name})"
