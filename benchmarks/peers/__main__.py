"""Trilith and its peers, the same work, one after the other.

    python -m benchmarks.peers --peers trilith,mosec,fastapi --concurrency 32 --duration 5 --rounds 3

Every peer is installed in an environment of its own, started, asked for a right answer, warmed up, measured and ended;
then the next. Rounds interleave the peers (A B C, A B C), and the table shows medians, because a shared machine drifts.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import signal
import statistics
import sys
from pathlib import Path
from typing import Any

from benchmarks.peers.driver import Figures
from benchmarks.peers.environment import DEFAULT_FOLDER, versions
from benchmarks.peers.registry import PEERS, Peer
from benchmarks.peers.rounds import Measured, measure_rounds
from benchmarks.peers.workloads import WORKLOADS
from rich.console import Console
from rich.table import Table

from trilith.measure import read_conditions


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended then too
    workload = WORKLOADS[options.workload]()
    chosen = [PEERS[name] for name in options.peers]
    wrk = None if options.generator == "own" else shutil.which("wrk")
    conditions = {
        **read_conditions(("trilith", "uvloop", "httptools", "msgspec")),
        "generator": "wrk, one thread" if wrk is not None else "trilith",
        "generator_and_server": "on the same cores, not pinned",
    }
    measured = measure_rounds(
        chosen,
        options.folder,
        workload,
        concurrency=options.concurrency,
        duration_s=options.duration,
        rounds=options.rounds,
        wrk=wrk,
    )
    medians = {name: _median(list(figures.values())) for name, figures in measured.figures.items() if figures}
    rounds = {name: len(figures) for name, figures in measured.figures.items()}
    Console(highlight=False, width=110).print(_table(options, medians, rounds))
    for key, value in conditions.items():
        print(f"{key}: {value}")
    for name, why in measured.failures.items():
        print(f"FAILED {name}: {(why.splitlines() or [''])[0]}")
    if options.json is not None:
        report = _report(options, conditions, chosen, measured, medians)
        options.json.write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    return 1 if measured.failures or not medians else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--peers", type=_peers, default=_peers("trilith,mosec,fastapi,granian"), help=f"of {', '.join(PEERS)}"
    )
    parser.add_argument("--workload", choices=list(WORKLOADS), default="echo")
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--duration", type=float, default=5.0, help="seconds measured (wrk: whole seconds)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER, help="where the environments are kept")
    parser.add_argument("--generator", choices=["auto", "own"], default="auto", help="auto: wrk if it is installed")
    parser.add_argument("--json", type=Path, help="write everything that was measured to this file")
    options = parser.parse_args()
    for name in options.peers:
        if options.workload not in PEERS[name].workloads:
            parser.error(f"{name} has no {options.workload}; it has {', '.join(PEERS[name].workloads)}")
    return options


def _peers(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; known: {', '.join(PEERS)}")
    return names


def _median(rounds: list[Figures]) -> Figures:
    values = [dataclasses.asdict(figures) for figures in rounds]
    return Figures(**{key: statistics.median(value[key] for value in values) for key in values[0]})


def _table(options: argparse.Namespace, medians: dict[str, Figures], rounds: dict[str, int]) -> Table:
    table = Table(
        title=f"{options.workload}, {options.concurrency} connections, medians of {options.rounds} rounds of"
        f" {options.duration:g} s",
        title_justify="left",
    )
    table.add_column("peer")
    for name in ("req/s", "p50 ms", "p99 ms", "CPU us/req", "req/s ratio", "CPU ratio", "failed", "rounds"):
        table.add_column(name, justify="right")
    for name, figures in sorted(medians.items(), key=lambda item: -item[1].requests_per_s):
        ours = next((medians[other] for other in options.peers if _is_ours(other, name) and other in medians), None)
        ratios = ["-", "-"]
        if ours is not None:
            cpu_ratio = figures.server_cpu_per_request_s / ours.server_cpu_per_request_s
            ratios = [f"{figures.requests_per_s / ours.requests_per_s:.2f} x", f"{cpu_ratio:.2f} x"]
        table.add_row(
            name,
            f"{figures.requests_per_s:,.0f}",
            f"{figures.p50_s * 1e3:.2f}",
            f"{figures.p99_s * 1e3:.2f}",
            f"{figures.server_cpu_per_request_s * 1e6:,.1f}",
            *ratios,
            f"{figures.failed:g}",
            str(rounds[name]),
        )
    return table


def _is_ours(name: str, other: str) -> bool:
    """Whether `name` is what `other` is compared with: the first of Trilith's that speaks the same protocol."""
    return name.startswith("trilith") and PEERS[name].protocol == PEERS[other].protocol


def _report(
    options: argparse.Namespace,
    conditions: dict[str, Any],
    chosen: list[Peer],
    measured: Measured,
    medians: dict[str, Figures],
) -> dict[str, Any]:
    return {
        "schema": "trilith-peers/1",
        "workload": options.workload,
        "concurrency": options.concurrency,
        "duration_s": options.duration,
        "conditions": conditions,
        "peers": {
            peer.name: {
                "settings": peer.settings,
                "variables": peer.variables,
                "versions": versions(measured.bins[peer.name], peer.environment) if peer.name in measured.bins else {},
                "rounds": [dataclasses.asdict(figures) for figures in measured.figures[peer.name].values()],
                "median": dataclasses.asdict(medians[peer.name]) if peer.name in medians else None,
                "failure": measured.failures.get(peer.name),
            }
            for peer in chosen
        },
    }


if __name__ == "__main__":
    sys.exit(main())
