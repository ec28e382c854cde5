"""A copy of a target beside the one that runs: the same `trilith serve` with other settings, on free ports. Doer.

    with running_copy(CopyPlan(target="app.py:Ocr", settings={"Recognizer.replicas": 2})) as copy:
        ...  # http://{copy.http}/read

Rule 1: what it is a copy of goes on untouched: a copy has ports, sockets and temporary files of its own.
Rule 2: no copy outlives the block: not after an error, not after Ctrl-C (which the terminal sends to this process
    alone), and not when this process is killed. Start it from a thread that lives as long: the main one.
Rule 3: what a copy writes is kept apart, and becomes part of the error when it does not start.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from trilith.config import settings_of
from trilith.errors import SetupError
from trilith.orchestration import addresses_of

_MODULE: Final = "trilith.measure.copy_process"
_LOOK_AGAIN_S: Final = 0.02
_PROBE_WITHIN_S: Final = 2.0
_KILLED_WITHIN_S: Final = 10.0
_MOST_SAID_BYTES: Final = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlan:
    """What to start.

    Attributes:
        target: as `trilith serve` takes it: `app.py:Ocr`, `module:Name`, a folder of models.
        settings: values by path, as `trilith serve --set` takes them: `{"Detector.replicas": 2}`.
        options: further words for `trilith serve`, as `("--config", "trilith.yaml")`. No ports.
        folder: where it is started; None for the current folder.
        ready_within_s: seconds until it must be ready: models may be downloaded.
        ends_within_s: seconds that what is in flight gets at the end.
    """

    target: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    folder: Path | None = None
    ready_within_s: float = 300.0
    ends_within_s: float = 5.0

    def words(self) -> list[str]:
        """What follows `trilith` on a command line.

        Raises:
            InvalidConfig: a path is none.
        """
        settings_of(self.settings)
        found = ["serve", self.target, "--http-port", "0", "--grpc-port", "0", "--metrics-port", "off"]
        found += ["--drain-timeout-s", f"{self.ends_within_s:g}", *self.options]
        for path, value in self.settings.items():
            found += ["--set", f"{path}={msgspec.json.encode(value).decode()}"]
        return found


class CopyFailed(SetupError):
    """A copy did not start, or not in time; the message has what it wrote last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCopy:
    """A copy that is ready.

    Attributes:
        http: `host:port` of HTTP.
        grpc: `host:port` of gRPC; "" without.
        pid: the process at the root of its tree, whose CPU time and memory are the copy's.
        ready_s: seconds from its start until it was ready.
    """

    http: str
    grpc: str
    pid: int
    ready_s: float

    def url(self, path: str) -> str:
        """The URL of a path of it."""
        return f"http://{self.http}{path}"


@contextlib.contextmanager
def running_copy(plan: CopyPlan) -> Iterator[RunningCopy]:
    """Starts a copy, gives it when it is ready, and ends it with all of its processes.

    Raises:
        CopyFailed: it ended, or was not ready in time.
        InvalidConfig: a path of its settings is none.
    """
    words = plan.words()
    with tempfile.TemporaryFile() as said:
        # A group of its own: Ctrl-C in the terminal ends the measurement, which then ends the copy in its order.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", _MODULE, str(os.getpid()), *words],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            cwd=plan.folder,
            process_group=0,
        )
        try:
            yield _ready(process, plan, said)
        finally:
            _end(process, plan.ends_within_s)


def _ready(process: subprocess.Popen[bytes], plan: CopyPlan, said: IO[bytes]) -> RunningCopy:
    begun = time.monotonic()
    while (elapsed_s := time.monotonic() - begun) < plan.ready_within_s:
        if process.poll() is not None:
            raise CopyFailed(f"a copy of {plan.target}{_shown(plan)} ended before it was ready: {_last(said)}")
        addresses = addresses_of(process.pid)
        if addresses is not None and _is_ready(addresses[0]):
            return RunningCopy(http=addresses[0], grpc=addresses[1], pid=process.pid, ready_s=elapsed_s)
        time.sleep(_LOOK_AGAIN_S)
    raise CopyFailed(
        f"a copy of {plan.target}{_shown(plan)} was not ready within {plan.ready_within_s:g} s: {_last(said)}"
    )


def _is_ready(address: str) -> bool:
    connection = http.client.HTTPConnection(address, timeout=_PROBE_WITHIN_S)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False  # it listens, and does not answer yet
    finally:
        connection.close()


def _shown(plan: CopyPlan) -> str:
    return "".join(f" --set {path}={value}" for path, value in plan.settings.items())


def _last(said: IO[bytes]) -> str:
    """The last lines that it wrote, without the colours."""
    size = said.seek(0, os.SEEK_END)
    said.seek(max(0, size - _MOST_SAID_BYTES))
    lines = said.read().decode("utf-8", "replace").strip().splitlines()
    return "\n".join(lines[-20:]) or "it wrote nothing"


def _end(process: subprocess.Popen[bytes], within_s: float) -> None:
    """SIGTERM, and in time another, which ends what is in flight; then SIGKILL, by which its whole tree ends."""
    for number, patience_s in ((signal.SIGTERM, within_s + 5.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, None)):
        if process.poll() is not None:
            return
        process.send_signal(number)
        try:
            process.wait(_KILLED_WITHIN_S if patience_s is None else patience_s)
        except subprocess.TimeoutExpired:
            continue
        except BaseException:  # Ctrl-C while it ends: it ends now
            process.kill()
            process.wait(_KILLED_WITHIN_S)
            raise
