"""Traces reach a collector, over processes and protocols, and no call waits for it."""

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import numpy as np
import pytest
import tritonclient.grpc
from websockets.sync.client import connect

APP = """
from collections.abc import AsyncIterator

import trilith
from trilith.errors import QueueFull


@trilith.service
class Inner:
    @trilith.api
    async def double(self, number: int) -> int:
        return 2 * number

    @trilith.api
    async def numbers(self, to: int) -> AsyncIterator[int]:
        for number in range(to):
            yield number


@trilith.service
class Outer:
    inner = trilith.depends(Inner)

    @trilith.api
    async def work(self, number: int) -> str:
        await self.inner.double(number)
        return trilith.context().headers.get("traceparent", "none")

    @trilith.api
    async def refuse(self) -> None:
        raise QueueFull("no room for this")

    @trilith.api
    async def count(self, to: int) -> AsyncIterator[int]:
        for number in range(to):
            yield await self.inner.double(number)

    @trilith.api
    async def counts(self, to: int) -> AsyncIterator[int]:
        async for number in self.inner.numbers(to):
            yield number
"""


MOUNTED = """
import trilith


async def page(scope, receive, send):
    seen = dict(scope["headers"]).get(b"traceparent", b"none")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": seen + b" " + trilith.context().headers["traceparent"].encode()})


@trilith.service
class Site:
    ui = trilith.mount("/ui", page)
"""


class Collector:
    """Takes traces."""

    def __init__(self):
        collector = self
        self.spans = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                assert self.path == "/v1/traces"
                for resource in body["resourceSpans"]:
                    collector.spans += resource["scopeSpans"][0]["spans"]
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def named(self, name):
        return [span for span in self.spans if span["name"] == name]


@pytest.fixture
def collector():
    found = Collector()
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.fixture
def start(serve, tmp_path):
    (tmp_path / "traced.py").write_text(APP)
    return lambda *options: serve(f"{tmp_path}/traced.py:Outer", *options)


TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def test_a_trace_goes_through_all_processes(start, collector):
    server = start("--otlp-endpoint", collector.url, "--trace-sample", "0")
    given = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    with server.connection() as connection:
        connection.request("POST", "/work", b'{"number": 1}', {"content-type": "application/json", **given})
        response = connection.getresponse()
        seen = json.loads(response.read())
    assert seen.split("-")[1] == TRACE
    assert response.headers["traceresponse"].split("-")[1] == TRACE
    assert "trilith-timeline" not in response.headers
    server.wait_until(lambda: len(collector.spans) >= 5)
    by_id = {span["spanId"]: span for span in collector.spans}
    assert {span["traceId"] for span in collector.spans} == {TRACE}
    [root] = [span for span in collector.spans if span.get("parentSpanId") == PARENT]
    assert by_id[seen.split("-")[2]]["parentSpanId"] == root["spanId"]
    for span in collector.named("Inner.double"):
        assert "Outer.work" in names_above(span, by_id)


def names_above(span, by_id):
    names = []
    while span.get("parentSpanId") in by_id:
        span = by_id[span["parentSpanId"]]
        names.append(span["name"])
    return names


def test_a_trace_of_a_stream_goes_through_all_processes(start, collector):
    server = start("--otlp-endpoint", collector.url, "--trace-sample", "1")
    for way, inner in (("count", "Inner.double"), ("counts", "Inner.numbers")):
        for protocol in ("http", "websocket", "grpc"):
            collector.spans.clear()
            if protocol == "http":
                assert server.post(f"/{way}", {"to": 2})[0] == 200
            elif protocol == "websocket":
                with connect(f"ws://127.0.0.1:{server.http}/{way}?to=2") as client:
                    assert len(list(client)) == 2
            else:
                with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
                    method = channel.unary_stream(f"/outer.Outer/{way.title()}")
                    assert len(list(method(b"\x08\x02", timeout=30))) == 2
            server.wait_until(lambda name=inner: collector.named(name), within_s=60)
            by_id = {span["spanId"]: span for span in collector.spans}
            for span in collector.named(inner):
                assert f"Outer.{way}" in names_above(span, by_id)


