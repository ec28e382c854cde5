"""What the supervision of a server orders, as values: the engine carries it out. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from trilith.core.log_options import LogLevel
from trilith.orchestration.reconcile import DesiredService
from trilith.orchestration.revisions import Revision

Content = TypeVar("Content")


@dataclass(frozen=True, slots=True)
class Tell:
    """Show a line to a person; `detail` is a traceback that belongs to it, `level` is how bad it is, in a log."""

    line: str
    level: LogLevel = "info"
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Announce:
    """Tell that everything is up, and where; but for the models that are not ready (`none_ready`: all there are)."""

    desired: Sequence[DesiredService]
    not_ready: Sequence[str]
    none_ready: bool = False


@dataclass(frozen=True, slots=True)
class DeployRevision(Generic[Content]):
    """To the gateway: get ready to serve the revision; `publish`: serve it at once."""

    revision: Revision[Content]
    publish: bool


@dataclass(frozen=True, slots=True)
class PublishRevision:
    """To the gateway: calls go to the revision from now on."""

    revision: int


@dataclass(frozen=True, slots=True)
class WithdrawReplica:
    """To the gateway: send nothing more to the replica, and say when it is idle."""

    replica_id: int


@dataclass(frozen=True, slots=True)
class StopReplica:
    """To a replica that holds no call: exit. `at_once`: it may hold some, and ends them."""

    replica_id: int
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class KillReplica:
    """End the replica's process now."""

    replica_id: int


@dataclass(frozen=True, slots=True)
class KillGateway:
    """End the gateway's process now."""


@dataclass(frozen=True, slots=True)
class KillAll:
    """End every process now."""


@dataclass(frozen=True, slots=True)
class StartGateway:
    """Start another gateway, not before that instant (seconds)."""

    not_before: float


Order = (
    Tell
    | Announce
    | DeployRevision[Content]
    | PublishRevision
    | WithdrawReplica
    | StopReplica
    | KillReplica
    | KillGateway
    | KillAll
    | StartGateway
)
