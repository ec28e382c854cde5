"""The unit tests, side by side in three plain processes: `python scripts/unit_tests.py [OPTIONS OF PYTEST]`.

Thousands of tests of a millisecond each: with pytest-xdist a third of the time goes into telling one process what the
others did. A folder's tests stay together, so that each library is imported once. The last group is whatever the others
are not. Ends with the status of the first group that failed; Ctrl-C ends all.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNIT = "tests/unit"
GROUPS = (
    ("service", "cli", "access"),
    ("runtime", "http2", "tune", "python"),
)


def arguments() -> list[list[str]]:
    """What pytest is called with, for each group."""
    named = [[f"{UNIT}/{folder}" for folder in group] for group in GROUPS]
    rest = [UNIT, *(f"--ignore={folder}" for group in named for folder in group)]
    return [*named, rest]


def main(options: list[str]) -> int:
    """Runs all groups; prints what each said when it has ended."""
    command = [sys.executable, "-m", "pytest", "-q", *options]
    running = [
        subprocess.Popen([*command, *group], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for group in arguments()
    ]
    sys.stdout.write(f"Unit tests in {len(running)} processes, about half a minute on two cores.\n")
    sys.stdout.flush()
    status = 0
    try:
        for process in running:
            said, _ = process.communicate()
            sys.stdout.buffer.write(said)
            sys.stdout.flush()
            status = status or process.returncode
    finally:
        for process in running:
            process.kill()
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
