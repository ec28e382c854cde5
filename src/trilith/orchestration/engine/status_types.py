"""The form of the status document: what the gateway writes and `trilith status` reads."""

from __future__ import annotations

import msgspec

from trilith.orchestration.engine.control import ReplicaRow


class ServiceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One service. `replicas` are the agent's rows, dead and starting ones included."""

    name: str
    serving: int
    waiting: int
    in_flight: int
    replicas: list[ReplicaRow]


class ModelStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One model version of the node's runtime.

    `processes` are the process ids of its instances, where each has one of its own; 0 for one that is being started.
    """

    name: str
    version: str
    state: str
    reason: str
    processes: list[int] = []


class LoadStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The loads of models: those that wait for a thread, that run, and that run on after they were given up."""

    waiting: int = 0
    running: int = 0
    left_behind: int = 0


class ServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A whole server."""

    ready: bool
    draining: bool
    services: list[ServiceStatus]
    models: list[ModelStatus]
    loads: LoadStatus = LoadStatus()
