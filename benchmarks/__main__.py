"""The two benchmarks that answer first: what Trilith costs a request, and what its peers cost.

python -m benchmarks
"""

from __future__ import annotations

import subprocess
import sys

COMMANDS = (
    ("benchmarks/echo.py",),
    ("-m", "benchmarks.peers", "--peers", "trilith,mosec,fastapi,granian,bentoml,ray-fast,ray"),
    ("-m", "benchmarks.peers", "--peers", "trilith-grpc,grpc-aio"),
)


def main() -> int:
    return max(subprocess.run([sys.executable, *command]).returncode for command in COMMANDS)


if __name__ == "__main__":
    sys.exit(main())
