"""What the local engine is asked to do, as frozen values. Decoded at the edge (the command line), passed narrowly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from trilith.config import Settings
from trilith.core.data_options import DataLogOptions, TraceOptions
from trilith.core.load_options import LoadOptions
from trilith.core.log_options import LogOptions
from trilith.wire.cors import CorsPolicy
from trilith.wire.oip_options import ProtocolOptions


class RepositoryOptions(LoadOptions, frozen=True, kw_only=True):
    """Which models of the repositories are served, and who decides it: what `LoadOptions` says, and more.

    Attributes:
        roots: further repositories, beside the target.
        exit_on_error: whether the server ends when a model of its start cannot be loaded.
    """

    roots: tuple[str, ...] = ()
    exit_on_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """How `trilith serve` was called.

    Attributes:
        target: a model repository folder, or `module:Name` / `path.py:Name`.
        host: the address to listen on.
        http_port: HTTP; 0 lets the system choose.
        grpc_port: gRPC; 0 lets the system choose, None serves none.
        metrics_port: metrics and status; 0 lets the system choose, None serves none.
        replicas: overrides the replica count of the root service; None keeps what it declares.
        reload: restart replicas when a source file changes.
        reload_include: patterns of the names of further files that count as such.
        inline: the service runs in the foreground process, one replica, without time limits: for debuggers.
        model_roots: folders in which model names are looked up, before the application's own.
        drain_s: seconds that requests in flight get after SIGTERM.
        unresponsive_s: seconds after which a replica that is not heard is replaced.
        stream_keep_alive_s: seconds of silence after which a stream of events gets a comment; 0 for never.
        max_body_bytes: the largest request body.
        max_held_bytes: requests and answers that are kept for clients, all together; 0 for a part of the memory.
        debug: send the text of user exceptions to clients.
        tls_certificate: PEM file with the certificate chain, or None for plain text.
        tls_key: PEM file with the private key.
        tls_client_ca: PEM file of the authorities of clients, or None to let in all.
        access: function that says who a caller is, as `module:name`; "" for none.
        access_cache_s: seconds for which what it says is remembered; 0: not at all.
        api_keys: file with the keys of which every request needs one, or None for none.
        cors: which pages of other origins may call, or None for none.
        protocol: how the Open Inference Protocol is spoken.
        repository: which models are served, when the target is a folder of models.
        log: what is logged, and how.
        data_log: what of the data of requests is kept.
        traces: which calls are traced, and where to.
        settings: of services and models, before what they declare.
        copy_options: the options of a copy beside this server, without its settings; None: there can be none.
    """

    target: str
    host: str = "127.0.0.1"
    http_port: int = 8000
    grpc_port: int | None = 8001
    metrics_port: int | None = 8002
    replicas: int | None = None
    reload: bool = False
    reload_include: tuple[str, ...] = ()
    inline: bool = False
    model_roots: tuple[str, ...] = field(default=())
    drain_s: float = 30.0
    unresponsive_s: float = 30.0
    stream_keep_alive_s: float = 15.0
    max_body_bytes: int = 64 << 20
    max_held_bytes: int = 0
    debug: bool = False
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    access: str = ""
    access_cache_s: float = 0.0
    api_keys: str | None = None
    cors: CorsPolicy | None = None
    protocol: ProtocolOptions = field(default_factory=ProtocolOptions)
    repository: RepositoryOptions = field(default_factory=RepositoryOptions)
    log: LogOptions = field(default_factory=LogOptions)
    data_log: DataLogOptions = field(default_factory=DataLogOptions)
    traces: TraceOptions = field(default_factory=TraceOptions)
    settings: Settings = field(default_factory=Settings)
    copy_options: tuple[str, ...] | None = None


class DeployedMount(msgspec.Struct, frozen=True, kw_only=True):
    """The little that the agent reads of a mount's description."""

    path: str


class DeployedService(msgspec.Struct, frozen=True, kw_only=True):
    """The little that the agent reads of a service's description."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[^\x00]+$")]  # it becomes a word of a command line
    replicas: Annotated[int, msgspec.Meta(ge=1, le=65536)] = 1
    cpu: float | None = None
    mounts: list[DeployedMount] = []
    methods: list[msgspec.Raw] = []


class DeployedApplication(msgspec.Struct, frozen=True, kw_only=True):
    """The little that the agent reads of an application's description. The first service is the root."""

    services: Annotated[list[DeployedService], msgspec.Meta(min_length=1)]
