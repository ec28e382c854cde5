"""A `trilith serve` of this example in a process of its own, and the few HTTP requests that it is sent."""

from __future__ import annotations

import contextlib
import http.client
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

APP: Final = Path(__file__).with_name("app.py")
_READY_WITHIN_S: Final = 120.0
_STOP_WITHIN_S: Final = 20.0
_ANSWER_WITHIN_S: Final = 120.0


class ServerFailed(Exception):
    """The server did not start, or did not answer as it should; the message is for a person."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer.

    Attributes:
        status: the HTTP status code.
        body: the whole body.
        timeline: the request's timeline as JSON, b"" when it was not asked for.
        elapsed_s: seconds from sending the request to the end of its answer.
    """

    status: int
    body: bytes
    timeline: bytes
    elapsed_s: float


def post(port: int, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
    """Sends one request to the server on this machine.

    The timeline of a page is longer than a header may be: the header says where it is.

    Raises:
        ServerFailed: the connection broke before the answer was complete.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_WITHIN_S)
    try:
        started = time.perf_counter()
        connection.request("POST", path, body, dict(headers))
        response = connection.getresponse()
        answered = response.read()
        elapsed_s = time.perf_counter() - started
        timeline = response.headers.get("trilith-timeline", "").encode()
        where = response.headers.get("trilith-timeline-at")
        if where is not None:
            connection.request("GET", where)
            timeline = connection.getresponse().read()
        return Answer(response.status, answered, timeline, elapsed_s)
    except (OSError, http.client.HTTPException) as error:
        raise ServerFailed(f"the server did not answer POST {path}: {error}") from error
    finally:
        connection.close()


@dataclass(frozen=True, slots=True)
class Served:
    """A running server: its HTTP port and its process id."""

    port: int
    pid: int


@contextlib.contextmanager
def serve(target: str = f"{APP}:Ocr") -> Iterator[Served]:
    """Runs the example's server on free ports; gives it once it is ready, and stops it at the end.

    Raises:
        ServerFailed: it ended, or was not ready in time; the message has what it wrote.
    """
    ports = _free_ports(3)
    command = [str(Path(sys.executable).with_name("trilith")), "serve", target]
    for option, port in zip(("--http-port", "--grpc-port", "--metrics-port"), ports, strict=True):
        command += [option, str(port)]
    with tempfile.TemporaryFile() as written:
        try:
            server = subprocess.Popen(command, stdout=written, stderr=subprocess.STDOUT)
        except FileNotFoundError:
            raise ServerFailed(f"there is no {command[0]}: install Trilith into this environment first") from None
        try:
            _wait_ready(server, ports[0])
            yield Served(ports[0], server.pid)
        except ServerFailed as error:
            written.seek(0)
            said = written.read().decode("utf-8", "replace").strip()
            raise ServerFailed(f"{error}\n{said}" if said else str(error)) from None
        finally:
            _stop(server)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:  # all at once, so that they differ
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def _wait_ready(server: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + _READY_WITHIN_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise ServerFailed(f"trilith serve ended with exit status {server.returncode}")
        if _is_ready(port):
            return
        time.sleep(0.05)
    raise ServerFailed(f"trilith serve was not ready within {_READY_WITHIN_S:.0f} seconds")


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False  # it does not listen or answer yet
    finally:
        connection.close()


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(_STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
