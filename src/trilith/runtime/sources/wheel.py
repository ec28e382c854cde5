"""Gets wheels by the user's own pip, and single files out of them.

Rule 1: pip decides where packages come from. No index, host or mirror is named here, so the user's settings apply.
Rule 2: nothing of a wheel is installed, imported or run; one file is read out of a zip archive.
Rule 3: a failure says what was run, what pip answered, and what to do.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import subprocess
import sys
import tempfile
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final

from trilith.errors import SetupError, UnknownReference
from trilith.runtime.sources.reference import WheelFile

_TIMEOUT_S: Final = 1800.0
_RAW_PROGRESS = re.compile(rb"Progress (\d+) of (\d+)")
_NETWORK_WORDS: Final = (
    "NewConnectionError",
    "ConnectionError",
    "ConnectTimeout",
    "Read timed out",
    "Connection broken",
    "Retrying (",
    "ProxyError",
    "SSLError",
    "Temporary failure in name resolution",
)

BytesSeen = Callable[[int, int | None], None]
"""Called with the bytes that have come and the bytes that are expected, from a thread of its own."""


def download_wheel(wanted: WheelFile, folder: Path, seen: BytesSeen, *, python: str | None = None) -> Path:
    """Downloads the wheel that holds `wanted` into `folder`, and nothing else, and returns its path.

    Args:
        wanted: what to fetch; only its name and version matter here.
        folder: an existing folder. The wheel appears in it complete or not at all.
        seen: told of the bytes as they come, where pip can say so.
        python: the interpreter whose pip to use; this one's by default.

    Raises:
        UnknownReference: the index has no such version as a wheel for this Python.
        SetupError: there is no pip, no network, or pip failed otherwise.
    """
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".download-") as temporary:
        command = [python or sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
        command += ["--no-input", "--disable-pip-version-check", "-d", temporary]
        status, errors = _run([*command, "--progress-bar", "raw", wanted.requirement], seen)
        if status == 2 and "progress-bar" in errors:  # pip before 24.1 does not know `raw`
            status, errors = _run([*command, "--progress-bar", "off", wanted.requirement], seen)
        if status != 0:
            raise _failure(wanted, command, status, errors)
        wheels = sorted(Path(temporary).glob("*.whl"))
        if len(wheels) != 1:
            raise SetupError(
                f"{wanted.requirement}: expected pip to download one wheel, found "
                f"{[path.name for path in Path(temporary).iterdir()]}"
            )
        return wheels[0].replace(folder / wheels[0].name)


@contextlib.contextmanager
def open_member(wheel: Path, path: str) -> Iterator[tuple[IO[bytes], int]]:
    """Opens one file of a wheel for reading, with its size in bytes.

    Raises:
        UnknownReference: the wheel has no such file; the message lists similar ones.
        zipfile.BadZipFile: the archive is damaged.
    """
    with zipfile.ZipFile(wheel) as archive:
        try:
            member = archive.getinfo(path)
        except KeyError:
            raise UnknownReference(_no_such_file(archive, wheel, path)) from None
        if member.is_dir() or stat.S_ISLNK(member.external_attr >> 16):
            raise UnknownReference(f"{path!r} in {wheel.name} is not a regular file")
        try:
            with archive.open(member) as content:
                yield content, member.file_size
        except (zlib.error, EOFError) as error:
            raise zipfile.BadZipFile(f"{path} in {wheel.name}: {error}") from error


def _run(command: list[str], seen: BytesSeen) -> tuple[int, str]:
    """Runs pip; returns its exit status and what it wrote to standard error."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment, bufsize=0) as pip,
    ):
        watchdog = threading.Timer(_TIMEOUT_S, pip.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            for line in pip.stdout or ():
                if found := _RAW_PROGRESS.search(line):
                    seen(int(found[1]), int(found[2]) or None)
            status = pip.wait()
        finally:
            watchdog.cancel()
            if pip.poll() is None:
                pip.kill()
        errors.seek(0)
        return status, errors.read().decode("utf-8", "replace")


def _failure(wanted: WheelFile, command: list[str], status: int, errors: str) -> SetupError:
    said = "\n".join(f"    {line}" for line in errors.strip().splitlines()[-6:]) or "    (nothing)"
    tried = f"tried: {' '.join(command[:-1])} DIR {wanted.requirement}\npip said (exit status {status}):\n{said}"
    if "No module named pip" in errors:
        return SetupError(
            f"{wanted.requirement}: this Python has no pip ({command[0]}).\n{tried}\n"
            f"Install it with `{command[0]} -m ensurepip --upgrade` (in a uv environment: `uv pip install pip`), "
            "or fetch the wheel elsewhere and name its file with file:PATH"
        )
    if any(word in errors for word in _NETWORK_WORDS):
        return SetupError(
            f"{wanted.requirement}: the package index cannot be reached.\n{tried}\n"
            "Check the network, the proxy and pip's settings (`pip config list`); a file that is already here can be "
            "named with file:PATH"
        )
    if "No matching distribution" in errors or "Could not find a version" in errors:
        return UnknownReference(
            f"{wanted.requirement}: the package index has no such version as a wheel for this Python "
            f"({sys.version_info.major}.{sys.version_info.minor}).\n{tried}\n"
            f"See which versions there are with `pip index versions {wanted.name}`"
        )
    return SetupError(f"{wanted.requirement}: pip could not download it.\n{tried}")


def _no_such_file(archive: zipfile.ZipFile, wheel: Path, path: str) -> str:
    names = [name for name in archive.namelist() if not name.endswith("/")]
    suffix = Path(path).suffix
    similar = [name for name in names if suffix and name.endswith(suffix)] or names
    shown = "".join(f"\n    {name}" for name in similar[:10])
    more = f"\n    ... and {len(similar) - 10} more" if len(similar) > 10 else ""
    return f"{wheel.name} has no file {path!r}. It has:{shown}{more}"
