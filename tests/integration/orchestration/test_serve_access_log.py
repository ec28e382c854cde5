"""`--access-log`: each answered request is a line, over HTTP and gRPC."""

import http.client
import json

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

APP = """
from collections.abc import AsyncIterator

import trilith


@trilith.service
class Desk:
    @trilith.api
    def greet(self, name: str) -> str:
        return f"hello {name}"

    @trilith.api
    async def count(self, to: int) -> AsyncIterator[int]:
        for number in range(to):
            yield number

    @trilith.api
    async def breaks(self) -> AsyncIterator[bytes]:
        yield b"some"
        raise ValueError("midway")
"""


def lines(server):
    found = [json.loads(line) for line in list(server.lines) if line.startswith("{")]
    return [line for line in found if line["logger"] == "trilith.access"]


def test_each_request_is_a_line(serve, tmp_path):
    (tmp_path / "desk.py").write_text(APP)
    server = serve(
        f"{tmp_path}/desk.py:Desk", "--access-log", "--log-format", "json", "--log-level", "warning", ready=False
    )
    server.wait_line("ready: ")
    server.wait_ready()
    assert server.post("/greet", {"name": "Ann"}, headers={"x-request-id": "r-1"})[0] == 200
    assert server.post("/nothing")[0] == 404
    assert server.post("/count", {"to": 3})[0] == 200
    with server.connection() as connection:
        connection.request("POST", "/breaks", b"{}", {"content-type": "application/json"})
        with pytest.raises((OSError, http.client.HTTPException)):
            connection.getresponse().read()
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=20)
    server.wait_until(lambda: len(lines(server)) >= 5)
    found = {line["path"]: line for line in lines(server)}
    assert found["/greet"]["request_id"] == "r-1"
    assert (found["/greet"]["status"], found["/greet"]["size_bytes"]) == (200, len('"hello Ann"'))
    assert found["/greet"]["client"].startswith("127.0.0.1:")
    assert found["/nothing"]["status"] == 404
    assert found["/count"]["status"] == 200
    assert found["/breaks"]["whole"] is False
    assert found["/grpc.health.v1.Health/Check"]["status"] == "OK"


def test_without_it_there_is_none(serve, tmp_path):
    (tmp_path / "desk.py").write_text(APP)
    server = serve(f"{tmp_path}/desk.py:Desk")
    assert server.post("/greet", {"name": "Ann"})[0] == 200
    assert server.terminate() == 0
    assert "trilith.access" not in server.output
