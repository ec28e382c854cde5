"""What each server of this user says of itself: over its metrics port, or as a probe of HTTP does."""

from __future__ import annotations

import http.client
import ssl

import msgspec

from trilith.orchestration.engine.places import ServerRecord, read_records
from trilith.orchestration.engine.readiness import DRAINING
from trilith.orchestration.engine.status_types import ServerStatus

_ANSWER_WITHIN_S = 2.0


class ServerReport(msgspec.Struct, frozen=True, kw_only=True):
    """One server; `status` is None when it does not answer. Without a metrics port it has no services and no models."""

    record: ServerRecord
    status: ServerStatus | None


def reports() -> list[ServerReport]:
    """All of them, oldest first."""
    return [ServerReport(record=record, status=_ask(record)) for record in read_records()]


class _Probe(msgspec.Struct, frozen=True):
    ready: bool
    problems: list[str]


def _ask(record: ServerRecord) -> ServerStatus | None:
    try:
        if record.metrics:
            return msgspec.json.decode(_get(record.metrics, "/status"), type=ServerStatus)
        probe = msgspec.json.decode(_get(record.http, "/readyz", tls=record.tls), type=_Probe)
        return ServerStatus(ready=probe.ready, draining=DRAINING in probe.problems, services=[], models=[])
    except (OSError, http.client.HTTPException, msgspec.MsgspecError):
        return None  # the report says that it does not answer


def _get(address: str, path: str, *, tls: bool = False) -> bytes:
    host, _, port = address.rpartition(":")
    where, timeout_s = (host.strip("[]"), int(port)), _ANSWER_WITHIN_S
    connection = http.client.HTTPConnection(*where, timeout=timeout_s)
    if tls:  # whose certificate it is does not matter: the address is that of a process of this user
        connection = http.client.HTTPSConnection(*where, timeout=timeout_s, context=ssl._create_unverified_context())
    try:
        connection.request("GET", path)
        return connection.getresponse().read()
    finally:
        connection.close()
