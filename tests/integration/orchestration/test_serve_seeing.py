"""What a program counts and keeps, over processes that come and go."""

import json
import os
import signal

import pytest

APP = """
import os

import trilith

made = trilith.counter("seen_made_total", "Instances made.")
shared = trilith.counter("seen_calls_total", "Calls.", ["who"])
level = trilith.gauge("seen_level", "Level.", ["who"])
sizes = trilith.histogram("seen_sizes", "Sizes.", bounds=[1, 10])


@trilith.service(replicas=2)
class Inner:
    @trilith.api
    def count(self, size: float) -> int:
        shared.add(who="inner")
        sizes.observe(size)
        return os.getpid()


@trilith.service
class Outer:
    inner = trilith.depends(Inner)

    def __init__(self):
        made.add()
        level.set(7, who="outer")

    @trilith.api
    async def count(self, size: float) -> int:
        shared.add(2, who="outer")
        trilith.log("sized", size=size)
        trilith.log("rare", size=size)
        return await self.inner.count(size)
"""


@pytest.fixture
def start(serve, tmp_path):
    (tmp_path / "seen.py").write_text(APP)
    return lambda *options: serve(f"{tmp_path}/seen.py:Outer", *options)


def metrics(server):
    text = server.get("/metrics", port=server.metrics)[1].decode()
    found = {}
    for line in text.splitlines():
        if line.startswith("seen_"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


def test_sums_outlive_replicas_and_gauges_do_not(start):
    server = start()
    for size in (0.5, 5, 50, 5):
        assert server.post("/count", {"size": size})[0] == 200
    expected = {
        'seen_calls_total{who="inner"}': 4.0,
        'seen_calls_total{who="outer"}': 8.0,
        'seen_sizes_bucket{le="1.0"}': 1.0,
        'seen_sizes_bucket{le="10.0"}': 3.0,
        'seen_sizes_bucket{le="+Inf"}': 4.0,
        "seen_sizes_count": 4.0,
        "seen_sizes_sum": 60.5,
        "seen_made_total": 1.0,
    }
    server.wait_until(lambda: expected.items() <= metrics(server).items())
    [gauge] = [name for name in metrics(server) if name.startswith("seen_level")]
    [outer] = server.replica_pids("Outer")
    for process_id in (outer, *server.replica_pids("Inner")):
        os.kill(process_id, signal.SIGKILL)
    expected["seen_made_total"] = 2.0
    server.wait_until(lambda: expected.items() <= metrics(server).items())
    after = [name for name in metrics(server) if name.startswith("seen_level")]
    assert len(after) == 1
    assert after != [gauge]  # of another replica


def test_a_new_gateway_is_told_the_gauges(start):
    server = start()
    server.wait_until(lambda: any(name.startswith("seen_level") for name in metrics(server)))
    os.kill(server.gateway_pid(), signal.SIGKILL)
    server.wait_line("starting another")
    server.wait_until(lambda: server.post("/count", {"size": 1})[0] == 200)
    server.wait_until(lambda: any(name.startswith("seen_level") for name in metrics(server)))
    server.wait_until(lambda: metrics(server).get('seen_calls_total{who="outer"}', 0) >= 2)


def lines(folder):
    return [json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]


def test_data_of_requests_is_kept_when_the_server_ends_too(start, tmp_path):
    server = start("--data-log", str(tmp_path / "data"), "--data-log-sample", "rare=0")
    for size in (1.5, 2.5):
        server.post("/count", {"size": size}, headers={"x-request-id": f"r{size}"})
    assert server.terminate() == 0
    found = lines(tmp_path / "data")
    assert {(line["name"], line["values"]["size"], line["method"]) for line in found} == {
        ("sized", 1.5, "Outer.count"),
        ("sized", 2.5, "Outer.count"),
    }
    assert all(line["request_id"] for line in found)
