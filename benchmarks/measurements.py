"""The measurements behind the goals: each gives the figures of its rounds, by the keys of `goals.GOALS`.

Every server is started as a user starts it, and ended by the id of the process that was started here.
"""

from __future__ import annotations

import asyncio
import http.client
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import burst, grpc_service, image_io, learned_batch, ocr, oip_identity, streams, uploads
from benchmarks.goals import Samples
from benchmarks.peers.environment import DEFAULT_FOLDER
from benchmarks.peers.registry import APPS, PEERS
from benchmarks.peers.rounds import Measured, measure_rounds
from benchmarks.peers.workloads import WORKLOADS, Workload

_CONCURRENCY = 32
_FIRST_ANSWER_WITHIN_S = 30.0
_HEAVY = ("numpy", "pydantic", "asyncio", "msgspec", "rich", "cyclopts", "uvloop", "onnxruntime", "grpc")
_IMPORT = f"""
import sys, time
started = time.perf_counter()
import trilith
elapsed_s = time.perf_counter() - started
print(elapsed_s, sum(name in sys.modules for name in {_HEAVY!r}))
"""


class MeasurementFailed(Exception):
    """There are no figures; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a measurement gave.

    Attributes:
        samples: the figures of its rounds, by the key of their goal.
        failures: why figures are missing, by the name of the peer.
    """

    samples: Samples
    failures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long it may take.

    Attributes:
        rounds: of everything that is repeated A B A B.
        seconds: of one run against a server.
        ocr_seconds: of one run of the OCR pipeline.
        starts: of `trilith serve`.
        imports: of `import trilith`.
    """

    rounds: int = 3
    seconds: float = 5.0
    ocr_seconds: float = 15.0
    starts: int = 5
    imports: int = 10


QUICK = Effort(rounds=1, seconds=1.0, ocr_seconds=3.0, starts=2, imports=3)
"""Shows that it works; its figures are worth little."""


def echo(effort: Effort) -> Found:
    """Trilith alone: the echo service."""
    measured = _rounds("echo", ["trilith"], effort)
    figures = measured.figures["trilith"].values()
    return Found(
        samples={"echo.cpu": [found.server_cpu_per_request_s * 1e6 for found in figures]}, failures=measured.failures
    )


def peers(effort: Effort) -> Found:
    """The same service beside those of its peers, in interleaved rounds."""
    names = ["mosec", "ray-fast", "bentoml", "granian"]
    measured = _rounds("echo", ["trilith", *names], effort)
    return Found(
        samples={f"peers.{name}": measured.ratios("trilith", name) for name in names}, failures=measured.failures
    )


def triton(effort: Effort) -> Found:
    """Python models and a model in process beside Triton's Python models; what waits runs together."""
    return _beside_triton("triton", "identity", effort)


def triton_alone(effort: Effort) -> Found:
    """The same without dynamic batching, which is Triton's default."""
    return _beside_triton("triton-alone", "identity-alone", effort)


def pytriton(effort: Effort) -> Found:
    """A Python model beside a function that PyTriton serves."""
    measured = _rounds("identity", ["trilith-python", "pytriton", "trilith-python-grpc", "pytriton-grpc"], effort)
    return Found(
        samples={
            "pytriton.http": measured.ratios("trilith-python", "pytriton"),
            "pytriton.grpc": measured.ratios("trilith-python-grpc", "pytriton-grpc"),
        },
        failures=measured.failures,
    )


def last_of_a_burst(effort: Effort) -> Found:
    """From the first of 100 requests at 200 a second to the last answer."""
    return Found(samples={"burst.last": [burst.measure("trilith-identity").last_s for _ in range(effort.rounds)]})


def oip(effort: Effort) -> Found:
    """The Open Inference Protocol on an identity model, and grpc.aio beside it."""
    rounds = [oip_identity.measure_all(effort.seconds, _CONCURRENCY) for _ in range(effort.rounds)]
    return Found(
        samples={
            "oip.http": [found.http_us for found in rounds],
            "oip.grpc": [found.grpc_us for found in rounds],
            "oip.aio": [found.aio_us / found.grpc_us for found in rounds],
        }
    )


def learned(effort: Effort) -> Found:
    """What batches of a learned size give beside the best fixed one, where batches win and where they lose."""
    batches = 300 if effort.rounds > 1 else 50
    chosen = learned_batch.Effort(seconds=effort.seconds, rounds=effort.rounds, batches=batches)
    measured = {name: learned_batch.measure(name, chosen) for name in ("mlp", "ocr-rec")}
    return Found(samples={f"learned.{name}": found.ratios(found.learned) for name, found in measured.items()})


def ocr_pages(effort: Effort) -> Found:
    """The OCR pipeline served, and the bare loop, in interleaved pairs."""
    pairs = ocr.measure_pairs(ocr.APP, rounds=effort.rounds, seconds=effort.ocr_seconds)
    return Found(
        samples={
            "ocr.pages": [pair.pages_ratio for pair in pairs],
            "ocr.cpu": [pair.cpu_ratio for pair in pairs],
        }
    )


