"""Who may call what, and how much of it: API keys, their scopes and their limits. Decides; the engine's doors act."""

from __future__ import annotations

from trilith.orchestration.access.asked import Asked, Need, asked_of_grpc, asked_of_http
from trilith.orchestration.access.desk import AccessDesk, Grant
from trilith.orchestration.access.key_file import new_key, read_key_file, read_key_text
from trilith.orchestration.access.keys import KeyLimits, KeyRing, KeyRule
from trilith.orchestration.access.scopes import Scopes

__all__ = [
    "AccessDesk",
    "Asked",
    "Grant",
    "KeyLimits",
    "KeyRing",
    "KeyRule",
    "Need",
    "Scopes",
    "asked_of_grpc",
    "asked_of_http",
    "new_key",
    "read_key_file",
    "read_key_text",
]
