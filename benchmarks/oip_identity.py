"""CPU time a request of the Open Inference Protocol on an identity model: HTTP JSON, gRPC, and grpc.aio beside them.

    python benchmarks/oip_identity.py [--seconds 3] [--in-flight 32]

Every server runs in a process of its own; a closed loop keeps `--in-flight` requests of four floats going. The client
shares the machine, so compare CPU a request and ratios rather than rates. grpc.aio is the hand-written server of
`peers/servers/grpc_aio_identity.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Run as a file, Python looks for modules beside it and not in the folder above, where `benchmarks` is.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import uvloop
from benchmarks.grpc_load import GrpcLoad, identity_request

from trilith.core.collector import settle_collector
from trilith.measure import DurationHistogram, cpu_seconds
from trilith.net.grpc import GrpcServer
from trilith.net.http1 import HttpServer
from trilith.runtime import Runtime
from trilith.runtime.protocol import OipGrpc, OipHttp
from trilith.telemetry import Metrics, RequestMetrics

Load = Callable[[int, int, float], Coroutine[Any, Any, DurationHistogram]]

GRPC_PATH = "/inference.GRPCInferenceService/ModelInfer"
PEER = Path(__file__).parent / "peers" / "servers" / "grpc_aio_identity.py"
CONFIG = """
backend: "identity"
max_batch_size: 32
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
dynamic_batching { }
"""
TENSOR = {"name": "INPUT0", "datatype": "FP32", "shape": [1, 4], "data": [1.0, 2.5, 3.25, 0.1]}


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTimes:
    """Microseconds of server CPU a request."""

    http_us: float
    grpc_us: float
    aio_us: float


async def serve() -> None:
    """The server process: prints its ports, ends on SIGTERM."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "identity"
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(CONFIG)
        async with Runtime(folder) as runtime:
            requests = RequestMetrics(Metrics())
            http = HttpServer(OipHttp(runtime, metrics=requests))
            grpc = GrpcServer(OipGrpc(runtime, metrics=requests))
            settle_collector()  # as a gateway does
            await http.start()
            await grpc.start()
            print(http.addresses[0][1], grpc.addresses[0][1], flush=True)
            await stopping.wait()
            await http.drain(1.0)
            await grpc.drain(1.0)


class HttpLoop(asyncio.Protocol):
    """One keep-alive connection that sends its request again when the answer is complete."""

    def __init__(self, request: bytes, latencies: DurationHistogram) -> None:
        self._request = request
        self._latencies = latencies
        self._answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, blank, body = self._answer.partition(b"\r\n\r\n")
        if not blank:
            return
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"the server answered {self._answer[:300]!r}")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        if len(body) == length:
            self._latencies.record(time.perf_counter() - self._sent_at)
            self._send()

    def _send(self) -> None:
        self._answer = b""
        self._sent_at = time.perf_counter()
        self._transport.write(self._request)


async def http_load(port: int, in_flight: int, duration_s: float) -> DurationHistogram:
    body = json.dumps({"inputs": [TENSOR]}).encode()
    head = f"POST /v2/models/identity/infer HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n"
    latencies = DurationHistogram()
    loop = asyncio.get_running_loop()
    transports = []
    for _ in range(in_flight):
        transport, _ = await loop.create_connection(
            lambda: HttpLoop(head.encode() + body, latencies), "127.0.0.1", port
        )
        transports.append(transport)
    await asyncio.sleep(duration_s)
    for transport in transports:
        transport.abort()
    return latencies


async def grpc_load(port: int, in_flight: int, duration_s: float) -> DurationHistogram:
    load = GrpcLoad("127.0.0.1", port, GRPC_PATH, identity_request())
    counts = await load.run(concurrency=in_flight, duration_s=duration_s)
    if counts.errors:
        raise RuntimeError(f"calls failed: {dict(counts.errors)}")
    return counts.latencies


@contextmanager
def child(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(10)


def measure_all(seconds: float, in_flight: int) -> CpuTimes:
    """One run against each of the three. Prints a line for each.

    Raises:
        RuntimeError: a server does not answer as it should.
    """
    with child(__file__, "--serve") as process:
        http_port, grpc_port = map(int, process.stdout.readline().split())
        http_us = measure("trilith, HTTP JSON", http_load, http_port, process.pid, seconds, in_flight)
        grpc_us = measure("trilith, gRPC", grpc_load, grpc_port, process.pid, seconds, in_flight)
    port = free_port()
    with child(str(PEER), str(port)) as process:
        wait_listening(port)
        aio_us = measure("grpc.aio on uvloop", grpc_load, port, process.pid, seconds, in_flight)
    return CpuTimes(http_us=http_us, grpc_us=grpc_us, aio_us=aio_us)


def measure(name: str, load: Load, port: int, pid: int, seconds: float, in_flight: int) -> float:
    """Prints one line; returns CPU microseconds a request."""
    uvloop.run(load(port, in_flight, 0.5))
    before_s, started_at = cpu_seconds(pid), time.perf_counter()
    summary = uvloop.run(load(port, in_flight, seconds)).summary()
    elapsed_s = time.perf_counter() - started_at
    cpu_us = (cpu_seconds(pid) - before_s) / summary.count * 1e6
    print(
        f"{name:<22} {summary.count / elapsed_s:>8,.0f} requests/s   {cpu_us:>6.1f} us CPU/request"
        f"   p50 {summary.p50_s * 1e3:.2f} ms   p99 {summary.p99_s * 1e3:.2f} ms"
    )
    return cpu_us


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_listening(port: int) -> None:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"nothing listens on port {port}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds measured a server")
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--serve", action="store_true", help="be the server (used by the benchmark itself)")
    options = parser.parse_args()
    if options.serve:
        uvloop.run(serve())
        return
    found = measure_all(options.seconds, options.in_flight)
    print(f"grpc.aio takes {found.aio_us / found.grpc_us:.1f} times the CPU of Trilith's gRPC")


if __name__ == "__main__":
    main()
