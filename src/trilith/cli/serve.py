"""`trilith serve`."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

from trilith.core.data_options import DataLogOptions, TraceOptions, checked_endpoint, read_samples
from trilith.core.load_options import RANGES, ControlMode, LoadOptions, Range, is_config_name
from trilith.core.log_options import LogFormat, LogLevel, LogOptions
from trilith.core.plain_numbers import plain_number
from trilith.errors import InvalidConfig
from trilith.wire.oip_options import GrpcConnections

if TYPE_CHECKING:
    from trilith.config import Settings
    from trilith.wire.platforms import PlatformRoutes

_LOAD: Final = LoadOptions()
_GRPC: Final = GrpcConnections()
_MS: Final = Range(1, (1 << 31) - 1)
_MS_OR_0: Final = Range(0, (1 << 31) - 1)
_PORTS: Final = Range(0, 65535)
_ZERO_IS_NONE: Final = (
    "--grpc-max-connection-age",
    "--max-loaded-models",
    "--model-load-timeout-s",
    "--stream-keep-alive-s",
)


def serve(
    target: Annotated[str | Path, Parameter(show_default=False)] = "",  # text; Path has shells complete file names
    /,
    *,
    host: str = "127.0.0.1",
    http_port: int = 8000,
    grpc_port: int | Literal["off"] = 8001,
    metrics_port: int | Literal["off"] = 8002,
    replicas: int | None = None,
    config: Path | None = None,
    set: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    reload: bool = False,
    reload_include: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    inline: Annotated[bool, Parameter(negative="")] = False,
    models: Annotated[tuple[Path, ...], Parameter(negative="")] = (),
    model_repository: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    model_control_mode: Literal["none", "poll", "explicit"] = "none",
    load_model: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    load_on_demand: Annotated[bool, Parameter(negative="")] = False,
    max_loaded_models: int = 0,
    load_on_demand_wait_s: float = _LOAD.load_on_demand_wait_s,
    repository_poll_secs: float = _LOAD.poll_s,
    model_load_thread_count: int = _LOAD.load_threads,
    model_load_timeout_s: float = _LOAD.load_timeout_s or 0.0,
    model_load_retry_count: int = _LOAD.model_load_retry_count,
    model_config_name: str = _LOAD.config_name,
    strict_readiness: bool = _LOAD.strict_readiness,
    exit_on_error: Annotated[bool, Parameter(negative="")] = False,
    backend_directory: Path | None = None,
    repoagent_directory: Path | None = None,
    backend_config: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    disable_auto_complete_config: Annotated[bool, Parameter(negative="")] = False,
    metrics_config: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    gpu_instances_on_cpu: Annotated[bool, Parameter(negative="")] = False,
    model_namespacing: Annotated[bool, Parameter(negative="")] = False,
    drain_timeout_s: float = 30.0,
    unresponsive_timeout_s: float = 30.0,
    stream_keep_alive_s: float = 15.0,
    max_body_mb: int = 64,
    max_held_mb: int = 0,
    tls_certificate: Path | None = None,
    tls_key: Path | None = None,
    tls_client_ca: Path | None = None,
    api_keys: Path | None = None,
    access: str = "",
    access_cache_s: float = 0.0,
    cors_origin: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    cors_method: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    cors_header: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    cors_expose_header: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    cors_credentials: Annotated[bool, Parameter(negative="")] = False,
    cors_max_age_s: int = 600,
    compat: Literal["trilith", "triton"] = "trilith",
    http_header_forward_pattern: str = "",
    grpc_header_forward_pattern: str = "",
    http_restricted_api: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    grpc_restricted_protocol: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    id: str = "",
    allow_sagemaker: Annotated[bool, Parameter(negative="")] = False,
    allow_vertex_ai: Annotated[bool, Parameter(negative="")] = False,
    vertex_ai_default_model: str = "",
    grpc_infer_response_compression_level: Literal["none", "low", "medium", "high"] = "none",
    grpc_keepalive_time: int = round(_GRPC.keepalive_interval_s * 1e3),
    grpc_keepalive_timeout: int = round(_GRPC.keepalive_timeout_s * 1e3),
    grpc_http2_min_recv_ping_interval_without_data: int = round(_GRPC.min_ping_interval_s * 1e3),
    grpc_http2_max_ping_strikes: int = _GRPC.max_ping_strikes,
    grpc_max_connection_age: int = 0,
    grpc_max_connection_age_grace: int = round(_GRPC.max_age_grace_s * 1e3),
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
    access_log: Annotated[bool, Parameter(negative="")] = False,
    data_log: Path | None = None,
    data_log_sample: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    data_log_mb: int = DataLogOptions().max_bytes >> 20,
    data_log_images: Annotated[bool, Parameter(negative="")] = False,
    otlp_endpoint: str = "",
    trace_sample: float = TraceOptions().part,
    debug: bool = False,
) -> int:
    """Serve a folder of models, or a service written in Python.

    Parameters
    ----------
    target
        A model repository folder (`models/`, `s3://bucket/models`), or a service: `module:Name`, `path/to/app.py:Name`;
        `:Name` may be left out of a file with one service.
    host
        Address to listen on. 127.0.0.1 is reached from this machine only; 0.0.0.0 from everywhere.
    http_port
        HTTP port; 0 lets the system choose.
    grpc_port
        gRPC port; 0 lets the system choose, `off` serves no gRPC.
    metrics_port
        Port for /metrics and /status; 0 lets the system choose, `off` leaves /metrics on the HTTP port alone.
    replicas
        Processes of the service that is served, not of those that it depends on, instead of what it declares.
    config
        YAML file of settings of services and models, which stand before what they declare.
    set
        `PATH=VALUE`: one such setting: `Detector.replicas=2`, `Detector.read.max_batch=8`, `models.NAME.instances=2`;
        it stands before what the file says. May be repeated.
    reload
        Start the service anew when one of its source files changes.
    reload_include
        A pattern of names, `*.html`: such a file counts as a source file, too. May be given several times.
    inline
        Run the service in this process, one replica, without time limits: for `breakpoint()` and debuggers.
    models
        A folder in which `trilith.model(NAME)` looks first. May be given several times.
    model_repository
        A folder of models (or its URL), served instead of the target or beside it. May be given several times.
    model_control_mode
        Who decides which models are loaded: `none`, all at the start; `poll`, the folders, when they change;
        `explicit`, clients.
    load_model
        With `explicit` or `--load-on-demand`: a model to load at the start, `*` for all. May be given several times.
    load_on_demand
        Load a model when a request wants it for the first time, and nothing at the start.
    max_loaded_models
        With `--load-on-demand`: models in memory at a time; the least recently used makes room. 0 for no bound.
    load_on_demand_wait_s
        With `--load-on-demand`: seconds that a request waits for its model.
    repository_poll_secs
        With `poll`: seconds between two looks at the folders.
    model_load_thread_count
        How many models load at the same time.
    model_load_timeout_s
        Seconds without a sign of progress after which the load of a model is given up; 0 for never.
    model_load_retry_count
        How often a load that failed is tried again.
    model_config_name
        NAME: a model whose folder holds `configs/NAME.pbtxt` is served as that says.
    strict_readiness
        Whether the server is ready only when every model of its start is; without, as soon as all were tried.
    exit_on_error
        End when a model cannot be loaded at the start, instead of serving the others.
    backend_directory
        Folder of backends of your own: `NAME/model.py` in it serves every model whose configuration names NAME.
    repoagent_directory
        Folder of repository agents of your own: `NAME/agent.py` in it is asked before models that name it load.
    backend_config
        `BACKEND,SETTING=VALUE`: a setting of a backend, `onnxruntime,default-max-batch-size=8`. May be repeated.
    disable_auto_complete_config
        A model's configuration must say all of its inputs and outputs: nothing is taken from the model.
    metrics_config
        `SETTING=VALUE`: which metrics of models there are, `summary_latencies=true`. May be repeated.
    gpu_instances_on_cpu
        Run models whose configuration asks for a GPU on a CPU, instead of refusing them.
    model_namespacing
        Several repositories may hold models of one name; a request finds a name that one loaded model has.
    drain_timeout_s
        Seconds that requests in flight get after Ctrl-C or SIGTERM.
    unresponsive_timeout_s
        Seconds after which a replica that gives no sign of life is replaced.
    stream_keep_alive_s
        Seconds of silence after which a stream of server-sent events gets a comment; 0 for never.
    max_body_mb
        Largest request body, in MiB (1048576 bytes).
    max_held_mb
        Most MiB of requests and answers that are kept for clients, all together; 0 for a quarter of the memory.
    tls_certificate
        PEM file with the certificate chain: serve HTTPS and gRPC over TLS.
    tls_key
        PEM file with the private key.
    tls_client_ca
        PEM file of authorities: only clients with a certificate of theirs are let in, over HTTP and gRPC.
    api_keys
        File of API keys (`trilith keys new`): whatever is not public needs one. Read again at SIGHUP.
    access
        `module:name`: a function of yours that says who a caller is, asked for each request without a key.
    access_cache_s
        Seconds for which what it says is remembered, by credentials and path; 0: not at all.
    cors_origin
        Origin of pages that may call (`https://example.org`, `https://*.example.org`, `*`). May be repeated.
    cors_method
        HTTP method that those pages may use; without it GET, HEAD, POST, PUT, PATCH and DELETE. May be repeated.
    cors_header
        Header that they may send; without it any. May be repeated.
    cors_expose_header
        Header of answers that they may read, beside Trilith's own. May be repeated.
    cors_credentials
        They may send cookies along.
    cors_max_age_s
        Seconds for which a browser need not ask again what a page may do.
    compat
        `triton`: answer as Triton does also where its answer is the worse one.
    http_header_forward_pattern
        Regular expression: HTTP headers that match become parameters of the request to a model.
    grpc_header_forward_pattern
        The same for the metadata of gRPC.
    http_restricted_api
        `GROUP[,GROUP...]:HEADER=VALUE`: these endpoints take only requests with that header. May be repeated.
    grpc_restricted_protocol
        The same for gRPC, where the header begins with `triton-grpc-protocol-`. May be repeated.
    id
        What the metadata calls the server, over both protocols.
    allow_sagemaker
        Answer `/ping` and `/invocations` on the HTTP port, as Amazon SageMaker asks its containers.
    allow_vertex_ai
        Answer the paths that Google Vertex AI names in `AIP_HEALTH_ROUTE` and `AIP_PREDICT_ROUTE`.
    vertex_ai_default_model
        With `--allow-vertex-ai`: the model that is asked; without it the only one.
    grpc_infer_response_compression_level
        How hard answers of `ModelInfer` are compressed (by gzip or deflate) for clients that accept it.
    grpc_keepalive_time
        Milliseconds of silence after which a client of gRPC is asked whether it is there.
    grpc_keepalive_timeout
        Milliseconds for its answer, until the connection is cut.
    grpc_http2_min_recv_ping_interval_without_data
        Milliseconds between two such questions of a client, unless it got an answer meanwhile.
    grpc_http2_max_ping_strikes
        A client that asks sooner and more often than this is sent away; 0 for never.
    grpc_max_connection_age
        Milliseconds after which a connection is drained, so that clients spread anew; 0 for never.
    grpc_max_connection_age_grace
        Milliseconds after that, until the calls that are left are ended.
    log_level
        The least level that is logged, to standard error.
    log_format
        `text` for people, `json` for programs: one object a line.
    access_log
        Log each answered request, whatever the level.
    data_log
        Folder for what services log with `trilith.log`: JSON lines.
    data_log_sample
        With `--data-log`: the part of the requests that is kept, `0.1`; or `NAME=0.1` for one name. May be repeated.
    data_log_mb
        With `--data-log`: room for each service, in MiB; the oldest makes place.
    data_log_images
        With `--data-log`: keep pictures too, as files.
    otlp_endpoint
        Address of an OpenTelemetry collector, which gets traces: `http://127.0.0.1:4318`.
    trace_sample
        With `--otlp-endpoint`: the part of the calls that is traced, where the caller does not say.
    debug
        Send the text of exceptions in your code to clients.
    """
    from trilith.cli.copy_options import copy_options
    from trilith.config import read_settings
    from trilith.orchestration import RepositoryOptions, ServeOptions, serve_forever
    from trilith.wire.cors import cors_policy
    from trilith.wire.frames import FrameLimits
    from trilith.wire.oip_options import ProtocolOptions, checked_pattern, checked_restrictions

    target = str(target)
    if not target and model_repository:
        target, model_repository = model_repository[0], model_repository[1:]
        if "://" not in target and not Path(target).is_dir():
            raise InvalidConfig(f"--model-repository {target}: there is no such folder")
    started_with = dict(locals())
    if not target:
        raise InvalidConfig(
            "say what to serve: a folder of models (`trilith serve models/`), or a service "
            "(`trilith serve app.py:Name`); `trilith serve --help` has the options"
        )
    if (folder := Path(target)).is_dir() and _is_one_model(folder):
        raise InvalidConfig(
            f"{target} is the folder of one model; serve the folder that it lies in: "
            f"`trilith serve {os.path.relpath(folder.resolve().parent)}`"
        )
    is_folder = "://" in target or Path(target).is_dir()
    for option, is_given, for_services in (
        ("--replicas", replicas is not None, True),
        ("--reload", reload, True),
        ("--debug", debug, True),
        ("--data-log", data_log is not None, True),
        ("--models", bool(models), True),
        ("--model-repository", bool(model_repository), False),
        ("--model-control-mode", model_control_mode != "none", False),
        ("--load-model", bool(load_model), False),
        ("--load-on-demand", load_on_demand, False),
        ("--exit-on-error", exit_on_error, False),
        ("--model-namespacing", model_namespacing, False),
        ("--allow-sagemaker", allow_sagemaker, False),
        ("--allow-vertex-ai", allow_vertex_ai, False),
    ):
        if is_given and is_folder and for_services:
            raise InvalidConfig(f"{option} is for services, and {target} is a folder of models")
        if is_given and not is_folder and not for_services:
            raise InvalidConfig(
                f"{option} is for folders of models, and {target} is a service: it says by `trilith.model(NAME)` which "
                "models it needs, and --models FOLDER says where they are"
            )
    for option, number, allowed in (
        ("--http-port", http_port, _PORTS),
        ("--grpc-port", None if grpc_port == "off" else grpc_port, _PORTS),
        ("--metrics-port", None if metrics_port == "off" else metrics_port, _PORTS),
        ("--replicas", replicas, Range(1, 65536)),
        ("--max-loaded-models", max_loaded_models, RANGES["max_loaded_models"]),
        ("--load-on-demand-wait-s", load_on_demand_wait_s, RANGES["load_on_demand_wait_s"]),
        ("--repository-poll-secs", repository_poll_secs, RANGES["poll_s"]),
        ("--model-load-thread-count", model_load_thread_count, RANGES["load_threads"]),
        ("--model-load-timeout-s", model_load_timeout_s, RANGES["load_timeout_s"]),
        ("--model-load-retry-count", model_load_retry_count, RANGES["model_load_retry_count"]),
        ("--drain-timeout-s", drain_timeout_s, Range(0, math.inf)),
        ("--unresponsive-timeout-s", unresponsive_timeout_s, Range(0.001, math.inf)),
        ("--stream-keep-alive-s", stream_keep_alive_s, Range(0.001, math.inf)),
        ("--trace-sample", trace_sample, Range(0, 1)),
        ("--grpc-keepalive-time", grpc_keepalive_time, _MS),
        ("--grpc-keepalive-timeout", grpc_keepalive_timeout, _MS),
        ("--grpc-http2-min-recv-ping-interval-without-data", grpc_http2_min_recv_ping_interval_without_data, _MS_OR_0),
        ("--grpc-http2-max-ping-strikes", grpc_http2_max_ping_strikes, Range(0, (1 << 31) - 1)),
        ("--grpc-max-connection-age", grpc_max_connection_age, _MS),
        ("--grpc-max-connection-age-grace", grpc_max_connection_age_grace, _MS_OR_0),
        ("--data-log-mb", data_log_mb, Range(1, 1 << 24)),
        ("--access-cache-s", access_cache_s, Range(0, 86400)),
        ("--max-body-mb", max_body_mb, Range(1, FrameLimits().max_body_bytes >> 20)),
        ("--max-held-mb", max_held_mb, Range(0, 1 << 24)),
    ):
        may_be_0 = option in _ZERO_IS_NONE
        if number is not None and not (allowed.holds(number) or (may_be_0 and number == 0)):
            or_0 = ", or 0 for none" if may_be_0 else ""
            raise InvalidConfig(f"{option} must be {allowed}{or_0}, got {plain_number(number)}")
    if 0 < max_held_mb < max_body_mb:
        raise InvalidConfig(
            f"--max-held-mb {max_held_mb} is less than --max-body-mb {max_body_mb}: a request of that length could "
            "never be taken; raise the one or lower the other"
        )
    if (tls_certificate is None) != (tls_key is None):
        given, missing = ("--tls-key", "--tls-certificate") if tls_key else ("--tls-certificate", "--tls-key")
        raise InvalidConfig(f"--tls-certificate and --tls-key go together: got {given} alone, give {missing} too")
    if tls_client_ca is not None and tls_certificate is None:
        raise InvalidConfig(
            f"--tls-client-ca {tls_client_ca} needs --tls-certificate and --tls-key: clients show theirs over TLS"
        )
    if reload_include and not reload:
        raise InvalidConfig(f"--reload-include {reload_include[0]} needs --reload")
    _check_inline(inline=inline, reload=reload, replicas=replicas, target=target)
    chosen = [port for port in (http_port, grpc_port, metrics_port) if port and port != "off"]
    if len({*chosen}) < len(chosen):
        raise InvalidConfig(
            f"--http-port, --grpc-port and --metrics-port must differ, got {http_port}, {grpc_port} and {metrics_port};"
            " 0 lets the system choose"
        )
    for folder in models:
        if not folder.is_dir():
            raise InvalidConfig(f"--models {folder}: there is no such folder")
    if backend_directory is not None and not backend_directory.is_dir():
        raise InvalidConfig(f"--backend-directory {backend_directory}: there is no such folder")
    if repoagent_directory is not None and not repoagent_directory.is_dir():
        raise InvalidConfig(f"--repoagent-directory {repoagent_directory}: there is no such folder")
    if load_on_demand and model_control_mode != "none":
        raise InvalidConfig(
            f"--load-on-demand needs --model-control-mode none, got {model_control_mode}: "
            "requests decide what is loaded"
        )
    if load_on_demand and model_namespacing:
        raise InvalidConfig(
            "--model-namespacing goes without --load-on-demand: a request for a name cannot say which of two models it "
            "would load"
        )
    if max_loaded_models and not load_on_demand:
        raise InvalidConfig(f"--max-loaded-models {max_loaded_models} needs --load-on-demand")
    if access_cache_s and not access:
        raise InvalidConfig("--access-cache-s needs --access")
    if access and (folder.is_dir() or "://" in target):
        raise InvalidConfig(
            f"--access {access} needs a service to stand beside; {target} is a folder of models, for which there are"
            " --api-keys and --tls-client-ca"
        )
    if load_model and model_control_mode != "explicit" and not load_on_demand:
        raise InvalidConfig(
            f"--load-model needs --model-control-mode explicit or --load-on-demand, got {model_control_mode}"
        )
    if not is_config_name(model_config_name):
        raise InvalidConfig(
            f"--model-config-name must be the name of a file in configs/ without its ending, got {model_config_name!r}"
        )
    for root in model_repository:
        if "://" not in root and not Path(root).is_dir():
            raise InvalidConfig(f"--model-repository {root}: there is no such folder")
    if data_log is None and (data_log_sample or data_log_images):
        raise InvalidConfig("--data-log-sample and --data-log-images need --data-log FOLDER")
    settings = read_settings(config, set)
    _check_settings(settings, target, is_folder=is_folder)
    sample, samples = read_samples(data_log_sample, "--data-log-sample")
    options = ServeOptions(
        target=target,
        settings=settings,
        copy_options=copy_options(started_with, serve.__kwdefaults__ or {}),
        host=host,
        http_port=http_port,
        grpc_port=None if grpc_port == "off" else grpc_port,
        metrics_port=None if metrics_port == "off" else metrics_port,
        replicas=replicas,
        reload=reload,
        reload_include=reload_include,
        inline=inline,
        model_roots=tuple(str(path.resolve()) for path in models),
        drain_s=drain_timeout_s,
        unresponsive_s=unresponsive_timeout_s,
        stream_keep_alive_s=stream_keep_alive_s,
        max_body_bytes=max_body_mb << 20,
        max_held_bytes=max_held_mb << 20,
        debug=debug,
        log=LogOptions(level=log_level, format=log_format, access=access_log),
        data_log=DataLogOptions(
            folder=str(data_log.resolve()) if data_log is not None else "",
            sample=sample,
            samples=dict(samples),
            max_bytes=data_log_mb << 20,
            images=data_log_images,
        ),
        traces=TraceOptions(
            endpoint=checked_endpoint(otlp_endpoint, "--otlp-endpoint") if otlp_endpoint else "", part=trace_sample
        ),
        tls_certificate=str(tls_certificate) if tls_certificate is not None else None,
        tls_key=str(tls_key) if tls_key is not None else None,
        tls_client_ca=str(tls_client_ca) if tls_client_ca is not None else None,
        access=access,
        access_cache_s=access_cache_s,
        api_keys=str(api_keys) if api_keys is not None else None,
        cors=cors_policy(
            origins=cors_origin,
            methods=cors_method,
            headers=cors_header,
            exposed=cors_expose_header,
            credentials=cors_credentials,
            max_age_s=cors_max_age_s,
        ),
        repository=RepositoryOptions(
            roots=model_repository,
            mode=ControlMode(model_control_mode),
            load_at_start=load_model or None,
            on_demand=load_on_demand,
            max_loaded_models=max_loaded_models or None,
            load_on_demand_wait_s=load_on_demand_wait_s,
            poll_s=repository_poll_secs,
            load_threads=model_load_thread_count,
            load_timeout_s=model_load_timeout_s or None,
            model_load_retry_count=model_load_retry_count,
            config_name=model_config_name,
            strict_readiness=strict_readiness,
            exit_on_error=exit_on_error,
            backend_directory=str(backend_directory.resolve()) if backend_directory is not None else "",
            repoagent_directory=str(repoagent_directory.resolve()) if repoagent_directory is not None else "",
            backend_config=backend_config,
            disable_auto_complete_config=disable_auto_complete_config,
            metrics_config=metrics_config,
            gpu_instances_on_cpu=gpu_instances_on_cpu,
            model_namespacing=model_namespacing,
        ),
        protocol=ProtocolOptions(
            compat=compat == "triton",
            max_body_bytes=max_body_mb << 20,
            http_header_forward_pattern=checked_pattern(http_header_forward_pattern, "--http-header-forward-pattern"),
            grpc_header_forward_pattern=checked_pattern(grpc_header_forward_pattern, "--grpc-header-forward-pattern"),
            http_restricted=checked_restrictions(http_restricted_api, "--http-restricted-api"),
            grpc_restricted=checked_restrictions(grpc_restricted_protocol, "--grpc-restricted-protocol"),
            platforms=_platforms(
                http_port,
                sagemaker=allow_sagemaker,
                vertex=allow_vertex_ai,
                vertex_model=vertex_ai_default_model,
                mode=model_control_mode,
            ),
            grpc_compression=grpc_infer_response_compression_level,
            server_name=id,
            grpc_connections=GrpcConnections(
                keepalive_interval_s=grpc_keepalive_time / 1e3,
                keepalive_timeout_s=grpc_keepalive_timeout / 1e3,
                min_ping_interval_s=grpc_http2_min_recv_ping_interval_without_data / 1e3,
                max_ping_strikes=grpc_http2_max_ping_strikes,
                max_age_s=grpc_max_connection_age / 1e3 if grpc_max_connection_age else None,
                max_age_grace_s=grpc_max_connection_age_grace / 1e3,
            ),
        ),
    )
    return serve_forever(options)


def _platforms(
    http_port: int, *, sagemaker: bool, vertex: bool, vertex_model: str, mode: str
) -> tuple[PlatformRoutes, ...]:
    from trilith.wire.platforms import check_apart, sagemaker_routes, vertex_routes

    if vertex_model and not vertex:
        raise InvalidConfig("--vertex-ai-default-model needs --allow-vertex-ai")
    found = [
        *([sagemaker_routes(os.environ, http_port)] if sagemaker else []),
        *([vertex_routes(os.environ, http_port, vertex_model)] if vertex else []),
    ]
    check_apart(found)
    if any(each.models_path for each in found) and mode != "explicit":
        raise InvalidConfig(
            "--allow-sagemaker: SAGEMAKER_MULTI_MODEL=true: SageMaker decides which models are loaded: say "
            f"--model-control-mode explicit, got {mode}"
        )
    return tuple(found)


def _check_inline(*, inline: bool, reload: bool, replicas: int | None, target: str) -> None:
    if not inline:
        return
    if reload:
        raise InvalidConfig("--inline runs the service in this process, whose code cannot be reloaded: leave out one")
    if replicas not in (None, 1):
        raise InvalidConfig(f"--inline runs one replica, got --replicas {replicas}: leave out one of the two")
    if "://" in target or Path(target).is_dir():
        raise InvalidConfig(f"--inline is for a service, and {target} is a folder of models")


def _check_settings(settings: Settings, target: str, *, is_folder: bool) -> None:
    if is_folder and settings.services:
        raise InvalidConfig(
            f"{next(iter(settings.services))}: is no model, and {target} is a folder of models: their settings are "
            "`models.NAME.KEY`"
        )
    if settings.models:
        from trilith.runtime import check_model_settings

        check_model_settings(settings.models)


def _is_one_model(folder: Path) -> bool:
    """Whether a folder is that of a model (with versions, or how it is served) and not of several."""
    if any(folder.glob("*/*/model.*")):
        return False
    versions = any(found.parent.name.isdecimal() for found in folder.glob("*/model.*"))
    return versions or any((folder / name).is_file() for name in ("config.pbtxt", "model.yaml"))
