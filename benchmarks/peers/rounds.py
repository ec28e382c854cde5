"""Rounds of measurements, peers interleaved: A B C, A B C. Each is started, measured and ended; then the next."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.peers.driver import Figures, measure
from benchmarks.peers.environment import ensure
from benchmarks.peers.registry import Peer
from benchmarks.peers.server import PeerFailed, running
from benchmarks.peers.workloads import Workload

EXPECTED = (PeerFailed, OSError, ValueError, RuntimeError, subprocess.CalledProcessError)
"""What a peer that cannot be installed, started or measured may end in; the others go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What the rounds gave.

    Attributes:
        figures: of each peer, by the number of the round; those that failed are missing.
        failures: why a peer has no figures of some round, or that some of its requests failed.
        bins: the `bin` folder of each one's environment.
    """

    figures: dict[str, dict[int, Figures]]
    failures: dict[str, str] = field(default_factory=dict)
    bins: dict[str, Path] = field(default_factory=dict)

    def ratios(self, name: str, other: str) -> list[float]:
        """How many times the requests a second of `other` `name` gave, for each round in which no request failed."""
        ours, theirs = self.figures[name], self.figures[other]
        return [
            ours[turn].requests_per_s / theirs[turn].requests_per_s
            for turn in sorted(ours.keys() & theirs.keys())
            if not ours[turn].failed and not theirs[turn].failed and theirs[turn].requests_per_s > 0
        ]


def measure_rounds(
    chosen: Sequence[Peer],
    folder: Path,
    workload: Workload,
    *,
    concurrency: int,
    duration_s: float,
    rounds: int,
    wrk: str | None,
) -> Measured:
    """The figures of each peer's rounds, and why some have none. Tells each round on standard error.

    Args:
        chosen: the peers.
        folder: where their environments are, or are made.
        workload: what is asked.
        concurrency: connections; for gRPC calls in flight on one.
        duration_s: seconds measured in one round.
        rounds: how many.
        wrk: the command wrk; None for Trilith's own generator.
    """
    measured = Measured(figures={peer.name: {} for peer in chosen})
    for peer in chosen:
        try:
            measured.bins[peer.name] = ensure(peer.environment, folder)
        except EXPECTED as error:
            measured.failures[peer.name] = f"its environment could not be made: {error}"
            print(f"{peer.name}: {measured.failures[peer.name]}", file=sys.stderr, flush=True)
    for turn in range(1, rounds + 1):
        for peer in chosen:
            if peer.name not in measured.bins:
                continue
            try:
                with running(peer, measured.bins[peer.name], workload) as (pid, port):
                    figures = measure(
                        peer, workload, pid, port, concurrency=concurrency, duration_s=duration_s, wrk=wrk
                    )
            except EXPECTED as error:
                measured.failures[peer.name] = f"round {turn}: {error}"
                print(f"{peer.name}: {measured.failures[peer.name]}", file=sys.stderr, flush=True)
                continue
            measured.figures[peer.name][turn] = figures
            if figures.failed:
                measured.failures[peer.name] = f"round {turn}: {figures.failed} requests failed"
            print(
                f"round {turn}: {peer.name:22} {figures.requests_per_s:10,.0f} req/s"
                f" {figures.server_cpu_per_request_s * 1e6:8.1f} us CPU/req  p99 {figures.p99_s * 1e3:.2f} ms"
                + (f"  FAILED {figures.failed}" if figures.failed else ""),
                file=sys.stderr,
                flush=True,
            )
    return measured
