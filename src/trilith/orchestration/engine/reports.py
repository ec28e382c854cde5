"""What each server of this user says of itself, asked over its metrics port."""

from __future__ import annotations

import http.client

import msgspec

from trilith.orchestration.engine.places import ServerRecord, read_records
from trilith.orchestration.engine.status_types import ServerStatus

_ANSWER_WITHIN_S = 2.0


class ServerReport(msgspec.Struct, frozen=True, kw_only=True):
    """One server; `status` is None when it does not answer, or has no port to ask at."""

    record: ServerRecord
    status: ServerStatus | None


def reports() -> list[ServerReport]:
    """All of them, oldest first."""
    return [ServerReport(record=record, status=_ask(record.metrics)) for record in read_records()]


def _ask(address: str) -> ServerStatus | None:
    if not address:
        return None  # its metrics port is off
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=_ANSWER_WITHIN_S)
    try:
        connection.request("GET", "/status")
        return msgspec.json.decode(connection.getresponse().read(), type=ServerStatus)
    except (OSError, http.client.HTTPException, msgspec.MsgspecError):
        return None  # the report says that it does not answer
    finally:
        connection.close()
