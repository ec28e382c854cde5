"""The peers: how each is installed, started and asked. Fair means idiomatic: what its own documentation shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

SERVERS = Path(__file__).parent / "servers"
APPS = Path(__file__).parent.parent / "apps"
ECHO_VALUES = [1.0, 2.0, 3.0, 4.0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One system under test.

    Attributes:
        name: how it is chosen and reported.
        environment: the name of its virtual environment and requirements file; "" runs in the harness's own.
        command: from (bin folder, port) to the command line.
        path: of the echo endpoint.
        protocol: "http" or "grpc".
        variables: environment variables, all of them documented by the project itself.
        ready_s: seconds that it may take to start.
        settings: what is worth saying about the configuration.
    """

    name: str
    environment: str
    command: Callable[[Path, int], list[str]]
    path: str = "/echo"
    protocol: str = "http"
    variables: dict[str, str] = field(default_factory=dict)
    ready_s: float = 60.0
    settings: str = ""


_RAY_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_IMPORT_WARNING": "1"}

PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer(
            name="trilith",
            environment="",
            command=lambda bin, port: [
                str(bin / "trilith"),
                "serve",
                f"{APPS / 'echo.py'}:echo",
                "--http-port",
                str(port),
                "--grpc-port",
                "0",
                "--metrics-port",
                "0",
            ],
            settings="defaults: gateway and one worker process",
        ),
        Peer(
            name="mosec",
            environment="mosec",
            command=lambda bin, port: [
                str(bin / "python"),
                str(SERVERS / "mosec_echo.py"),
                "--address",
                "127.0.0.1",
                "--port",
                str(port),
                "--log-level",
                "warning",
            ],
            path="/inference",
            settings="one worker, no batching, default JSON",
        ),
        Peer(
            name="fastapi",
            environment="fastapi",
            command=lambda bin, port: [
                str(bin / "uvicorn"),
                "--app-dir",
                str(SERVERS),
                "fastapi_echo:app",
                "--port",
                str(port),
                "--loop",
                "uvloop",
                "--http",
                "httptools",
                "--no-access-log",
                "--log-level",
                "warning",
            ],
            settings="uvicorn, httptools, uvloop, one process",
        ),
        Peer(
            name="granian",
            environment="granian",
            command=lambda bin, port: [
                str(bin / "granian"),
                "--working-dir",
                str(SERVERS),
                "granian_echo:app",
                "--interface",
                "rsgi",
                "--loop",
                "uvloop",
                "--no-ws",
                "--port",
                str(port),
                "--log-level",
                "warning",
            ],
            settings="bare RSGI handler with orjson, one worker: no framework at all",
        ),
        Peer(
            name="bentoml",
            environment="bentoml",
            command=lambda bin, port: [
                str(bin / "bentoml"),
                "serve",
                "bentoml_echo:Echo",
                "--working-dir",
                str(SERVERS),
                "--host",
                "127.0.0.1",
                "--port",
                str(port),
            ],
            variables={"BENTOML_DO_NOT_TRACK": "True"},
            ready_s=120.0,
            settings="defaults: one worker",
        ),
        Peer(
            name="ray",
            environment="ray",
            command=lambda bin, port: [str(bin / "python"), str(SERVERS / "ray_echo.py"), str(port)],
            variables=_RAY_QUIET,
            ready_s=180.0,
            settings="defaults, one replica, max_ongoing_requests=1000",
        ),
        Peer(
            name="ray-fast",
            environment="ray",
            command=lambda bin, port: [str(bin / "python"), str(SERVERS / "ray_echo.py"), str(port)],
            variables={**_RAY_QUIET, "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1", "RAY_SERVE_ENABLE_HA_PROXY": "1"},
            ready_s=180.0,
            settings="throughput-optimised with HAProxy (direct ingress), one replica, max_ongoing_requests=1000",
        ),
        Peer(
            name="grpc-aio",
            environment="grpc-aio",
            command=lambda bin, port: [str(bin / "python"), str(SERVERS / "grpc_aio_identity.py"), str(port)],
            protocol="grpc",
            settings="ModelInfer identity, FP32[4], uvloop",
        ),
    )
}
