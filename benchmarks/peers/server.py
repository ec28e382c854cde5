"""One peer's processes: started in a session of their own, asked until ready, ended one by one by their ids."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import uvloop
from benchmarks.grpc_load import GrpcLoad
from benchmarks.peers.driver import GRPC_METHOD
from benchmarks.peers.registry import Peer
from benchmarks.peers.workloads import ECHO_VALUES, Workload

from trilith.measure import ProcessSample, process_tree


class PeerFailed(Exception):
    """A peer did not start, or gave a wrong answer. The message has the end of what it printed."""


@contextlib.contextmanager
def running(peer: Peer, bin_folder: Path, workload: Workload) -> Iterator[tuple[int, int]]:
    """Starts a peer and gives (its process id, its port) once its answer is right. Ends all that it started.

    Raises:
        PeerFailed: it ended, or was not ready in time, or its answer is wrong.
    """
    port = _free_port()
    variables = {
        **os.environ,
        **peer.variables,
        **workload.variables,
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
    }
    variables.pop("PYTHONPATH", None)
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            peer.command(bin_folder, port, workload),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=variables,
            start_new_session=True,
        )
        try:
            try:
                _wait_ready(peer, process, port, workload)
            except PeerFailed as error:
                output.seek(max(0, output.seek(0, os.SEEK_END) - 3000))
                raise PeerFailed(f"{error}\n{output.read().decode('utf-8', 'replace')}") from None
            yield process.pid, port
        finally:
            _end(process)


def _wait_ready(peer: Peer, process: subprocess.Popen[bytes], port: int, workload: Workload) -> None:
    give_up_at = time.monotonic() + peer.ready_s
    seen = "no answer yet"
    while time.monotonic() < give_up_at:
        if process.poll() is not None:
            raise PeerFailed(f"{peer.name} ended with status {process.returncode} before it was ready")
        try:
            if peer.protocol == "grpc":
                seen = _ask_grpc(port, workload)
                if not seen:
                    return
                time.sleep(0.1)
                continue
            status, content = _ask(port, peer.path or workload.path, workload)
        except (OSError, http.client.HTTPException) as error:
            seen = repr(error)
        else:
            if status == 200 and workload.right(content):
                return
            if status == 200:
                raise PeerFailed(f"{peer.name} gave a wrong answer: {content!r:.200}")
            seen = f"status {status}: {content!r:.200}"
        time.sleep(0.1)
    raise PeerFailed(f"{peer.name} was not ready after {peer.ready_s:g} s ({seen})")


def _ask_grpc(port: int, workload: Workload) -> str:
    """Calls the identity for a moment; gives what is wrong with the answers, or ""."""
    load = GrpcLoad("127.0.0.1", port, GRPC_METHOD, workload.message)
    counts = uvloop.run(load.run(concurrency=1, duration_s=0.2))
    if counts.errors or not counts.latencies.count:
        return f"{counts.latencies.count} answers, errors {dict(counts.errors)}"
    return "" if struct.pack("<4f", *ECHO_VALUES) in counts.last_answer else f"answer {counts.last_answer!r:.200}"


def _ask(port: int, path: str, workload: Workload) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=workload.answer_s)
    try:
        connection.request("POST", path, workload.body, {"content-type": workload.content_type, **workload.headers})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM to the root and time to end its children; then SIGKILL, by id, for what it left."""
    started = process_tree(process.pid)
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    give_up_at = time.monotonic() + 3
    while (left := _still_there(started)) and time.monotonic() < give_up_at:
        time.sleep(0.05)
    for member in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(member.pid, signal.SIGKILL)


def _still_there(started: list[ProcessSample]) -> list[ProcessSample]:
    """Those that still run. The time of the start tells them from others that got their id since."""
    return [
        member
        for member in started
        for now in process_tree(member.pid)
        if (now.pid, now.start_ticks) == (member.pid, member.start_ticks)
    ]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
