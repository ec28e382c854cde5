"""A replica's first notice on its connection to a gateway."""

from __future__ import annotations

import msgspec


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """Who it is. Sent when it is ready to serve, to each gateway that it connects to."""

    replica_id: int
    service: str
    revision: int
    pid: int