def test_a_mounted_application_is_told_of_the_span_of_its_service(serve, collector, tmp_path):
    (tmp_path / "site.py").write_text(MOUNTED)
    server = serve(f"{tmp_path}/site.py:Site", "--otlp-endpoint", collector.url)
    with server.connection() as connection:
        sent = f"00-{TRACE}-{PARENT}-01"
        connection.request("GET", "/ui/", headers={"traceparent": sent})
        seen, in_context = connection.getresponse().read().decode().split()
    assert seen == in_context != sent
    assert seen.split("-")[1] == TRACE


def test_failures_streams_and_what_is_not_sampled(start, collector):
    server = start("--otlp-endpoint", collector.url, "--trace-sample", "1")
    unsampled = {"traceparent": f"00-{TRACE}-{PARENT}-00"}
    assert server.post("/work", {"number": 1}, headers=unsampled)[1] == unsampled["traceparent"]
    assert server.post("/refuse")[0] == 429
    assert server.post("/count", {"to": 2})[0] == 200
    server.wait_until(lambda: collector.named("Outer.refuse") and collector.named("Outer.count"))
    assert collector.named("Outer.refuse")[0]["status"] == {"code": 2, "message": "no room for this"}
    assert not collector.named("Outer.work")
    server.wait_until(
        lambda: b'trilith_traces_total{outcome="sent"} 2.0' in server.get("/metrics", port=server.metrics)[1]
    )


def test_who_asks_for_the_timeline_gets_it_too(start, collector):
    server = start("--otlp-endpoint", collector.url)
    with server.connection() as connection:
        headers = {"content-type": "application/json", "trilith-timeline": "1"}
        connection.request("POST", "/work", b'{"number": 1}', headers)
        response = connection.getresponse()
        response.read()
    assert "trilith-timeline" in response.headers
    server.wait_until(lambda: collector.named("Outer.work"))


def test_a_collector_that_is_not_there_costs_its_traces_alone(start):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        server = start("--otlp-endpoint", f"http://127.0.0.1:{nobody.getsockname()[1]}")
        for _ in range(3):
            assert server.post("/work", {"number": 1})[0] == 200
        server.wait_until(
            lambda: b'trilith_traces_total{outcome="dropped"} 3.0' in server.get("/metrics", port=server.metrics)[1]
        )
        server.wait_line("traces could not be sent to")
        assert server.terminate() == 0


def test_without_a_collector_headers_are_as_they_came(start):
    server = start()
    given = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    assert server.post("/work", {"number": 1}, headers=given) == (200, given["traceparent"])


MODEL = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "x", "data_type": "TYPE_FP32", "dims": [-1]})
        config.add_output({"name": "y", "data_type": "TYPE_FP32", "dims": [-1]})
        return config

    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("y", pb_utils.get_input_tensor_by_name(r, "x").as_numpy())])
            for r in requests
        ]
"""


def test_requests_to_models_are_traced_over_both_protocols(serve, collector, tmp_path):
    folder = tmp_path / "models" / "same" / "1"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(MODEL)
    server = serve(tmp_path / "models", "--otlp-endpoint", collector.url, "--trace-sample", "0")
    parent = f"00-{TRACE}-{PARENT}-01"
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1.0]}]}
    assert server.post("/v2/models/same/infer", body)[0] == 200
    assert server.post("/v2/models/same/infer", body, headers={"traceparent": parent})[0] == 200
    assert server.post("/v2/models/none/infer", body, headers={"traceparent": parent})[0] == 404
    with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{server.grpc}") as client:
        given = tritonclient.grpc.InferInput("x", [1], "FP32")
        given.set_data_from_numpy(np.ones(1, np.float32))
        assert client.infer("same", [given], headers={"traceparent": parent}).as_numpy("y").tolist() == [1.0]
    server.wait_until(lambda: len(collector.named("same.infer")) == 2 and collector.named("none.infer"))
    assert {span["traceId"] for span in collector.spans} == {TRACE}
    roots = {span["spanId"]: span for span in collector.spans if span.get("parentSpanId") == PARENT}
    assert sorted(span["name"] for span in roots.values()) == ["none.infer", "same.infer", "same.infer"]
    assert [span["status"]["code"] for span in collector.named("none.infer")] == [2]
    models = collector.named("same")
    assert len(models) == 2
    assert {span["parentSpanId"] for span in models} == {span["spanId"] for span in collector.named("same.infer")}
    assert {"queued", "infer"} <= {event["name"] for event in models[0]["events"]}
