"""`trilith serve models/` with each way of deciding what is loaded."""

import json
import re

import pytest

IDENTITY = 'backend: "identity" max_batch_size: 4 input { name: "x" dims: [ 1 ] } output { name: "y" dims: [ 1 ] }'
BODY = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1]}]}


def write(root, name, config=IDENTITY):
    (root / name).mkdir(parents=True, exist_ok=True)
    (root / name / "config.pbtxt").write_text(config)


def index(server, body=None):
    status, entries = server.post("/v2/repository/index", body or {})
    assert status == 200
    return {entry["name"]: entry.get("state") for entry in entries}


def test_explicit(serve, tmp_path):
    for name in ("a", "b"):
        write(tmp_path / "models", name)
    write(tmp_path / "more", "c")
    server = serve(
        tmp_path / "models",
        *("--model-control-mode", "explicit", "--load-model", "b", "--model-repository", str(tmp_path / "more")),
    )
    assert index(server) == {"a": None, "b": "READY", "c": None}
    assert server.post("/v2/models/a/infer", BODY)[0] == 404
    assert server.post("/v2/repository/models/c/load")[0] == 200
    assert server.post("/v2/models/c/infer", BODY)[1]["outputs"][0]["data"] == [1.0]
    config = {"parameters": {"config": json.dumps({"max_batch_size": 2})}}
    assert server.post("/v2/repository/models/c/load", config)[0] == 200
    assert json.loads(server.get("/v2/models/c/config")[1])["max_batch_size"] == 2
    assert server.post("/v2/repository/models/b/unload")[0] == 200
    assert index(server, {"ready": True}) == {"c": "READY"}
    assert server.get("/v2/health/ready")[0] == 200
    status, answer = server.post("/v2/repository/models/nope/load")
    assert status == 500
    assert "failed to load 'nope', failed to poll from model repository" in answer["error"]


def test_poll(serve, tmp_path):
    write(tmp_path / "models", "a")
    server = serve(tmp_path / "models", "--model-control-mode", "poll", "--repository-poll-secs", "0.05")
    status, answer = server.post("/v2/repository/models/a/unload")
    assert (status, answer["code"]) == (501, "unsupported")
    assert "explicit model load / unload is not allowed if polling is enabled" in answer["error"]
    write(tmp_path / "models", "b")
    server.wait_until(lambda: index(server) == {"a": "READY", "b": "READY"})
    (tmp_path / "models" / "a" / "config.pbtxt").unlink()
    (tmp_path / "models" / "a").rmdir()
    server.wait_until(lambda: index(server) == {"a": "UNAVAILABLE", "b": "READY"})
    assert server.get("/v2/health/ready")[0] == 200


def test_what_is_not_ready_is_said(serve, tmp_path):
    write(tmp_path / "models", "good")
    write(tmp_path / "models", "bad", "nonsense: 1")
    server = serve(tmp_path / "models")
    line = server.wait_line("ready: http://")
    assert line.startswith("trilith: partly ready: http://")
    assert line.endswith("not ready: bad")
    assert "loading models" not in server.output


def test_options_that_contradict_each_other(serve, tmp_path):
    write(tmp_path / "models", "a")
    for arguments, says in [
        (("--load-model", "a"), "--load-model needs --model-control-mode explicit"),
        (("--repository-poll-secs", "0"), "--repository-poll-secs must be at least 0.001"),
        (("--max-loaded-models", "2"), "--max-loaded-models 2 needs --load-on-demand"),
        (("--load-on-demand", "--model-control-mode", "poll"), "--load-on-demand needs --model-control-mode none"),
        (("--model-load-timeout-s", "-1"), "--model-load-timeout-s must be at least 0"),
        (("--model-repository", tmp_path / "nope"), "there is no such folder"),
        (("--model-control-mode", "explicit", "--load-model", "b"), "model 'b' is in none of the repositories"),
    ]:
        server = serve(tmp_path / "models", *map(str, arguments), ready=False)
        server.wait_line(says)


def test_a_repository_behind_a_url(serve, tmp_path, monkeypatch):
    pytest.importorskip("fsspec")
    monkeypatch.setenv("TRILITH_CACHE", str(tmp_path / "cache"))
    write(tmp_path / "models", "a")
    server = serve(f"file://{tmp_path}/models")
    assert server.post("/v2/models/a/infer", BODY)[1]["outputs"][0]["data"] == [1.0]


def test_a_python_model_that_hangs_while_it_loads_holds_up_nothing(serve, tmp_path):
    write(tmp_path / "models", "good")
    for name in ("one", "two"):
        (tmp_path / "models" / name / "1").mkdir(parents=True)
        (tmp_path / "models" / name / "1" / "model.py").write_text("import threading\nthreading.Event().wait()\n")
    options = ("--model-load-timeout-s", "1", "--model-load-thread-count", "1")
    server = serve(tmp_path / "models", *options)
    assert server.post("/v2/models/good/infer", BODY)[0] == 200
    assert index(server) == {"good": "READY", "one": "UNAVAILABLE", "two": "UNAVAILABLE"}
    assert re.search("'one': version 1 is at UNAVAILABLE state: gave up loading after ", server.output)


def test_a_server_that_ends_when_a_model_cannot_be_loaded(serve, tmp_path):
    write(tmp_path / "models", "good")
    write(tmp_path / "models", "bad", "nonsense: 1")
    server = serve(tmp_path / "models", "--exit-on-error", ready=False)
    line = server.wait_line("--exit-on-error, and a model cannot be loaded: bad: ")
    assert "nonsense" in line
    assert server.process.wait(20) == 1


def test_a_server_that_is_ready_without_all_its_models(serve, tmp_path):
    write(tmp_path / "models", "good")
    write(tmp_path / "models", "bad", "nonsense: 1")
    (tmp_path / "models" / "good" / "configs").mkdir()
    (tmp_path / "models" / "good" / "configs" / "four.pbtxt").write_text(IDENTITY.replace("dims: [ 1 ]", "dims: [ 4 ]"))
    options = ("--no-strict-readiness", "--model-config-name", "four", "--model-load-retry-count", "2")
    server = serve(tmp_path / "models", *options)
    assert server.get("/v2/health/ready")[0] == 200
    assert index(server) == {"good": "READY", "bad": "UNAVAILABLE"}
    assert json.loads(server.get("/v2/models/good")[1])["inputs"][0]["shape"] == [-1, 4]


def test_models_that_are_loaded_on_demand(serve, tmp_path):
    for name in "abc":
        write(tmp_path / "models", name)
    options = ("--load-on-demand", "--max-loaded-models", "1", "--load-model", "c")
    server = serve(tmp_path / "models", *options)
    assert index(server) == {"a": None, "b": None, "c": "READY"}
    assert server.get("/v2/health/ready")[0] == 200
    for name in "ab":
        assert server.post(f"/v2/models/{name}/infer", BODY)[1]["outputs"][0]["data"] == [1.0]
    assert index(server) == {"a": "UNAVAILABLE", "b": "READY", "c": "READY"}
    assert server.post("/v2/repository/models/a/load")[0] == 501


def test_an_empty_repository_of_models_on_demand_is_no_mistake(serve, tmp_path):
    (tmp_path / "models").mkdir()
    server = serve(tmp_path / "models", "--load-on-demand")
    assert server.post("/v2/models/a/infer", BODY)[0] == 404
    write(tmp_path / "models", "a")
    assert server.post("/v2/models/a/infer", BODY)[0] == 200
