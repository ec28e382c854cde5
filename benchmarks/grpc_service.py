"""What a service costs over gRPC: the echo of four floats through a replica, CPU time a call of gateway and worker.

    python benchmarks/grpc_service.py [--in-flight 1,32] [--seconds 3] [--rounds 3]

The client writes its HTTP/2 frames by hand (`grpc_load.py`). Each round has a line for each level, so that a machine
that does something else meanwhile is seen.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import uvloop

# Run as a file, Python looks for modules beside it and not in the folder above, where `benchmarks` is.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.grpc_load import GrpcLoad

from trilith.measure import cpu_seconds

APP = Path(__file__).parent / "apps" / "echo.py"
PORTS = ("--http-port", "0", "--grpc-port", "0", "--metrics-port", "off")
VALUES = (1.0, 2.0, 3.0, 4.0)


@contextlib.contextmanager
def served() -> Iterator[tuple[int, int]]:
    """The echo service in a process of its own: its process id and its gRPC port."""
    command = [sys.executable, "-m", "trilith", "serve", f"{APP}:echo", *PORTS]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ
    ) as server:
        assert server.stdout is not None
        try:
            for line in server.stdout:
                if "ready: " in line:
                    break
            else:
                raise SystemExit(f"the server ended with status {server.wait()} before it was ready")
            yield server.pid, int(line.split("gRPC ", 1)[1].split()[0].rsplit(":", 1)[1])
        finally:
            server.send_signal(signal.SIGTERM)
            server.stdout.read()


async def level(load: GrpcLoad, pid: int, in_flight: int, seconds: float) -> tuple[float, float, float]:
    """Microseconds of CPU a call, calls a second, median latency in milliseconds."""
    await load.run(concurrency=in_flight, duration_s=min(1.0, seconds))
    before_s = cpu_seconds(pid)
    counts = await load.run(concurrency=in_flight, duration_s=seconds)
    used_s = cpu_seconds(pid) - before_s
    if counts.errors:
        raise SystemExit(f"calls failed: {dict(counts.errors)}")
    summary = counts.latencies.summary()
    return used_s / summary.count * 1e6, summary.count / counts.elapsed_s, summary.p50_s * 1e3


def measure(*, in_flight: list[int], seconds: float, rounds: int) -> dict[int, list[float]]:
    """Microseconds of CPU a call in each round, by the calls in flight. Each is told on standard output."""
    packed = struct.pack(f"<{len(VALUES)}d", *VALUES)
    message = bytes((0x0A, len(packed))) + packed  # `repeated double x = 1`, packed
    found: dict[int, list[float]] = {calls: [] for calls in in_flight}
    with served() as (pid, port):
        load = GrpcLoad("127.0.0.1", port, "/echo.Echo/Echo", message)
        for _ in range(rounds):
            for calls in in_flight:
                cpu_us, rate, p50_ms = uvloop.run(level(load, pid, calls, seconds))
                found[calls].append(cpu_us)
                print(f"{calls:4} in flight {cpu_us:7.1f} us CPU/call {rate:9,.0f} calls/s  p50 {p50_ms:.3f} ms")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--in-flight", default="1,32", help="calls in flight at each level, over one connection")
    parser.add_argument("--seconds", type=float, default=3.0, help="at each level")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    levels = [int(word) for word in options.in_flight.split(",")]
    for in_flight, found in measure(in_flight=levels, seconds=options.seconds, rounds=options.rounds).items():
        print(f"best at {in_flight} in flight: {min(found):.1f} us CPU/call (load average {os.getloadavg()[0]:.1f})")


if __name__ == "__main__":
    main()
