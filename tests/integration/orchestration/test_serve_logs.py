"""What an operator reads: lines about models, requests and processes."""

import json
import re

import psutil
import pytest

import trilith
from trilith.errors import Unsupported

IDENTITY = 'backend: "identity" max_batch_size: 4 input { name: "x" dims: [ 1 ] } output { name: "y" dims: [ 1 ] }'
BODY = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1]}]}
PYTHON = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        raise RuntimeError("the disk is on fire")

    def finalize(self):
        raise ValueError("not before my coffee")
"""
TIMED = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (DEBUG|INFO|WARNING|ERROR) [\w.]+: ")


def write(root, name, config=IDENTITY, source=""):
    (root / name / "1").mkdir(parents=True, exist_ok=True)
    (root / name / "config.pbtxt").write_text(config)
    if source:
        (root / name / "1" / "model.py").write_text(source)


def failing(root):
    config = IDENTITY.replace("identity", "python") + " instance_group { count: 2 kind: KIND_CPU }"
    write(root, "failing", config.replace("dims: [ 1 ]", "data_type: TYPE_FP32 dims: [ 1 ]"), PYTHON)


def test_each_load_and_failure_is_one_line(serve, tmp_path):
    root = tmp_path / "models"
    write(root, "a")
    failing(root)
    server = serve(root, "--model-control-mode", "explicit", "--load-model", "a")
    server.wait_line("INFO trilith.runtime: model 'a' version 1 is loaded, in ")
    server.post("/v2/repository/models/failing/load")
    server.wait_line("INFO trilith.runtime: model 'failing' version 1 is loaded, in ")
    assert server.post("/v2/models/failing/infer", BODY)[0] == 500
    line = server.wait_line("POST /v2/models/failing/infer 500")
    assert "WARNING trilith.requests: " in line
    assert "RuntimeError: the disk is on fire" in line
    assert server.post("/v2/models/a/infer", {})[0] == 400
    assert "INFO trilith.requests: " in server.wait_line("POST /v2/models/a/infer 400")
    (root / "a" / "config.pbtxt").write_text("nonsense: 1")
    server.post("/v2/repository/models/a/load")
    server.wait_line("ERROR trilith.runtime: model 'a' cannot be loaded again, and serves on as it was, after ")
    [entry] = [entry for entry in server.post("/v2/repository/index")[1] if entry["name"] == "a"]
    assert entry["state"] == "READY"
    assert entry["reason"].startswith("a newer state cannot be loaded, and this one serves on: ")
    assert server.get("/v2/health/ready")[0] == 200
    server.post("/v2/repository/models/failing/unload")
    server.wait_line("INFO trilith.runtime: model 'failing' is unloaded (version 1), in ")
    assert "model 'failing': instance failing_0_0" in server.wait_line("`finalize` raised")
    assert server.terminate() == 0
    ready = next(at for at, line in enumerate(server.lines) if "ready: " in line)
    assert server.lines[ready].startswith("trilith: ready: http://")
    for line in server.lines[ready + 1 :]:
        assert TIMED.match(line) or line.startswith("  "), line


def test_an_instance_is_known_by_its_process(serve, tmp_path):
    failing(tmp_path / "models")
    server = serve(tmp_path / "models")
    [model] = server.status()["models"]
    assert len(set(model["processes"])) == 2
    shown = [" ".join(psutil.Process(pid).cmdline()) for pid in model["processes"]]
    assert ["failing_0_0" in shown[0], "failing_0_1" in shown[1]] == [True, True]
    assert str(tmp_path / "models") in " ".join(psutil.Process(server.gateway_pid()).cmdline())


def test_json_lines_are_objects_from_first_to_last(serve, tmp_path):
    write(tmp_path / "models", "a")
    write(tmp_path / "models", "bad", "nonsense: 1")
    server = serve(tmp_path / "models", "--log-format", "json", "--log-level", "debug")
    assert server.post("/v2/models/a/infer", {})[0] == 400
    server.wait_line("POST /v2/models/a/infer 400")
    assert server.terminate() == 0
    found = [json.loads(line) for line in server.lines]
    assert {"time", "level", "logger", "text"} <= set(found[0])
    assert sum("bad" in entry["text"] and "nonsense" in entry["text"] for entry in found) == 1


def test_what_is_below_the_level_is_not_written(serve, tmp_path):
    write(tmp_path / "models", "a")
    server = serve(tmp_path / "models", "--log-level", "error")
    assert server.post("/v2/models/a/infer", {})[0] == 400
    assert server.terminate() == 0
    assert [line for line in server.lines if "trilith.re" in line or "trilith.ru" in line] == []


def test_a_flood_of_bad_requests_is_a_few_lines(serve, tmp_path):
    write(tmp_path / "models", "a")
    server = serve(tmp_path / "models")
    with server.connection() as connection:
        for _ in range(300):
            connection.request("POST", "/v2/models/a/infer", b"{}")
            assert connection.getresponse().read()
    assert 20 <= sum(" 400: " in line for line in server.lines) < 150


def test_a_new_model_that_is_bad_has_not_changed(serve, tmp_path):
    write(tmp_path / "models", "a")
    server = serve(tmp_path / "models", "--model-control-mode", "poll", "--repository-poll-secs", "0.05")
    write(tmp_path / "models", "bad", "nonsense: 1")
    server.wait_line("ERROR trilith.runtime: model 'bad' is unavailable, after ")
    assert "changed" not in server.output
    (tmp_path / "models" / "a" / "config.pbtxt").write_text("nonsense: 2")
    server.wait_line("ERROR trilith.runtime: model 'a' cannot be loaded again")
    [model] = [model for model in server.status()["models"] if model["name"] == "a"]
    assert model["state"] == "READY"
    assert "a newer state cannot be loaded" in model["reason"]
    assert server.get("/v2/health/ready")[0] == 200
    write(tmp_path / "models", "a", IDENTITY + " version_policy: { all: {} }")
    server.wait_until(lambda: [m["reason"] for m in server.status()["models"] if m["name"] == "a"] == [""])


def test_what_dies_or_cannot_start_is_an_error_in_the_log(serve, tmp_path):
    (tmp_path / "app.py").write_text("import trilith\n\n\nraise ValueError('no')\n")
    server = serve(f"{tmp_path}/app.py:Work", "--log-format", "json", ready=False)
    assert server.process.wait(40) == 1
    told = [json.loads(line) for line in server.lines if line.startswith("{")]
    [failed] = [line for line in told if "ValueError: no" in line["text"]]
    assert (failed["level"], failed["logger"]) == ("ERROR", "trilith")
    assert failed["traceback"].startswith("Traceback")
    assert "\n" not in failed["text"]


def test_a_server_of_models_alone_says_how_it_is_asked(serve, tmp_path):
    write(tmp_path / "models", "a")
    server = serve(tmp_path / "models")
    for port, says in ((server.http, "there is no service here; models are at /v2"), (server.metrics, "/status")):
        with pytest.raises(Unsupported, match=rf"is Trilith and has no service: .*{says}.* by tritonclient"):
            trilith.client(f"http://127.0.0.1:{port}")
