"""What clients loaded and unloaded outlives the death of the gateway."""

import base64
import json
import os
import signal
from pathlib import Path

from onnx import TensorProto, helper

IDENTITY = 'backend: "identity" max_batch_size: 4 input { name: "x" dims: [ 1 ] } output { name: "y" dims: [ 1 ] }'
BODY = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1]}]}


def write(root, name):
    (root / name).mkdir(parents=True)
    (root / name / "config.pbtxt").write_text(IDENTITY)


def adding(number):
    value = helper.make_tensor("n", TensorProto.FLOAT, [1], [number])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["b", 1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "n"], ["y"])], "g", [x], [y], [value])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


def load(server, name, **parameters):
    status, answer = server.post(f"/v2/repository/models/{name}/load", {"parameters": parameters})
    assert status == 200, answer


def kill_gateway(server):
    pid = server.gateway_pid()
    os.kill(pid, signal.SIGKILL)
    server.wait_line("the gateway ended (killed by SIGKILL)")
    server.wait_until(lambda: ready(server))


def ready(server):
    try:
        return server.get("/v2/health/ready")[0] == 200
    except OSError:  # the gateway that died held the connection
        return False


def infer(server, name):
    status, answer = server.post(f"/v2/models/{name}/infer", BODY)
    return answer["outputs"][0]["data"] if status == 200 else status


def test_a_new_gateway_loads_what_clients_had_loaded(serve, tmp_path):
    for name in ("kept", "plain", "dropped", "never"):
        write(tmp_path / "models", name)
    server = serve(
        tmp_path / "models",
        *("--model-control-mode", "explicit", "--load-model", "kept", "--load-model", "dropped"),
    )
    load(server, "plain", config=json.dumps({"max_batch_size": 2}))
    content = base64.b64encode(adding(5)).decode()
    load(server, "sent", config=json.dumps({"backend": "onnxruntime"}), **{"file:1/model.onnx": content})
    load(server, "never")
    assert server.post("/v2/repository/models/dropped/unload")[0] == 200
    assert server.post("/v2/repository/models/never/unload")[0] == 200
    for _ in range(2):  # what a gateway was told by the one before it, it tells the next
        kill_gateway(server)
        assert [infer(server, name) for name in ("kept", "plain", "sent")] == [[1.0], [1.0], [6.0]]
        assert [infer(server, name) for name in ("dropped", "never")] == [404, 404]
        assert json.loads(server.get("/v2/models/plain/config")[1])["max_batch_size"] == 2
    load(server, "dropped")
    assert server.post("/v2/repository/models/sent/unload")[0] == 200
    kill_gateway(server)
    assert [infer(server, name) for name in ("dropped", "sent")] == [[1.0], 404]


def test_what_cannot_be_loaded_again_keeps_the_server_from_being_ready_and_says_why(serve, tmp_path):
    write(tmp_path / "models", "good")
    write(tmp_path / "models", "gone")
    server = serve(tmp_path / "models", "--model-control-mode", "explicit")
    load(server, "good")
    load(server, "gone")
    Path(tmp_path / "models" / "gone" / "config.pbtxt").write_text("nonsense: 1")
    os.kill(server.gateway_pid(), signal.SIGKILL)
    server.wait_line("model 'gone' is unavailable")
    server.wait_until(lambda: infer(server, "good") == [1.0])
    assert not ready(server)
    entries = {entry["name"]: entry for entry in server.post("/v2/repository/index")[1]}
    assert "nonsense" in entries["gone"]["reason"]
    assert server.post("/v2/repository/models/gone/unload")[0] == 200
    assert ready(server)


def test_nothing_that_clients_sent_is_left_when_the_server_ends(serve, tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "models").mkdir()
    server = serve(tmp_path / "models", "--model-control-mode", "explicit")
    content = base64.b64encode(adding(5)).decode()
    load(server, "sent", config=json.dumps({"backend": "onnxruntime"}), **{"file:1/model.onnx": content})
    assert list((tmp_path / "temporary").rglob("model.onnx"))
    kill_gateway(server)
    assert server.terminate() == 0
    assert not list((tmp_path / "temporary").rglob("model.onnx"))
