"""The form of the status document: what the gateway writes and `trilith status` reads."""

from __future__ import annotations

import msgspec

from trilith.orchestration.engine.control import ReplicaRow


class LinkRow(msgspec.Struct, frozen=True, kw_only=True):
    """One connected replica, as its gateway sees it.

    `room`: calls that it takes beside those `in_flight`. `answered` counts calls, `runs` what it was sent: a batch is
    one run. `busy_s` adds up the seconds of these from start to end.
    """

    replica_id: int
    pid: int
    in_flight: int
    room: int
    answered: int
    runs: int
    busy_s: float


class BatchRow(msgspec.Struct, frozen=True, kw_only=True):
    """A method whose calls are joined: to how many, and how long they are held for it (None: as long as it pays)."""

    method: str
    max_size: int
    max_wait_ms: float | None


class ServiceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One service. `replicas` are the agent's rows, dead and starting ones included; `links` those that take calls."""

    name: str
    serving: int
    waiting: int
    in_flight: int
    replicas: list[ReplicaRow]
    links: list[LinkRow] = []
    batches: list[BatchRow] = []


class ModelStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One model version of the node's runtime.

    `processes` are the process ids of its instances, where each has one of its own; 0 for one that is being started.
    `namespace` is the repository that it is of, where those are namespaces.
    """

    name: str
    version: str
    state: str
    reason: str
    processes: list[int] = []
    namespace: str = ""


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
