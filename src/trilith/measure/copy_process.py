"""The process of a copy: `trilith` itself, which ends when the process that measures does, whatever ended that.

Started by `copies` as `python -P -m trilith.measure.copy_process PARENT_PID serve TARGET ...`.
"""

from __future__ import annotations

import runpy
import sys

from trilith.core.lifeline import die_with_parent


def main() -> None:
    """Entry point of the process."""
    _, parent, *words = sys.argv
    die_with_parent(int(parent))
    sys.argv = ["trilith", *words]
    runpy.run_module("trilith", run_name="__main__")


if __name__ == "__main__":
    main()
