"""The circumstances of a measurement, stored with its figures so that two of them can be compared honestly."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

Conditions = dict[str, str | int | float]


def read_conditions(packages: Iterable[str] = ("trilith", "uvloop", "httptools")) -> Conditions:
    """The machine, its load right now, and the versions of Python and `packages` (those that are installed)."""
    found: Conditions = {
        "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "load_average_1min": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue  # run from a source tree, or not needed here
    return found


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        return platform.processor() or platform.machine()
    return platform.processor() or platform.machine()
