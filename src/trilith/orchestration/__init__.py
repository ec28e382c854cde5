"""Floor 3: run many of them. This front has what the command line and other programs may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilith.orchestration.spec import RepositoryOptions, ServeOptions

if TYPE_CHECKING:
    from trilith.orchestration.access import KeyRing, new_key, read_key_file, read_key_text
    from trilith.orchestration.engine.reports import ServerReport
    from trilith.orchestration.engine.status_types import ServerStatus, ServiceStatus

__all__ = [
    "KeyRing",
    "RepositoryOptions",
    "ServeOptions",
    "ServerReport",
    "ServerStatus",
    "ServiceStatus",
    "addresses_of",
    "new_key",
    "read_key_file",
    "read_key_text",
    "running_targets",
    "serve_forever",
    "server_reports",
]


def serve_forever(options: ServeOptions) -> int:
    """Runs a server in the foreground until it is told to stop; the exit code.

    Raises:
        SetupError: it cannot be started as asked.
    """
    from trilith.orchestration.engine.serving import serve

    return serve(options)


def running_targets() -> list[tuple[str, str]]:
    """What each server of this user on this machine serves, and its HTTP address (`host:port`); the oldest first."""
    from trilith.orchestration.engine.places import read_records

    return [(record.target, record.http) for record in read_records()]


def addresses_of(pid: int) -> tuple[str, str] | None:
    """Where the server of that process listens, as `host:port` of HTTP and of gRPC ("" without); None: nowhere yet."""
    from trilith.orchestration.engine.places import read_records

    return next(((record.http, record.grpc) for record in read_records() if record.pid == pid), None)


def server_reports() -> list[ServerReport]:
    """The servers of this user on this machine, and what each says of itself."""
    from trilith.orchestration.engine.reports import reports

    return reports()


def __getattr__(name: str) -> object:
    if name == "ServerReport":
        from trilith.orchestration.engine.reports import ServerReport

        return ServerReport
    if name in ("ServerStatus", "ServiceStatus"):
        from trilith.orchestration.engine import status_types

        kind: object = getattr(status_types, name)
        return kind
    if name in ("KeyRing", "new_key", "read_key_file", "read_key_text"):
        from trilith.orchestration import access

        found: object = getattr(access, name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
