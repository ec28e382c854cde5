"""Load on one running peer: wrk where it is installed, else Trilith's own generator; for gRPC our raw HTTP/2 client."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import uvloop
from benchmarks.grpc_load import GrpcLoad
from benchmarks.peers.registry import Peer
from benchmarks.peers.workloads import Workload

from trilith.measure import BenchPlan, Body, Target, cpu_seconds, run_bench

GRPC_METHOD = "/inference.GRPCInferenceService/ModelInfer"
_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One measurement of one peer."""

    requests_per_s: float
    p50_s: float
    p99_s: float
    server_cpu_per_request_s: float
    failed: int


def measure(
    peer: Peer, workload: Workload, pid: int, port: int, *, concurrency: int, duration_s: float, wrk: str | None
) -> Figures:
    """Warms the peer up for a second, then measures it."""
    if peer.protocol == "grpc":
        return _with_grpc(pid, port, workload, concurrency, duration_s)
    url = f"http://127.0.0.1:{port}{peer.path or workload.path}"
    if wrk is None:
        return _with_own(url, workload, pid, concurrency, duration_s)
    _run_wrk(wrk, url, workload, concurrency, 1.0)
    before_s = cpu_seconds(pid)
    figures, requests = parse_wrk(_run_wrk(wrk, url, workload, concurrency, duration_s))
    used_s = cpu_seconds(pid) - before_s
    return Figures(**figures, server_cpu_per_request_s=used_s / max(1, requests))


def parse_wrk(text: str) -> tuple[dict[str, float | int], int]:
    """The figures in wrk's output with `--latency`, and the number of requests.

    Raises:
        ValueError: a line that must be there is not.
    """

    def found(pattern: str) -> re.Match[str]:
        match = re.search(pattern, text, re.MULTILINE)
        if match is None:
            raise ValueError(f"wrk's output lacks {pattern!r}:\n{text}")
        return match

    def seconds(percent: str) -> float:
        match = found(rf"^\s+{percent}%\s+([\d.]+)(us|ms|s|m)$")
        return float(match[1]) * _UNITS_S[match[2]]

    failed = 0
    for match in re.finditer(r"(?:Non-2xx or 3xx responses:|connect|read|write|timeout) (\d+)", text):
        failed += int(match[1])
    requests = int(found(r"^\s+(\d+) requests in ")[1])
    return (
        {
            "requests_per_s": float(found(r"^Requests/sec:\s+([\d.]+)$")[1]),
            "p50_s": seconds("50"),
            "p99_s": seconds("99"),
            "failed": failed,
        },
        requests,
    )


def _run_wrk(wrk: str, url: str, workload: Workload, concurrency: int, duration_s: float) -> str:
    with tempfile.TemporaryDirectory() as folder:
        body, script = Path(folder) / "body", Path(folder) / "post.lua"
        body.write_bytes(workload.body)
        headers = {"Content-Type": workload.content_type, **workload.headers}
        script.write_text(
            'wrk.method = "POST"\n'
            f'wrk.body = io.open("{body}", "rb"):read("*all")\n'
            + "".join(f'wrk.headers["{name}"] = "{value}"\n' for name, value in headers.items())
        )
        command = [wrk, "-t1", f"-c{concurrency}", f"-d{max(1, round(duration_s))}s", "--latency", "-s", str(script)]
        return subprocess.run([*command, url], check=True, capture_output=True, text=True).stdout


def _with_own(url: str, workload: Workload, pid: int, concurrency: int, duration_s: float) -> Figures:
    plan = BenchPlan(
        target=Target.parse(url),
        method="POST",
        headers=tuple(workload.headers.items()),
        bodies=(Body(content=workload.body, content_type=workload.content_type),),
        concurrency=(concurrency,),
        duration_s=duration_s,
        warmup_s=1.0,
        server_pid=pid,
    )
    level = uvloop.run(run_bench(plan, sample_timelines=False)).levels[0]
    return Figures(
        requests_per_s=level.requests_per_s,
        p50_s=level.latency.p50_s,
        p99_s=level.latency.p99_s,
        server_cpu_per_request_s=level.server_cpu_per_request_s or 0.0,
        failed=level.failed,
    )


def _with_grpc(pid: int, port: int, workload: Workload, concurrency: int, duration_s: float) -> Figures:
    async def main() -> Figures:
        load = GrpcLoad("127.0.0.1", port, GRPC_METHOD, workload.message)
        await load.run(concurrency=concurrency, duration_s=1.0)
        before_s = cpu_seconds(pid)
        counts = await load.run(concurrency=concurrency, duration_s=duration_s)
        used_s = cpu_seconds(pid) - before_s
        summary = counts.latencies.summary()
        return Figures(
            requests_per_s=summary.count / counts.elapsed_s,
            p50_s=summary.p50_s,
            p99_s=summary.p99_s,
            server_cpu_per_request_s=used_s / max(1, summary.count + sum(counts.errors.values())),
            failed=sum(counts.errors.values()),
        )

    return uvloop.run(main())
