"""Models behind `trilith serve`: a repository as it stands, and models that a service uses."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

pytest.importorskip("onnxruntime")


def write_doubler(folder, *, version="1"):
    """A model `y = 2 x` with a dynamic batch."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])
    two = helper.make_tensor("two", TensorProto.FLOAT, [1], [2.0])
    graph = helper.make_graph([helper.make_node("Mul", ["x", "two"], ["y"])], "doubler", [x], [y], [two])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (folder / version).mkdir(parents=True)
    onnx.save(model, folder / version / "model.onnx")


APP = """
import numpy as np
import trilith

@trilith.service(replicas=2)
class Doubles:
    at_node = trilith.model("doubler")
    in_replica = trilith.model("doubler", placement="replica")

    @trilith.api
    async def double(self, x: list[float]) -> list[float]:
        return (await self.at_node(np.array([x], np.float32)))[0].tolist()

    @trilith.api
    async def double_here(self, x: list[float]) -> list[float]:
        return (await self.in_replica(np.array([x], np.float32)))[0].tolist()

    @trilith.api
    def double_in_thread(self, x: list[float]) -> list[float]:
        return self.at_node(np.array([x], np.float32))[0].tolist()

    @trilith.api
    async def many(self, rows: int) -> list[float]:
        x = np.arange(4 * rows, dtype=np.float32).reshape(rows, 4)
        here = await self.in_replica(x)
        return [*(await self.at_node(x))[:, 3].tolist(), *here[:, 3].tolist()]

    @trilith.api
    async def wrong(self) -> list[float]:
        return (await self.at_node(np.zeros((1, 5), np.float32)))[0].tolist()
"""


def test_bare_repository_over_both_protocols(serve, tmp_path):
    import tritonclient.grpc
    import tritonclient.http

    write_doubler(tmp_path / "models" / "doubler")
    server = serve(tmp_path / "models")
    assert json.loads(server.get("/readyz")[1])["ready"] is True
    array = np.arange(8, dtype=np.float32).reshape(2, 4)
    for module, port in ((tritonclient.http, server.http), (tritonclient.grpc, server.grpc)):
        with module.InferenceServerClient(f"127.0.0.1:{port}") as client:
            assert client.is_model_ready("doubler")
            given = module.InferInput("x", [2, 4], "FP32")
            given.set_data_from_numpy(array)
            np.testing.assert_array_equal(client.infer("doubler", [given]).as_numpy("y"), 2 * array)
    assert server.terminate() == 0


def test_models_of_a_service_at_the_node_and_in_the_replica(serve, tmp_path):
    write_doubler(tmp_path / "models" / "doubler")
    (tmp_path / "app.py").write_text(APP)
    server = serve(f"{tmp_path}/app.py:Doubles")
    for path in ("/double", "/double_here", "/double_in_thread"):
        assert server.post(path, {"x": [1, 2, 3, 4]}) == (200, [2.0, 4.0, 6.0, 8.0])
    # The model takes 4 rows at once.
    assert server.post("/many", {"rows": 19}) == (200, [2.0 * (4 * row + 3) for row in range(19)] * 2)
    status, body = server.post("/wrong", {})
    assert status in (400, 500)
    assert body["error"]["code"] in ("invalid_input", "service_failed")
    assert [(model["name"], model["state"]) for model in server.status()["models"]] == [("doubler", "READY")]


def test_a_service_is_partly_ready_when_a_model_of_its_own_is_not(serve, tmp_path):
    write_doubler(tmp_path / "models" / "doubler")
    path = tmp_path / "models" / "doubler" / "1" / "model.onnx"
    path.write_bytes(path.read_bytes()[:-20])
    app = APP.replace('    in_replica = trilith.model("doubler", placement="replica")\n', "")
    (tmp_path / "app.py").write_text(app)
    server = serve(f"{tmp_path}/app.py:Doubles")
    line = server.wait_line("ready: http://")
    assert line.startswith("trilith: partly ready: http://")
    assert line.endswith("[Doubles x 2]  not ready: doubler")
    assert server.get("/readyz")[0] == 503


def test_cut_short_model_file_is_named_and_harms_no_other(serve, tmp_path):
    write_doubler(tmp_path / "models" / "good")
    write_doubler(tmp_path / "models" / "short")
    path = tmp_path / "models" / "short" / "1" / "model.onnx"
    path.write_bytes(path.read_bytes()[:-20])
    server = serve(tmp_path / "models")
    server.wait_line("short")
    status, body = server.get("/readyz")
    assert status == 503
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}
    assert server.post("/v2/models/good/infer", body)[1]["outputs"][0]["data"] == [2.0, 4.0, 6.0, 8.0]
    status, answer = server.post("/v2/models/short/infer", body)
    assert status in (400, 404, 503)
    assert "short" in answer["error"]


def test_an_empty_repository_is_no_start(serve, tmp_path):
    (tmp_path / "models").mkdir()
    server = serve(tmp_path / "models", ready=False)
    server.wait_line(f"there is no model in {tmp_path / 'models'}: a model is a folder NAME/VERSION/model.onnx")
    assert server.process.wait(30) == 2


