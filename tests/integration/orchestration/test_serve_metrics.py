"""What /metrics tells against the table in the documentation: nothing is missing there, nothing is invented."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

PAGE = Path(__file__).parents[3] / "docs" / "orchestration.md"
# They come with keys, data logs, traces, and a method that holds its loop.
BESIDE = ("trilith_access_", "trilith_data_log_", "trilith_traces_", "trilith_loop_held_")
CODE = re.compile(r"`([^`]+)`")
APP = """
from collections.abc import AsyncIterator

import numpy as np
import trilith

@trilith.service
class Same:
    model = trilith.model("same")

    @trilith.api
    async def same(self, x: list[float]) -> list[float]:
        return (await self.model(np.array(x, np.float32))).tolist()

    @trilith.api(batch=trilith.Batch())
    async def joined(self, x: list[float]) -> list[float]:
        return x

    @trilith.api
    async def told(self, x: float) -> AsyncIterator[float]:
        yield x
"""
MODEL = """
backend: "identity" max_batch_size: 0
input { name: "INPUT0" data_type: TYPE_FP32 dims: [-1] } output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [-1] }
"""


def documented():
    """Labels of each metric in the table, and what it says a `phase` or an `outcome` of a model may be."""
    labels, values = {}, {}
    table = PAGE.read_text().split("| metric | labels | |")[1].split("\n\n")[0]
    for line in table.splitlines()[2:]:
        names, label_cell, text = (cell.strip() for cell in line.strip("|").split("|"))
        for name in CODE.findall(names):
            labels[name] = set(label_cell.split(", ")) - {""}
            if "phase" in labels[name] or name == "trilith_model_requests_total":
                values[name] = set(CODE.findall(text))
    return labels, values


def scraped(text):
    """The same of a scrape. A family without samples has no labels to compare: None."""
    labels, values = {}, {}
    for family in text_string_to_metric_families(text):
        name = family.name
        if family.type == "counter" and not name.startswith("nv_"):  # Triton's names have no suffix
            name += "_total"
        labels[name] = None
        for sample in family.samples:
            labels[name] = set(sample.labels) - {"le"}
            values.setdefault(name, set()).add(sample.labels.get("phase") or sample.labels.get("outcome"))
    return labels, values


def test_metrics_are_those_of_the_documentation(serve, tmp_path):
    (tmp_path / "models" / "same" / "1").mkdir(parents=True)
    (tmp_path / "models" / "same" / "config.pbtxt").write_text(MODEL)
    (tmp_path / "app.py").write_text(APP)
    server = serve(f"{tmp_path}/app.py:Same")
    assert server.post("/same", {"x": [1, 2]}) == (200, [1.0, 2.0])
    assert server.post("/joined", {"x": 1}) == (200, 1.0)
    assert server.post("/told", {"x": 1}) == (200, b"data: 1.0\n\n")
    assert server.get("/nothing")[0] == 404
    with socket.create_connection(("127.0.0.1", server.http), timeout=10) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")  # no Host
        assert client.recv(4096).startswith(b"HTTP/1.1 400")
    infer_over_grpc(server.grpc)
    text = server.get("/metrics", port=server.metrics)[1].decode()
    page_labels, page_values = documented()
    labels, values = scraped(text)
    assert labels == {name: of for name, of in page_labels.items() if not name.startswith(BESIDE)}
    assert {name: values[name] for name in page_values} == page_values


def infer_over_grpc(port):
    import tritonclient.grpc

    with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{port}") as client:
        given = tritonclient.grpc.InferInput("INPUT0", [2], "FP32")
        given.set_data_from_numpy(np.ones(2, np.float32))
        assert client.infer("same", [given]).as_numpy("OUTPUT0").tolist() == [1.0, 1.0]
