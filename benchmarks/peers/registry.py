"""The peers: how each is installed, started and asked. Fair means idiomatic: what its own documentation shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from benchmarks.peers.identity import Backend, Variant, repository
from benchmarks.peers.workloads import OCR_MODELS, Workload

SERVERS = Path(__file__).parent / "servers"
APPS = Path(__file__).parent.parent / "apps"
_TRILITH_SERVICES = {"echo": "echo", "batched": "Doubled", "ocr-rec": "Recognizer"}
_BATCHED = ("echo", "batched", "ocr-rec")
_OIP = ("identity", "identity-binary", "identity-alone")


Command = Callable[[Path, int, Workload], list[str]]
Protocol = Literal["http", "grpc"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One system under test.

    Attributes:
        name: how it is chosen and reported.
        environment: the name of its virtual environment and requirements file; "" runs in the harness's own.
        command: from (bin folder, port, workload) to the command line.
        path: of the endpoint, where the peer does not let it be chosen.
        protocol: "http" or "grpc".
        workloads: what it can be asked.
        variables: environment variables, all of them documented by the project itself.
        ready_s: seconds that it may take to start.
        settings: what is worth saying about the configuration.
    """

    name: str
    environment: str
    command: Command
    path: str | None = None
    protocol: Protocol = "http"
    workloads: tuple[str, ...] = ("echo", "ocr-rec")
    variables: dict[str, str] = field(default_factory=dict)
    ready_s: float = 60.0
    settings: str = ""


def _trilith(bin_folder: Path, port: int, workload: Workload) -> list[str]:
    target = f"{APPS / workload.module}.py:{_TRILITH_SERVICES[workload.name]}"
    ports = ["--http-port", str(port), "--grpc-port", "0", "--metrics-port", "0"]
    return [str(bin_folder / "trilith"), "serve", target, *ports, "--models", str(OCR_MODELS)]


def _trilith_models(backend: Backend, protocol: Protocol) -> Command:
    def command(bin_folder: Path, port: int, workload: Workload) -> list[str]:
        http, grpc = (str(port), "0") if protocol == "http" else ("0", str(port))
        ports = ["--http-port", http, "--grpc-port", grpc, "--metrics-port", "0"]
        return [str(bin_folder / "trilith"), "serve", str(repository(backend, _variant(workload))), *ports]

    return command


def _triton(protocol: Protocol) -> Command:
    def command(bin_folder: Path, port: int, workload: Workload) -> list[str]:
        models = repository("python", _variant(workload))
        return [str(bin_folder / "python"), str(SERVERS / "triton_serving.py"), protocol, str(port), str(models)]

    return command


def _pytriton(protocol: Protocol) -> Command:
    def command(bin_folder: Path, port: int, workload: Workload) -> list[str]:
        return [str(bin_folder / "python"), str(SERVERS / "pytriton_identity.py"), protocol, str(port)]

    return command


def _pytriton_pages(instances: int, batch: int) -> Command:
    def command(bin_folder: Path, port: int, workload: Workload) -> list[str]:
        script = str(SERVERS / "pytriton_ocr_page.py")
        return [str(bin_folder / "python"), script, str(port), "--instances", str(instances), "--batch", str(batch)]

    return command


def _pytriton_page_peers() -> Iterator[Peer]:
    """PyTriton over instances x dynamic batching."""
    for instances in (1, 2):
        for batch in (1, 4):
            batching = f"dynamic batching, up to {batch} pages" if batch > 1 else "no batching"
            yield Peer(
                name=f"pytriton-pages-{instances}x{batch}",
                environment="pytriton-ocr",
                command=_pytriton_pages(instances, batch),
                workloads=("ocr-page-oip",),
                ready_s=180.0,
                settings=f"{instances} instance{'s' if instances > 1 else ''}, {batching}",
            )


def _variant(workload: Workload) -> Variant:
    if workload.model is None:
        raise ValueError(f"{workload.name} is no workload of the Open Inference Protocol")
    return workload.model


def _mosec(bin_folder: Path, port: int, workload: Workload) -> list[str]:
    script = str(SERVERS / f"mosec_{workload.module}.py")
    return [str(bin_folder / "python"), script, "--address", "127.0.0.1", "--port", str(port), "--log-level", "warning"]


def _fastapi(bin_folder: Path, port: int, workload: Workload) -> list[str]:
    return [
        *(str(bin_folder / "uvicorn"), f"fastapi_{workload.module}:app", "--app-dir", str(SERVERS)),
        *("--port", str(port), "--loop", "uvloop", "--http", "httptools"),
        *("--no-access-log", "--log-level", "warning"),
    ]


def _granian(bin_folder: Path, port: int, workload: Workload) -> list[str]:
    return [
        *(str(bin_folder / "granian"), f"granian_{workload.module}:app", "--working-dir", str(SERVERS)),
        *("--interface", "rsgi", "--loop", "uvloop", "--no-ws", "--port", str(port), "--log-level", "warning"),
    ]


