"""Files of the user that are named like modules of Python's own: they are the user's, and end no process."""

from __future__ import annotations

import pytest
from live_server import Server, environment
from test_serve_models import write_doubler

NAMES = ["json", "types", "queue", "logging", "select", "email", "http", "random", "socket", "asyncio", "numpy"]
APP = """
import json as pythons

import beside
import trilith

@trilith.service
class Shadowed:
    @trilith.api
    async def double(self, x: int) -> int:
        return beside.doubled(pythons.loads(str(x)))
"""


@pytest.fixture
def folder(tmp_path):
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('this file of the user was imported')\n")
    (tmp_path / "beside.py").write_text("def doubled(x):\n    return 2 * x\n")
    return tmp_path


@pytest.fixture
def serve_here(folder, tmp_path_factory):
    servers = []

    def start(target):
        ports = ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]
        servers.append(Server([target, *ports], environment(tmp_path_factory.mktemp("run")), cwd=folder))
        return servers[-1].wait_ready()

    yield start
    for server in servers:
        server.close()


@pytest.mark.parametrize("target", ["app.py:Shadowed", "app:Shadowed", "queue.py:Shadowed"])
def test_a_service_beside_them(folder, serve_here, target):
    (folder / "app.py").write_text(APP)
    if target.startswith("queue"):  # the application itself may have such a name
        (folder / "queue.py").write_text(APP)
    server = serve_here(target)
    assert server.post("/double", {"x": 21}) == (200, 42)
    assert "imported" not in server.output


def test_models_and_a_python_model_beside_them(folder, serve_here):
    write_doubler(folder / "models")
    (folder / "models/python/1").mkdir(parents=True)
    (folder / "models/python/1/model.py").write_text(
        "import json, beside\n"
        "import triton_python_backend_utils as pb_utils\n"
        "class TritonPythonModel:\n"
        "    def execute(self, requests):\n"
        "        return [pb_utils.InferenceResponse([pb_utils.Tensor('y', beside.doubled(\n"
        "            pb_utils.get_input_tensor_by_name(one, 'x').as_numpy()))]) for one in requests]\n"
    )
    for name in ("json", "types", "queue"):
        (folder / f"models/python/1/{name}.py").write_text("raise RuntimeError('imported')\n")
    (folder / "models/python/1/beside.py").write_text("def doubled(x):\n    return 2 * x\n")
    (folder / "models/python/config.pbtxt").write_text(
        'backend: "python"\ninput [{ name: "x" data_type: TYPE_FP32 dims: [1] }]\n'
        'output [{ name: "y" data_type: TYPE_FP32 dims: [1] }]\n'
    )
    server = serve_here("models")
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [21]}]}
    status, answer = server.post("/v2/models/python/infer", body)
    assert status == 200, answer
    assert answer["outputs"][0]["data"] == [42.0]