def service(effort: Effort) -> Found:
    """What services cost: over gRPC, for pictures, and for small requests beside large ones."""
    calls = grpc_service.measure(in_flight=[_CONCURRENCY], seconds=effort.seconds, rounds=effort.rounds)
    pictures = image_io.measure(megapixels=12.0, pictures=8, rounds=effort.rounds)
    beside = uploads.measure(seconds=effort.seconds, rounds=effort.rounds)
    return Found(
        samples={
            "service.grpc": calls[_CONCURRENCY],
            "service.picture": [served.cpu_s / bare.cpu_s for bare, served in pictures],
            "service.upload": [found.more_s * 1e3 for found in beside],
        }
    )


def batched(effort: Effort) -> Found:
    """A batched method of 5 ms for up to 32, beside those of peers."""
    measured = _rounds("batched", ["trilith", "bentoml", "mosec"], effort)
    return Found(
        samples={f"batched.{name}": measured.ratios("trilith", name) for name in ("bentoml", "mosec")},
        failures=measured.failures,
    )


def many_streams(effort: Effort) -> Found:
    """32 streams of 1,000 items a second, one of which is read slowly."""
    rate, clients, seconds = 1000.0, 32, 30 if effort.rounds > 1 else 5
    found = asyncio.run(streams.measure(clients=clients, rate=rate, seconds=seconds, warm_up=3.0, slow_bytes=2000))
    return Found(
        samples={
            "streams.growth": [found.growth_mb],
            "streams.items": [found.items_per_s / rate / (clients - 1)],
        }
    )


def start(effort: Effort) -> Found:
    """From `trilith serve` to the first right answer of a trivial service."""
    return Found(samples={"start.first": [_first_answer_s() for _ in range(effort.starts)]})


def import_trilith(effort: Effort) -> Found:
    """`import trilith` in a fresh interpreter. The first one, which may compile, does not count."""
    found = [_import() for _ in range(effort.imports + 1)][1:]
    return Found(
        samples={
            "import.time": [elapsed_s * 1e3 for elapsed_s, _ in found],
            "import.heavy": [float(count) for _, count in found],
        }
    )


MEASUREMENTS: dict[str, Callable[[Effort], Found]] = {
    "echo": echo,
    "peers": peers,
    "oip": oip,
    "triton": triton,
    "triton-alone": triton_alone,
    "pytriton": pytriton,
    "burst": last_of_a_burst,
    "learned": learned,
    "ocr": ocr_pages,
    "service": service,
    "batched": batched,
    "streams": many_streams,
    "start": start,
    "import": import_trilith,
}


def _beside_triton(group: str, workload: str, effort: Effort) -> Found:
    names = [f"{name}{end}" for end in ("", "-grpc") for name in ("trilith-python", "triton", "trilith-identity")]
    measured = _rounds(workload, names, effort)
    return Found(
        samples={
            f"{group}.python-http": measured.ratios("trilith-python", "triton"),
            f"{group}.python-grpc": measured.ratios("trilith-python-grpc", "triton-grpc"),
            f"{group}.identity-http": measured.ratios("trilith-identity", "triton"),
            f"{group}.identity-grpc": measured.ratios("trilith-identity-grpc", "triton-grpc"),
        },
        failures=measured.failures,
    )


def _rounds(workload: str, names: list[str], effort: Effort) -> Measured:
    return measure_rounds(
        [PEERS[name] for name in names],
        DEFAULT_FOLDER,
        WORKLOADS[workload](),
        concurrency=_CONCURRENCY,
        duration_s=effort.seconds,
        rounds=effort.rounds,
        wrk=shutil.which("wrk"),
    )


def _first_answer_s() -> float:
    workload, port = WORKLOADS["echo"](), oip_identity.free_port()
    command = [str(Path(sys.executable).with_name("trilith")), "serve", f"{APPS / 'echo.py'}:echo"]
    ports = ["--http-port", str(port), "--grpc-port", "0", "--metrics-port", "0"]
    started = time.perf_counter()
    with _ended_at_last([*command, *ports]) as server:
        while time.perf_counter() - started < _FIRST_ANSWER_WITHIN_S:
            if server.poll() is not None:
                raise MeasurementFailed(f"trilith serve ended with status {server.returncode}")
            if workload.right(_answer(port, workload)):
                return time.perf_counter() - started
            time.sleep(0.005)
    raise MeasurementFailed(f"trilith serve gave no right answer within {_FIRST_ANSWER_WITHIN_S:g} s")


def _answer(port: int, workload: Workload) -> bytes:
    """The content of an answer; `null` while there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_FIRST_ANSWER_WITHIN_S)
    try:
        connection.request("POST", workload.path, workload.body, {"content-type": workload.content_type})
        answer = connection.getresponse()
        content = answer.read()
    except (OSError, http.client.HTTPException):
        return b"null"  # it does not listen or answer yet
    finally:
        connection.close()
    return content if answer.status == 200 else b"null"


@contextmanager
def _ended_at_last(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield server
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _import() -> tuple[float, int]:
    done = subprocess.run([sys.executable, "-c", _IMPORT], check=True, capture_output=True, text=True)
    elapsed_s, count = done.stdout.split()
    return float(elapsed_s), int(count)
