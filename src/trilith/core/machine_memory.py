"""How much memory this process may use: the machine's, or its container's when that is less."""

from __future__ import annotations

from pathlib import Path
from typing import Final

UNKNOWN_BYTES: Final = 4 << 30
"""What is taken for the memory of a machine that does not tell."""

_CGROUP_LIMITS: Final = ("fs/cgroup/memory.max", "fs/cgroup/memory/memory.limit_in_bytes")  # version 2, version 1


def memory_bytes(proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> int:
    """Memory in bytes.

    Args:
        proc, sys: the folders that the kernel writes to.
    """
    found = [_container_bytes(sys / name) for name in _CGROUP_LIMITS]
    return min([size for size in (_machine_bytes(proc / "meminfo"), *found) if size], default=UNKNOWN_BYTES)


def _machine_bytes(path: Path) -> int:
    for line in _read(path).splitlines():
        if line.startswith("MemTotal:"):
            number = line.split()[1]
            return int(number) * 1024 if number.isdigit() else 0
    return 0


def _container_bytes(path: Path) -> int:
    text = _read(path).strip()
    return int(text) if text.isdigit() else 0  # "max": no limit


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""  # there is no such file on this machine