def test_an_empty_repository_that_clients_fill_is_served(serve, tmp_path):
    (tmp_path / "models").mkdir()
    server = serve(tmp_path / "models", "--model-control-mode", "explicit")
    assert server.get("/v2/health/live")[0] == 200
    assert server.post("/v2/models/none/infer", {"inputs": []})[0] in (400, 404)


def test_a_reload_waits_for_the_models_that_it_adds(serve, tmp_path):
    names = [f"model{number}" for number in range(24)]
    for name in ("doubler", *names):
        write_doubler(tmp_path / "models" / name)
    source = tmp_path / "app.py"
    text = (
        "import numpy as np\nimport trilith\n@trilith.service\nclass App:\n{models}"
        "    @trilith.api\n    async def run(self, x: list[float]) -> list[float]:\n"
        "        return (await self.{last}(np.array([x], np.float32)))[0].tolist() + [{mark}]\n"
    )
    source.write_text(text.format(models='    doubler = trilith.model("doubler")\n', last="doubler", mark=1))
    server = serve(f"{source}:App", "--reload")
    assert server.post("/run", {"x": [1, 2, 3, 4]}) == (200, [2, 4, 6, 8, 1])
    server.wait_line("watching")
    models = "".join(f'    {name} = trilith.model("{name}")\n' for name in names)
    source.write_text(text.format(models=models, last=names[-1], mark=2))
    server.wait_until(lambda: server.post("/run", {"x": [1, 2, 3, 4]})[1] == [2, 4, 6, 8, 2])
    assert "cannot" not in server.output, server.output
    loaded = {model["name"] for model in server.status()["models"] if model["state"] == "READY"}
    server.wait_until(lambda: "doubler" not in {m["name"] for m in server.status()["models"] if m["state"] == "READY"})
    assert set(names) <= loaded


def test_a_reload_keeps_the_models_that_are_loaded(serve, tmp_path):
    write_doubler(tmp_path / "models" / "doubler")
    source = tmp_path / "app.py"
    text = (
        "import numpy as np\nimport trilith\n@trilith.service\nclass App:\n    doubler = trilith.model('doubler')\n"
        "    @trilith.api\n    async def run(self, x: list[float]) -> list[float]:\n"
        "        return (await self.doubler(np.array([x], np.float32)))[0].tolist() + [{mark}]\n"
    )
    source.write_text(text.format(mark=1))
    server = serve(f"{source}:App", "--reload")
    server.wait_line("watching")
    for mark in (2, 3):
        source.write_text(text.format(mark=mark))
        server.wait_until(lambda mark=mark: server.post("/run", {"x": [1, 2, 3, 4]})[1] == [2, 4, 6, 8, mark])
    metrics = server.get("/metrics", port=server.metrics)[1].decode()
    assert 'trilith_model_generation{model="doubler",version="1"} 1.0' in metrics


def test_status_and_the_probe_agree_while_the_target_is_imported(serve, tmp_path):
    source, gate = tmp_path / "slow.py", tmp_path / "go"
    source.write_text(
        "import pathlib, time, trilith\n"
        f"while not pathlib.Path({str(gate)!r}).exists():\n    time.sleep(0.01)\n"
        "@trilith.service\nasync def one() -> int:\n    return 1\n"
    )
    server = serve(f"{source}:one", ready=False)
    server.wait_until(lambda: list(server.runtime_folder.glob("**/*.json")))
    [record] = server.runtime_folder.glob("**/*.json")
    server.metrics = int(json.loads(record.read_text())["metrics"].rsplit(":", 1)[1])
    server.wait_until(lambda: json.loads(server.get("/readyz", port=server.metrics)[1])["problems"] != [])
    assert server.status()["ready"] is False
    gate.touch()
    server.wait_ready()
    assert server.status()["ready"] is True


def test_a_name_that_no_model_has_is_said_once(serve, tmp_path):
    write_doubler(tmp_path / "models" / "doubler")
    source = tmp_path / "app.py"
    source.write_text(APP.replace('trilith.model("doubler")', 'trilith.model("dubler")'))
    server = serve(f"{source}:Doubles", ready=False)
    assert server.process.wait(20) == 1
    server.wait_line("there is no model 'dubler'; looked in")
    assert ["dubler" in line for line in server.lines].count(True) == 1, server.output
    changing = serve(f"{source}:Doubles", "--reload", ready=False)
    changing.wait_line("waiting for a change of its files")
    changing.wait_line("watching")
    source.write_text(APP)
    changing.wait_ready()
    source.write_text(APP.replace('trilith.model("doubler")', 'trilith.model("dobler")'))
    changing.wait_line("there is no model 'dobler'")
    changing.wait_line("the revision before it keeps serving")
    assert changing.post("/double", {"x": [1, 2, 3, 4]}) == (200, [2, 4, 6, 8])
