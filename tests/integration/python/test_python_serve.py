"""`python -m trilith serve` with Python models, and tritonclient as its users have it."""

import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request

import numpy as np
import pytest
from python_models import ADD_SUB, ADD_SUB_PBTXT, echo_with, write_model

COUNTING = """
    self.requests = pb_utils.MetricFamily("echo_rows", "Rows that\\nthe echo saw.", pb_utils.MetricFamily.COUNTER)
    self.requests = self.requests.Metric({"model": "echo", "odd": 'say "yes"'})
    self.size = pb_utils.MetricFamily("echo_size", "Largest.", pb_utils.MetricFamily.GAUGE).Metric()
    self.spread = pb_utils.MetricFamily("echo_spread", "Values.", pb_utils.MetricFamily.HISTOGRAM)
    self.spread = self.spread.Metric({"a": "b"}, buckets=[1, 10])
    pb_utils.MetricFamily("trilith_mine", "Not its own.")
    pb_utils.Logger.log_warn("the echo is ready")
"""
RUN = """
    self.requests.increment(len(x))
    self.size.set(5)
    threading.Thread(target=self.size.increment, args=(float(x.max()),)).start()
    self.spread.observe(x[0, 0])
    if x[0, 0] == 99:
        raise pb_utils.TritonModelException("ninety-nine is too many")
    return x
"""


class Served:
    """A server as a process; what it prints is kept."""

    def __init__(self, repository):
        ports = ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "trilith", "serve", str(repository), *ports],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines = []
        self.ready = threading.Event()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            if "ready: " in line:
                self.http, self.grpc, self.metrics = re.search(
                    r"http://\S*:(\d+).* gRPC \S*:(\d+)\s+metrics http://\S*:(\d+)", line
                ).groups()
                self.ready.set()
        self.ready.set()

    def scrape(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=10) as answer:
            return answer.read().decode()

    def scrape_until(self, text):
        ends_at = time.monotonic() + 10
        while text not in (found := self.scrape()):
            assert time.monotonic() < ends_at, found
            time.sleep(0.01)
        return found

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(20) == 0, "".join(self.lines)
        self.reader.join()
        self.process.stdout.close()


@pytest.fixture
def served(repository, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    write_model(repository, "add_sub", ADD_SUB, pbtxt=ADD_SUB_PBTXT)
    write_model(repository, "echo", echo_with(initialize=COUNTING, run=RUN))
    write_model(repository, "unwilling", echo_with(is_ready="return False"))
    server = Served(repository)
    assert server.ready.wait(40)
    assert hasattr(server, "http"), "".join(server.lines)
    yield server
    server.close()


def test_tritonclient_over_http_and_grpc(served):
    import tritonclient.grpc
    import tritonclient.http

    first = np.arange(4, dtype=np.float32)[None]
    for module, port in ((tritonclient.http, served.http), (tritonclient.grpc, served.grpc)):
        with module.InferenceServerClient(f"127.0.0.1:{port}") as client:
            assert client.is_server_ready()
            assert client.is_model_ready("add_sub")
            assert not client.is_model_ready("unwilling")
            assert not client.is_model_ready("nobody")
            inputs = [module.InferInput(name, [1, 4], "FP32") for name in ("INPUT0", "INPUT1")]
            for each in inputs:
                each.set_data_from_numpy(first)
            answer = client.infer("add_sub", inputs, request_id="one")
            np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), first + first)
            np.testing.assert_array_equal(answer.as_numpy("OUTPUT1"), first - first)
            x = module.InferInput("x", [1, 1], "FP32")
            x.set_data_from_numpy(np.array([[99]], np.float32))
            with pytest.raises(module.InferenceServerException, match="ninety-nine is too many"):
                client.infer("echo", [x])
    text = served.scrape_until('echo_rows{model="echo",odd="say \\"yes\\""} 2')
    served.scrape_until("echo_size 104.0")
    assert "# HELP echo_rows Rows that the echo saw." in text
    assert "# TYPE echo_rows counter" in text
    assert 'echo_spread_bucket{a="b",le="10.0"} 0.0' in text
    assert 'echo_spread_count{a="b"} 2.0' in text
    assert 'trilith_model_alive_instances{model="add_sub",version="1"} 2.0' in text
    said = "".join(served.lines)
    assert "the echo is ready" in said
    assert "'trilith_mine' is left out" in said
