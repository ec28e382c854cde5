"""The ways in which a server is told to end, and what is left of it: nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from live_server import APPS

PLAIN = """
import time, trilith

@trilith.service
class Plain:
    @trilith.api
    def wait(self, seconds: float) -> int:
        time.sleep(seconds)
        return 1
"""

SLEEPS = """
import pathlib, time

class TritonPythonModel:
    def execute(self, requests):
        pathlib.Path(requests[0].request_id()).touch()
        time.sleep(60)
"""


@pytest.fixture
def plain(tmp_path):
    source = tmp_path / "plain.py"
    source.write_text(PLAIN)
    return f"{source}:Plain"


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))


@pytest.fixture
def pool():
    with ThreadPoolExecutor(2) as pool:
        yield pool


def call(server, pool, seconds):
    waiting = pool.submit(server.post, "/wait", {"seconds": seconds})
    server.wait_until(lambda: server.status()["services"][0]["in_flight"] == 1)
    return waiting


def nothing_is_left(server, family):
    assert not [process for process in family if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
    assert list((server.runtime_folder / "trilith").iterdir()) == []
    assert list(Path(os.environ["TMPDIR"]).glob("trilith-uploads-*")) == []
    server._reader.join(5)
    assert "Traceback" not in server.output
    assert "killing" not in server.output


def test_a_drain_that_ends_by_its_timeout_ends_all(serve, plain, pool):
    server = serve(plain, "--drain-timeout-s", "2", "--unresponsive-timeout-s", "2")
    family = psutil.Process(server.process.pid).children(recursive=True)
    waiting = call(server, pool, 60)
    began = time.monotonic()
    assert server.terminate() == 0
    assert time.monotonic() - began < 2 + 1 + 2  # the last is for a machine that has other work
    with contextlib.suppress(Exception):
        assert waiting.result(5)[0] in (502, 503)
    nothing_is_left(server, family)


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_at_once(serve, plain, pool, second):
    server = serve(plain, "--drain-timeout-s", "60")
    family = psutil.Process(server.process.pid).children(recursive=True)
    call(server, pool, 60)
    server.process.send_signal(signal.SIGTERM)
    server.wait_line("stopping; ")

    def told():
        server.process.send_signal(second)  # a SIGTERM within half a second is the first one's echo
        return server.process.poll() is not None or "ending at once" in server.output

    server.wait_until(told)
    assert server.process.wait(10) == 1
    nothing_is_left(server, family)


def test_a_second_signal_ends_the_processes_of_models_too(serve, tmp_path, pool):
    folder = tmp_path / "models" / "sleeps"
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.py").write_text(SLEEPS)
    (folder / "config.pbtxt").write_text(
        'backend: "python" input { name: "x" data_type: TYPE_FP32 dims: [ 1 ] }'
        ' output { name: "y" data_type: TYPE_FP32 dims: [ 1 ] } instance_group { count: 2 kind: KIND_CPU }'
    )
    began = tmp_path / "began"
    server = serve(tmp_path / "models", "--drain-timeout-s", "60")
    family = psutil.Process(server.process.pid).children(recursive=True)
    assert len(family) >= 3  # the gateway and two instances
    text = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1.0]}], "id": str(began)}
    pool.submit(server.post, "/v2/models/sleeps/infer", text)
    server.wait_until(began.exists)
    server.process.send_signal(signal.SIGTERM)
    server.wait_line("stopping; ")
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(10) == 1
    server.wait_until(lambda: not [process for process in family if process.is_running()])  # they follow the gateway
    nothing_is_left(server, family)


def test_a_loop_that_is_blocked_for_less_than_the_timeout_ends_no_replica(serve, tmp_path):
    source = tmp_path / "blocks.py"
    source.write_text(PLAIN.replace("    def wait", "    async def wait"))
    server = serve(f"{source}:Plain", "--unresponsive-timeout-s", "1.5")
    for _ in range(3):
        assert server.post("/wait", {"seconds": 1.4}) == (200, 1)
    assert "killing a replica" not in server.output


def test_a_terminal_that_closes_is_a_drain(serve, plain, pool):
    server = serve(plain)
    family = psutil.Process(server.process.pid).children(recursive=True)
    waiting = call(server, pool, 1.0)
    for _ in range(3):
        server.process.send_signal(signal.SIGHUP)
    assert waiting.result(20) == (200, 1)
    assert server.process.wait(20) == 0
    nothing_is_left(server, family)


def test_with_nohup_a_terminal_may_close(serve):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        server = serve(f"{APPS}/calls.py:Calls")
    finally:
        signal.signal(signal.SIGHUP, before)
    server.process.send_signal(signal.SIGHUP)
    os.kill(server.gateway_pid(), signal.SIGHUP)
    assert server.post("/doubled", {"x": [2.0]}) == (200, [4.0])
    assert server.terminate() == 0
