"""NVIDIA's `perf_analyzer`, fetched as its users get it: from the wheel of `tritonclient` that still carries it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

_WHEELS = (
    ("tritonclient==2.41.0", "manylinux1_x86_64"),
    ("nvidia-cuda-runtime-cu12>=12,<13", "manylinux2014_x86_64"),
)
_DOWNLOAD = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:")
_PROGRAM = "tritonclient-2.41.0.data/data/bin/perf_analyzer"
_CUDA_LIBRARIES = "nvidia/cuda_runtime/lib"
_DEBIAN_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_DOWNLOAD_S = 100


class Unavailable(Exception):
    """The program cannot run on this machine; the message says what is missing and how to get it."""


class PerfAnalyzer:
    """The program, unpacked in a folder that outlives the test run.

    Args:
        folder: Where it is kept.

    Raises:
        Unavailable: It cannot be fetched, or a library of the system that it needs is missing.
    """

    def __init__(self, folder: Path):
        if sys.platform != "linux" or platform.machine() != "x86_64":
            raise Unavailable(f"perf_analyzer is a program for Linux on x86_64, this is {platform.platform()}")
        unpacked = _kept(folder / "wheels", _fetch_wheels)
        self._program = unpacked / _PROGRAM
        libraries = [unpacked / _CUDA_LIBRARIES]
        self._environment = _with_libraries(libraries)
        if "libb64.so.0d" in self._missing():
            libraries.append(_kept(folder / "debian", _fetch_libb64) / _DEBIAN_LIBRARIES)
            self._environment = _with_libraries(libraries)
        if missing := self._missing():
            raise Unavailable(f"perf_analyzer needs libraries that this system lacks: {', '.join(missing)}")

    def run(self, *arguments: str, within_s: float) -> subprocess.CompletedProcess[str]:
        """Runs it to its end; `stdout` holds all that it said."""
        return subprocess.run(
            [self._program, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._environment,
            timeout=within_s,
            check=False,
        )

    def _missing(self) -> list[str]:
        listing = subprocess.run(
            ["ldd", self._program], capture_output=True, text=True, env=self._environment, check=False
        )
        said = listing.stdout + listing.stderr
        if listing.returncode:
            raise Unavailable(f"this system cannot load perf_analyzer: {said}")
        return [line.split()[0] for line in said.splitlines() if "not found" in line]


def _with_libraries(folders: list[Path]) -> dict[str, str]:
    return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(map(str, folders))}


def _kept(folder: Path, fetch) -> Path:
    """`folder`, filled by `fetch` unless it is there. It appears whole or not at all."""
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        fetch(made, Path(scratch))
        try:
            made.rename(folder)
        except OSError:
            if not folder.exists():
                raise
    return folder


def _fetch_wheels(into: Path, scratch: Path) -> None:
    for requirement, tag in _WHEELS:
        _run_or_unavailable(
            [*_DOWNLOAD, "--platform", tag, "--dest", str(scratch), requirement],
            f"{requirement} could not be fetched; its wheel carries a part of perf_analyzer",
        )
    for wheel in scratch.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(into)
    (into / _PROGRAM).chmod(0o755)


def _fetch_libb64(into: Path, scratch: Path) -> None:
    """Unpacks Debian's package beside the program: this needs no rights over the system."""
    advice = "perf_analyzer needs libb64.so.0d, which could not be fetched; `apt-get install libb64-0d` provides it"
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise Unavailable(advice)
    _run_or_unavailable(["apt-get", "download", "-qq", "libb64-0d"], advice, folder=scratch)
    [package] = scratch.glob("libb64-0d*.deb")
    _run_or_unavailable(["dpkg-deb", "-x", str(package), str(into)], advice)


def _run_or_unavailable(command: list[str], advice: str, *, folder: Path | None = None) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=_DOWNLOAD_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{advice} (no end within {_DOWNLOAD_S} s)") from error
    if done.returncode:
        raise Unavailable(f"{advice}: {done.stderr.strip()}")
