"""NVIDIA's own `perf_analyzer`, unchanged, against `python -m trilith serve`: what it measures and what it is told."""

import re
import subprocess
import sys
import threading

import pytest
from oip_server import write_models
from perf_analyzer_binary import PerfAnalyzer, Unavailable

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]

WINDOW = ["--measurement-mode", "count_windows", "--measurement-request-count", "50", "--measurement-interval", "200"]
# One busy machine is enough to make its figures differ: a run ends with the third window, whatever they are.
ANY_SPREAD = ["--stability-percentage", "100000"]
BREAKDOWN = re.compile(
    r"Avg request latency: (\d+) usec \(overhead (\d+) usec \+ queue (\d+) usec"
    r" \+ compute input (\d+) usec \+ compute infer (\d+) usec \+ compute output (\d+) usec\)"
)


@pytest.fixture(scope="module")
def perf_analyzer(request):
    try:
        return PerfAnalyzer(request.config.cache.mkdir("perf_analyzer"))
    except Unavailable as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def served(perf_analyzer, tmp_path_factory):
    """Addresses of `trilith serve`, by protocol."""
    root = tmp_path_factory.mktemp("models")
    write_models(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
        yield from _serving(root)


def _serving(root):
    ports = ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "trilith", "serve", str(root), *ports],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said, told = [], threading.Event()

    def read():
        for line in process.stdout:
            said.append(line)
            if "ready: " in line:
                told.set()
        told.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        assert told.wait(60), "".join(said)
        found = re.search(r"ready: http://(\S+).* gRPC (\S+)\s+metrics http://(\S+)", "".join(said))
        assert found, "".join(said)
        yield dict(zip(("http", "grpc", "metrics"), found.groups(), strict=True))
    finally:
        process.terminate()
        status = process.wait(30)
        reader.join()
        process.stdout.close()
    assert status == 0, "".join(said)


class Report:
    """What one run printed."""

    def __init__(self, done):
        self.text = done.stdout
        assert done.returncode == 0, self.text
        for sign in ("rror", "Failed", "failed", "Thread ["):
            assert sign not in self.text, self.text
        client, self.server = self.text.split("  Server:", 1)
        self.requests = self._number(r"Request count: (\d+)", client)
        self.throughput = self._number(r"Throughput: ([\d.]+) infer/sec", client)
        self.inferences = self._number(r"Inference count: (\d+)", self.server)
        self.executions = self._number(r"Execution count: (\d+)", self.server)

    def _number(self, pattern, text):
        found = re.search(pattern, text)
        assert found, self.text
        return float(found[1])


@pytest.fixture
def measure(perf_analyzer, served):
    def run(protocol, model, *options):
        target = ["-m", model, "-i", protocol, "-u", served[protocol]]
        report = Report(perf_analyzer.run(*target, *WINDOW, *ANY_SPREAD, *options, within_s=90))
        assert report.throughput > 0, report.text
        assert report.requests > 0, report.text
        assert report.inferences > 0, report.text
        return report

    return run


BOTH = pytest.mark.parametrize("protocol", ["http", "grpc"])


@BOTH
def test_a_model_and_the_breakdown_of_its_time(measure, protocol):
    report = measure(protocol, "affine")
    breakdown = BREAKDOWN.search(report.server)
    assert breakdown, report.text
    total, *parts = map(int, breakdown.groups())
    _overhead, queue, _compute_input, infer, _compute_output = parts
    assert queue > 0, report.text
    assert infer > 0, report.text
    assert abs(total - sum(parts)) <= len(parts), report.text


@BOTH
def test_many_asynchronous_requests_share_executions(measure, protocol):
    report = measure(protocol, "affine", "-b", "2", "--concurrency-range", "8", "--async")
    assert report.executions < report.inferences / 2, report.text


@BOTH
def test_a_rate_of_requests(measure, protocol):
    report = measure(protocol, "batched", "--request-rate-range", "50")
    assert report.throughput < 100, report.text


def test_strings(measure):
    measure("http", "identity_bytes", "--shape", "INPUT0:3", "--string-length", "20")


def test_compressed_messages(measure):
    measure("grpc", "affine", "--grpc-compression-algorithm", "gzip")
