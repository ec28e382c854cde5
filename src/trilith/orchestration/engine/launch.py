"""What the agent passes to its children on their command line: one JSON argument, a frozen struct each."""

from __future__ import annotations

import msgspec

from trilith.config import Settings
from trilith.core.data_options import DataLogOptions, TraceOptions
from trilith.core.log_options import LogOptions
from trilith.orchestration.spec import RepositoryOptions
from trilith.wire.cors import CorsPolicy
from trilith.wire.oip_options import ProtocolOptions


class GatewayArguments(msgspec.Struct, frozen=True, kw_only=True):
    """How a gateway is to run. File descriptors are inherited.

    Attributes:
        http_fds: listening HTTP sockets, one an address.
        grpc_fds: listening gRPC sockets.
        metrics_fds: listening sockets for metrics and status.
        peers_fd: listening UNIX socket to which replicas connect.
        repositories: model repositories that are served as they stand.
        max_body_bytes: largest request body.
        max_held_bytes: requests and answers that are kept for clients, all together.
        unresponsive_s: seconds after which a replica that is not heard is replaced.
        stream_keep_alive_s: seconds of silence after which a stream of events gets a comment; 0 for never.
        tls_certificate: PEM file, or None.
        tls_key: PEM file, or None.
        tls_client_ca: PEM file, or None.
        asks_access: the application has an access function.
        access_cache_s: seconds for which what it says is remembered; 0: not at all.
        has_keys: nothing is served without a key; the agent tells which there are.
        cors: which pages of other origins may call, or None for none.
        protocol: how the Open Inference Protocol is spoken.
        repository: which of their models are served.
        log: what is logged, and how.
        traces: which calls are traced, and where to.
        quiet_start: models that are loaded at the start are not logged: somebody is shown a table of them.
        loads: folder in which it is kept what clients load and unload; the agent removes it at its end.
    """

    http_fds: list[int]
    grpc_fds: list[int]
    metrics_fds: list[int]
    peers_fd: int
    repositories: list[str]
    max_body_bytes: int
    max_held_bytes: int
    unresponsive_s: float
    stream_keep_alive_s: float
    tls_certificate: str | None
    tls_key: str | None
    tls_client_ca: str | None
    asks_access: bool
    access_cache_s: float
    has_keys: bool
    cors: CorsPolicy | None
    protocol: ProtocolOptions
    repository: RepositoryOptions
    loads: str
    log: LogOptions
    quiet_start: bool
    traces: TraceOptions = TraceOptions()


class WorkerArguments(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is to run.

    Attributes:
        target: `module:Name` or `path.py:Name`.
        folder: where the target is looked for; the server was started there.
        access: the access function, as `module:name`; "" for none.
        service: the service of the target's graph; "" for its root, whose worker describes the application.
        replica_id: its id in the agent's book.
        revision: of the code.
        peers_path: UNIX socket of the gateway.
        model_roots: folders in which model names are looked up first.
        uploads: where files of callers are kept meanwhile; the agent removes it after the process.
        debug: send the text of user exceptions to clients.
        log: what is logged, and how.
        data_log: what of the data of requests is kept.
        snapshot: file with the source of the revision; "" for what lies on disk.
        stream_keep_alive_s: as of the gateway, for streams that it does not write itself.
        settings: of services, before what they declare; of models the gateway heeds them.
    """

    target: str
    folder: str
    service: str
    replica_id: int
    revision: int
    peers_path: str
    model_roots: list[str]
    uploads: str
    debug: bool
    log: LogOptions
    data_log: DataLogOptions = DataLogOptions()
    access: str = ""
    snapshot: str = ""
    stream_keep_alive_s: float = 0.0
    settings: Settings = Settings()


class SpareArguments(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker in advance is to do before it is told what to run.

    Attributes:
        libraries: modules to import.
        log: what is logged, and how.
    """

    libraries: list[str]
    log: LogOptions
