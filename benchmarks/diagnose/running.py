"""A case's server: started with what was changed, asked until it is ready, ended by its id."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from benchmarks.diagnose.cases import SERVICES, Case

from trilith.measure import BenchPlan, Body, Target

_READY_S = 60.0
_JSON = "application/json"
_ASKED = b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1.0]}]}'


class CaseFailed(Exception):
    """A case's server did not start. The message has the end of what it printed."""


@contextlib.contextmanager
def running(case: Case, value: str = "") -> Iterator[tuple[int, int]]:
    """Starts it; gives its process id and its port.

    Raises:
        CaseFailed: it ended, or was not ready in time.
    """
    with tempfile.TemporaryDirectory(prefix="dx-") as name, tempfile.TemporaryFile() as output:
        folder, port = Path(name), _free_port()
        (folder / "models").mkdir()
        if case.write is not None:
            case.write(folder / "models", value)
        process = subprocess.Popen(
            _command(case, value, folder, port),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "DIAGNOSE_VALUE": value, "DIAGNOSE_FOLDER": str(folder)},
        )
        try:
            _wait(case, process, port)
            with _asked_beside(case, port):
                yield process.pid, port
        except CaseFailed as error:
            output.seek(max(0, output.seek(0, os.SEEK_END) - 2000))
            raise CaseFailed(f"{case.name}: {error}\n{output.read().decode('utf-8', 'replace')}") from None
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def _asked_beside(case: Case, port: int) -> Iterator[None]:
    """Another client, which asks for another model again and again."""
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection.request("POST", f"/v2/models/{case.beside}/infer", _ASKED, {"content-type": _JSON})
                connection.getresponse().read()
            connection.close()
            over.wait(0.005)

    thread = threading.Thread(target=ask, daemon=True)
    if case.beside:
        thread.start()
    try:
        yield
    finally:
        over.set()
        if case.beside:
            thread.join()


def plan_of(case: Case, port: int, value: str, pid: int, *, duration_s: float) -> BenchPlan:
    """The requests of a case."""
    if case.stage == "client":
        return _plan(port, "/", Body(content=b'{"x": 1}', content_type=_JSON), duration_s, pid)
    if case.stage == "encoding":
        array = np.linspace(0, 1, 40_000, dtype=np.float32)
        if value:
            return _plan(port, "/run", Body(content=_npy(array), content_type="application/x-npy"), duration_s)
        text = ", ".join(f"{each:.7f}" for each in array)
        return _plan(port, "/run", Body(content=f'{{"x": [{text}]}}'.encode(), content_type=_JSON), duration_s)
    if case.model:
        return _plan(port, f"/v2/models/{case.model}/infer", Body(content=_ASKED, content_type=_JSON), duration_s)
    return _plan(port, "/run", Body(content=b'{"x": 1.0}', content_type=_JSON), duration_s)


def _plan(port: int, path: str, body: Body, duration_s: float, pid: int | None = None) -> BenchPlan:
    headers = (("accept", "application/x-npy"),) if body.content_type == "application/x-npy" else ()
    return BenchPlan(
        target=Target.parse(f"http://127.0.0.1:{port}{path}"),
        method="POST",
        bodies=(body,),
        headers=headers,
        duration_s=duration_s,
        warmup_s=0.4,
        timeout_s=20.0,
        server_pid=pid,
    )


def _npy(array: np.ndarray) -> bytes:
    import io

    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _command(case: Case, value: str, folder: Path, port: int) -> list[str]:
    if case.stage == "client":
        return [sys.executable, "-m", "benchmarks.diagnose.bare_server", str(port)]
    target = f"{SERVICES}:{case.service}" if case.service else str(folder / "models")
    command = [sys.executable, "-m", "trilith", "serve", target, "--http-port", str(port)]
    command += ["--grpc-port", "0", "--metrics-port", "0"]
    return [*command, *case.options(value)]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait(case: Case, process: subprocess.Popen[bytes], port: int) -> None:
    give_up_at = time.monotonic() + _READY_S
    while time.monotonic() < give_up_at:
        if process.poll() is not None:
            raise CaseFailed(f"ended with status {process.returncode} before it was ready")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        try:
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        except (OSError, http.client.HTTPException):
            time.sleep(0.05)
        finally:
            connection.close()
        time.sleep(0.05)
    raise CaseFailed(f"was not ready within {_READY_S:g} s")
