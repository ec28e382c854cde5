"""`trilith serve s3://bucket/models` against a real server of S3: what is there, what changes, and what goes wrong."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest
from s3_store import Store

IDENTITY = 'backend: "identity" max_batch_size: %d input { name: "x" dims: [ 1 ] } output { name: "y" dims: [ 1 ] }'
BODY = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1]}]}
LARGE = bytes(3 << 20)
POLL = ("--model-control-mode", "poll", "--repository-poll-secs", "0.1")


@pytest.fixture(scope="module")
def store():
    found = Store()
    yield found
    found.close()


@pytest.fixture
def bucket(store, request, tmp_path, monkeypatch):
    """A bucket of the test's own, in which `a` and `b` lie; the servers of the test are told where."""
    name = request.node.name.replace("_", "-").split("[")[0]
    store.files.mkdir(name)
    for variable, value in store.environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("TRILITH_CACHE", str(tmp_path / "cache"))
    written = Bucket(store, f"{name}/models")
    written.write("a")
    written.write("b")
    yield written
    store.relay.cut_after = None
    store.relay.flowing.set()
    store.relay.held.clear()


class Bucket:
    def __init__(self, store, path):
        self.files, self.relay, self.path = store.files, store.relay, path
        self.url = f"s3://{path}"

    def write(self, model, max_batch_size=4, weights=b"w"):
        self.put(f"{model}/config.pbtxt", (IDENTITY % max_batch_size).encode())
        self.put(f"{model}/1/weights.bin", weights)

    def put(self, name, octets):
        self.files.pipe(f"{self.path}/{name}", octets)


def index(server):
    status, entries = server.post("/v2/repository/index", {})
    assert status == 200
    return {entry["name"]: entry.get("state") for entry in entries}


def max_batch_size(server, model):
    return json.loads(server.get(f"/v2/models/{model}/config")[1])["max_batch_size"]


def test_listed_served_and_polled(serve, bucket):
    server = serve(bucket.url, *POLL)
    assert index(server) == {"a": "READY", "b": "READY"}
    assert server.post("/v2/models/a/infer", BODY)[1]["outputs"][0]["data"] == [1.0]
    bucket.write("a", 8)
    bucket.write("c")
    server.wait_until(lambda: index(server).get("c") == "READY" and max_batch_size(server, "a") == 8)
    bucket.files.rm(f"{bucket.path}/b", recursive=True)
    server.wait_until(lambda: index(server)["b"] == "UNAVAILABLE")
    assert server.post("/v2/models/b/infer", BODY)[0] == 404
    assert server.post("/v2/models/a/infer", BODY)[0] == 200


def test_a_broken_object_keeps_what_serves(serve, bucket):
    server = serve(bucket.url, *POLL)
    bucket.put("a/config.pbtxt", b"max_batch_size: \xff\xfe{")
    server.wait_line("config.pbtxt: must be UTF-8 text")
    assert server.post("/v2/models/a/infer", BODY)[0] == 200
    bucket.put("a/config.pbtxt", b"max_batch_size: {")
    server.wait_line("max_batch_size: must be an integer from 0 to 2147483647, got {")
    assert max_batch_size(server, "a") == 4
    bucket.write("a", 2)
    server.wait_until(lambda: max_batch_size(server, "a") == 2)


def test_connections_that_are_cut_leave_nothing_behind(serve, bucket, tmp_path):
    bucket.write("a", weights=LARGE)
    server = serve(bucket.url, "--model-control-mode", "explicit")
    bucket.relay.cut_after = 1 << 20
    status, answer = server.post("/v2/repository/models/a/load", timeout=60.0)
    assert status >= 500
    assert "a/1/weights.bin: cannot be fetched" in answer["error"]
    assert bucket.relay.cuts > 0
    assert not list((tmp_path / "cache").rglob(".fetching-*"))
    assert server.post("/v2/repository/models/b/load")[0] == 200
    bucket.relay.cut_after = None
    assert server.post("/v2/repository/models/a/load", timeout=60.0)[0] == 200
    [weights] = (tmp_path / "cache").rglob("models/a/1/weights.bin")
    assert weights.read_bytes() == LARGE


def test_a_store_that_stops_stops_nothing_else(serve, bucket):
    server = serve(bucket.url, *POLL)
    bucket.relay.flowing.clear()
    bucket.write("a", 8)
    assert bucket.relay.held.wait(20)
    for _ in range(5):
        assert server.post("/v2/models/a/infer", BODY)[0] == 200
        assert index(server) == {"a": "READY", "b": "READY"}
    assert server.get("/v2/health/ready")[0] == 200
    assert max_batch_size(server, "a") == 4
    bucket.relay.flowing.set()
    server.wait_until(lambda: max_batch_size(server, "a") == 8)


def test_a_disk_that_is_full(serve, bucket, tmp_path):
    """A limit on the size of files stands for it: the same system call fails in the same place."""
    bucket.write("a", weights=LARGE)
    server = serve(bucket.url, "--model-control-mode", "explicit")
    gateway = server.gateway_pid()
    resource.prlimit(gateway, resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
    status, answer = server.post("/v2/repository/models/a/load")
    assert status >= 500
    assert "no room for the models in" in answer["error"]
    assert "TRILITH_CACHE" in answer["error"]
    left = [path for path in Path(tmp_path / "cache").rglob("*") if path.is_file() and path.stat().st_size > 1000]
    assert left == []
    assert server.post("/v2/repository/models/b/load")[0] == 200
    assert server.post("/v2/models/b/infer", BODY)[0] == 200
    resource.prlimit(gateway, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert server.post("/v2/repository/models/a/load")[0] == 200
    assert server.post("/v2/models/a/infer", BODY)[0] == 200


def test_what_is_not_there(serve, bucket):
    server = serve(f"{bucket.url}/nowhere", ready=False)
    server.wait_line("nowhere is not a folder")
    assert server.process.wait(30) != 0
