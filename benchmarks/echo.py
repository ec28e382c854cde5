"""What Trilith itself costs: the echo service, served as a user would, measured at several levels of load.

    python benchmarks/echo.py [--concurrency 1,32] [--duration 3] [--json FILE]

The table has the server's CPU time a request and, from the server's own timelines, which floor takes the time.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

# Run as a file, Python looks for modules beside it and not in the folder above, where `benchmarks` is.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.peers.environment import ensure
from benchmarks.peers.registry import PEERS
from benchmarks.peers.server import running
from benchmarks.peers.workloads import echo

from trilith.cli.bench import bench


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--concurrency", default="1,32", help="requests in flight at each level")
    parser.add_argument("--duration", type=float, default=3.0, help="seconds at each level")
    parser.add_argument("--json", type=Path, help="write the report to this file")
    options = parser.parse_args()
    workload, peer = echo(), PEERS["trilith"]
    with running(peer, ensure(peer.environment, Path()), workload) as (pid, port):
        return bench(
            f"http://127.0.0.1:{port}{workload.path}",
            data=(workload.body.decode(),),
            concurrency=options.concurrency,
            duration=f"{options.duration}s",
            pid=pid,
            json=options.json,
        )


if __name__ == "__main__":
    sys.exit(main())
