"""Rounds of measurements, peers interleaved: A B C, A B C. Each is started, measured and ended; then the next."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.peers.driver import Figures, measure
from benchmarks.peers.registry import Peer
from benchmarks.peers.server import PeerFailed, running
from benchmarks.peers.workloads import Workload


def measure_rounds(
    chosen: Sequence[Peer],
    bins: Mapping[str, Path],
    workload: Workload,
    *,
    concurrency: int,
    duration_s: float,
    rounds: int,
    wrk: str | None,
) -> tuple[dict[str, list[Figures]], dict[str, str]]:
    """The figures of each peer's rounds, and why some have none. Tells each round on standard error.

    Args:
        chosen: the peers.
        bins: the `bin` folder of each one's environment, by name.
        workload: what is asked.
        concurrency: connections.
        duration_s: seconds measured in one round.
        rounds: how many.
        wrk: the command wrk; None for Trilith's own generator.
    """
    measured: dict[str, list[Figures]] = {peer.name: [] for peer in chosen}
    failures: dict[str, str] = {}
    for turn in range(1, rounds + 1):
        for peer in chosen:
            try:
                with running(peer, bins[peer.name], workload) as (pid, port):
                    figures = measure(
                        peer, workload, pid, port, concurrency=concurrency, duration_s=duration_s, wrk=wrk
                    )
            except PeerFailed as error:
                failures[peer.name] = str(error)
                print(f"round {turn}: {error}", file=sys.stderr, flush=True)
                continue
            measured[peer.name].append(figures)
            print(
                f"round {turn}: {peer.name:10} {figures.requests_per_s:10,.0f} req/s"
                f" {figures.server_cpu_per_request_s * 1e6:8.1f} us CPU/req  p99 {figures.p99_s * 1e3:.2f} ms"
                + (f"  FAILED {figures.failed}" if figures.failed else ""),
                file=sys.stderr,
                flush=True,
            )
    return measured, failures
