"""What a replica tells a gateway of itself, on each connection that it makes (read by `decode_notice`).

And what a gateway tells it: that it leaves, and that others wait for places which streams hold.
"""

from __future__ import annotations

from typing import Final

import msgspec

from trilith.telemetry import FamilyDelta


class Join(msgspec.Struct, frozen=True, kw_only=True, tag="join"):
    """The first notice, before any call: the revision of its code, whose models and services it means when it calls."""

    revision: int


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """Who it is. Sent when it is ready to serve."""

    replica_id: int
    service: str
    revision: int
    pid: int


class Counted(msgspec.Struct, frozen=True, kw_only=True, tag="counted"):
    """What its program has counted since it said so last, or for the first time to this gateway."""

    replica_id: int
    revision: int
    families: list[FamilyDelta]


class Readiness(msgspec.Struct, frozen=True, kw_only=True, tag="readiness"):
    """What its instance says of itself after that. `why_not`: why it takes no calls now; "" when it does again."""

    replica_id: int
    why_not: str


LEAVING: Final = b"leaving"
"""The gateway ends because the server does, not because it died: there is no other one to wait for."""


class Crowded(msgspec.Struct, frozen=True, kw_only=True):
    """From the gateway: calls have waited for a place of the replica for a while.

    Attributes:
        waiting: whose they are, a name for each (`trilith.core.fair_share`), those that came first before.
    """

    waiting: list[str]


def decode_crowded(notice: bytes) -> Crowded:
    """The notice, from msgpack."""
    return msgspec.msgpack.decode(notice, type=Crowded)


Notice = Join | Hello | Counted | Readiness


def decode_notice(notice: bytes) -> Notice:
    """The notice, from msgpack."""
    return msgspec.msgpack.decode(notice, type=Notice)
