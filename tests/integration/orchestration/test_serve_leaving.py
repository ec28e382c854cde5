"""SIGTERM while models come and go: what was loaded finalizes, whatever else is under way."""

import contextlib
import http.client

import psutil
import pytest

MODEL = """
import os
import time

import numpy as np
import triton_python_backend_utils as pb_utils


def wait_for(path):
    ends_at = time.monotonic() + 20
    while not os.path.exists(path) and time.monotonic() < ends_at:
        time.sleep(0.01)


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({{"name": "x", "data_type": "TYPE_FP32", "dims": [-1]}})
        config.add_output({{"name": "y", "data_type": "TYPE_FP32", "dims": [-1]}})
        return config

    def initialize(self, args):
        {initialize}

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", np.zeros(1, np.float32))]) for _ in requests]

    def finalize(self):
        open({folder!r} + "/finalizing", "w").close()
        {finalize}
        open({folder!r} + "/finalized", "w").close()
"""
HANG = "open({witness!r}, 'w').close(); wait_for('never')"
APP = """
import numpy as np
import trilith

@trilith.service
class Uses:
    quick = trilith.model("quick")
    slow = trilith.model("slow")

    @trilith.api
    async def one(self) -> float:
        return 1.0
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.setenv("TRILITH_CACHE", str(tmp_path / "cache"))

    def write_it(name, initialize="pass", finalize="pass"):
        folder = tmp_path / "models" / name / "1"
        folder.mkdir(parents=True)
        source = MODEL.format(initialize=initialize, finalize=finalize, folder=str(tmp_path))
        (folder / "model.py").write_text(source)
        return tmp_path / "models"

    return write_it


def answers(server, model):
    """Whether a model answers, asked while the server has not said where it listens."""
    body = '{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]}'
    for connection in psutil.Process(server.process.pid).net_connections("inet"):
        if connection.status == psutil.CONN_LISTEN:
            client = http.client.HTTPConnection("127.0.0.1", connection.laddr.port, timeout=5)
            with contextlib.closing(client), contextlib.suppress(OSError, http.client.HTTPException):
                client.request("POST", f"/v2/models/{model}/infer", body)
                if client.getresponse().status == 200:
                    return True
    return False


def test_a_model_that_a_client_unloads_finalizes(serve, write, tmp_path):
    root = write("quick", finalize=f"wait_for({str(tmp_path / 'go')!r})")
    server = serve(root, "--model-control-mode", "explicit", "--load-model", "quick")
    assert server.status()["loads"] == {"waiting": 0, "running": 0, "left_behind": 0}
    with server.connection() as client:
        client.request("POST", "/v2/repository/models/quick/unload")
        server.wait_until((tmp_path / "finalizing").exists)
    server.process.terminate()  # the client has gone away, so the front has nothing to wait for
    server.wait_line("stopping")
    (tmp_path / "go").touch()
    assert server.process.wait(20) == 0
    assert (tmp_path / "finalized").exists()


def test_a_model_finalizes_while_another_one_loads_at_the_start(serve, write, tmp_path):
    write("quick")
    server = serve(write("slow", initialize=HANG.format(witness=str(tmp_path / "hangs"))), ready=False)
    server.wait_until((tmp_path / "hangs").exists)
    server.wait_until(lambda: answers(server, "quick"))
    assert server.terminate() == 0
    assert (tmp_path / "finalized").exists()


def test_a_model_finalizes_while_another_one_of_the_service_loads(serve, write, tmp_path):
    write("quick")
    write("slow", initialize=HANG.format(witness=str(tmp_path / "hangs")))
    (tmp_path / "app.py").write_text(APP)
    server = serve(f"{tmp_path}/app.py:Uses", ready=False)
    server.wait_until((tmp_path / "hangs").exists)
    server.wait_until(lambda: answers(server, "quick"))
    assert server.terminate() == 0
    assert (tmp_path / "finalized").exists()


def test_what_hangs_past_the_drain_time_is_left(serve, write, tmp_path):
    root = write("quick", finalize="wait_for('never')")
    server = serve(root, "--drain-timeout-s", "0")
    [model] = [model for model in server.status()["models"] if model["name"] == "quick"]
    assert server.terminate() == 0
    server.wait_line("are left behind")
    server.wait_until(lambda: not psutil.pid_exists(model["processes"][0]))
    assert (tmp_path / "finalizing").exists()
    assert not (tmp_path / "finalized").exists()