def _bentoml(bin_folder: Path, port: int, workload: Workload) -> list[str]:
    return [
        *(str(bin_folder / "bentoml"), "serve", f"bentoml_{workload.module}", "--working-dir", str(SERVERS)),
        *("--host", "127.0.0.1", "--port", str(port)),
    ]


def _ray(bin_folder: Path, port: int, workload: Workload) -> list[str]:
    return [str(bin_folder / "python"), str(SERVERS / f"ray_{workload.module}.py"), str(port)]


def _grpc_aio(bin_folder: Path, port: int, workload: Workload) -> list[str]:
    return [str(bin_folder / "python"), str(SERVERS / "grpc_aio_identity.py"), str(port)]


def _both(name: str, command: Callable[[Protocol], Command], **others: Any) -> tuple[Peer, Peer]:
    """A server of the Open Inference Protocol, by HTTP and by gRPC."""
    return (
        Peer(name=name, command=command("http"), protocol="http", **others),
        Peer(name=f"{name}-grpc", command=command("grpc"), protocol="grpc", **others),
    )


_BENTOML_QUIET = {"BENTOML_DO_NOT_TRACK": "True"}
_RAY_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_IMPORT_WARNING": "1"}
_RAY_FAST = {"RAY_SERVE_THROUGHPUT_OPTIMIZED": "1", "RAY_SERVE_ENABLE_HA_PROXY": "1"}
_ALL = (
    Peer(
        name="trilith",
        environment="",
        command=_trilith,
        workloads=_BATCHED,
        settings="defaults: a gateway and one worker process",
    ),
    Peer(
        name="mosec",
        environment="mosec",
        command=_mosec,
        path="/inference",
        workloads=_BATCHED,
        settings="default JSON, batching for `batched` alone; one worker (ocr-rec: two)",
    ),
    Peer(name="fastapi", environment="fastapi", command=_fastapi, settings="uvicorn, httptools, uvloop, one process"),
    Peer(
        name="granian",
        environment="granian",
        command=_granian,
        settings="bare RSGI handler with orjson, one worker: no framework at all",
    ),
    Peer(
        name="bentoml",
        environment="bentoml",
        command=_bentoml,
        workloads=_BATCHED,
        variables=_BENTOML_QUIET,
        ready_s=120.0,
        settings="defaults: one worker (ocr-rec: two threads)",
    ),
    Peer(
        name="ray",
        environment="ray",
        command=_ray,
        variables=_RAY_QUIET,
        ready_s=180.0,
        settings="defaults, max_ongoing_requests=1000, one replica (ocr-rec: two)",
    ),
    Peer(
        name="ray-fast",
        environment="ray",
        command=_ray,
        variables=_RAY_QUIET | _RAY_FAST,
        ready_s=180.0,
        settings="throughput-optimised with HAProxy (direct ingress), else as ray",
    ),
    Peer(
        name="bentoml-pages",
        environment="bentoml-ocr",
        command=_bentoml,
        workloads=("ocr-page",),
        variables=_BENTOML_QUIET,
        ready_s=180.0,
        settings="one worker, a thread a core",
    ),
    Peer(
        name="ray-pages",
        environment="ray-ocr",
        command=_ray,
        workloads=("ocr-page",),
        variables=_RAY_QUIET,
        ready_s=240.0,
        settings="a replica a core, max_ongoing_requests=2",
    ),
    *_pytriton_page_peers(),
    Peer(
        name="grpc-aio",
        environment="grpc-aio",
        command=_grpc_aio,
        protocol="grpc",
        workloads=("identity",),
        settings="ModelInfer by hand on uvloop: no model, no queue",
    ),
    *_both(
        "trilith-python",
        partial(_trilith_models, "python"),
        environment="",
        workloads=_OIP,
        settings="a model repository with the model.py that triton serves, one instance",
    ),
    *_both(
        "trilith-identity",
        partial(_trilith_models, "identity"),
        environment="",
        workloads=_OIP,
        settings="a model repository with the same model in the server's process",
    ),
    *_both(
        "trilith-onnx",
        partial(_trilith_models, "onnxruntime"),
        environment="",
        workloads=_OIP,
        settings="a model repository with the same model through ONNX Runtime",
    ),
    *_both(
        "triton",
        _triton,
        environment="pytriton",
        workloads=_OIP,
        settings="Triton 2.51, its Python backend, the model.py that trilith-python serves, one instance",
    ),
    *_both(
        "pytriton",
        _pytriton,
        environment="pytriton",
        workloads=("identity", "identity-binary"),
        settings="a function with @batch, defaults, batches of up to 32 rows",
    ),
)
PEERS: dict[str, Peer] = {peer.name: peer for peer in _ALL}
