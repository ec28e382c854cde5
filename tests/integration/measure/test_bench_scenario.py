import json
import signal
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from trilith.cli.bench import bench
from trilith.errors import InvalidConfig, SetupError

ONE = threading.Lock()


class Answers(BaseHTTPRequestHandler):
    """`/stream` gives three events, `/busy` every second time 503, `/one` takes 20 ms, one at a time; else a body."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.seen.append(self.path)
        if self.path == "/stream":
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for _ in range(3):
                self.wfile.write(b"9\r\ndata: 1\n\n\r\n")
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
            return
        if self.path == "/one":
            with ONE:
                time.sleep(0.02)
        busy = self.path == "/busy" and self.server.seen.count("/busy") % 2
        self.send_response(503 if busy else 404 if self.path == "/openapi.json" else 200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    do_POST = do_GET

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except ConnectionError:  # the generator drops its connections when it is done
            self.close_connection = True

    def log_message(self, *_):
        pass


class Quiet(ThreadingHTTPServer):
    daemon_threads = True
    seen = ()

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


@pytest.fixture
def server():
    with Quiet(("127.0.0.1", 0), Answers) as server:
        server.seen = []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)


def scenario(tmp_path, text):
    path = tmp_path / "load.yaml"
    path.write_text(text)
    return path


def test_several_targets_in_phases(server, tmp_path):
    path = scenario(tmp_path, """
targets:
  - {name: often, url: /often, weight: 8}
  - {name: stream, url: /stream, weight: 2}
phases:
  - {name: calm, concurrency: 3, duration: 800ms}
  - {name: rush, rate: 60, duration: 800ms}
slo: 10s
""")  # fmt: skip
    url = f"http://127.0.0.1:{server.server_address[1]}"
    code = bench(url, scenario=path, json=tmp_path / "r.json", html=tmp_path / "r.html")
    assert code == 0
    report = json.loads((tmp_path / "r.json").read_bytes())
    assert [level["name"] for level in report["levels"]] == ["calm", "rush"]
    for level in report["levels"]:
        often, stream = level["targets"]
        assert (often["name"], stream["name"]) == ("often", "stream")
        assert often["latency"]["count"] + stream["latency"]["count"] == level["latency"]["count"] > 10
        assert often["latency"]["count"] > stream["latency"]["count"] > 0
        assert abs(level["stream"]["items"] - 3 * stream["latency"]["count"]) <= 3 * 6
    assert report["levels"][1]["open"]["offered"] == report["levels"][1]["latency"]["count"]
    assert "rush: throughput" in (tmp_path / "r.html").read_text()


def test_one_target_that_fails_at_times_leaves_the_other_alone(server, tmp_path):
    path = scenario(tmp_path, "targets: [{name: ok, url: /ok}, {name: busy, url: /busy}]")
    url = f"http://127.0.0.1:{server.server_address[1]}"
    assert bench(url, scenario=path, concurrency="4", duration="500ms", warmup="0s", json=tmp_path / "r.json") == 0
    (level,) = json.loads((tmp_path / "r.json").read_bytes())["levels"]
    ok, busy = level["targets"]
    assert ok["errors"] == {}
    assert set(busy["errors"]) == {"status 503"}
    assert level["errors"] == busy["errors"]


def test_a_scenario_and_options_that_say_the_same_are_refused(server, tmp_path):
    path = scenario(tmp_path, "targets: [{url: /ok}]\nphases: [{concurrency: 1}]")
    url = f"http://127.0.0.1:{server.server_address[1]}"
    with pytest.raises(InvalidConfig, match="--data"):
        bench(url, scenario=path, data=("{}",))
    with pytest.raises(InvalidConfig, match="--rate"):
        bench(url, scenario=path, rate="5")
    with pytest.raises(InvalidConfig, match="expected a URL"):
        bench()
    with pytest.raises(InvalidConfig, match="--slo"):
        bench(url, search=True)
    with pytest.raises(SetupError, match="connection refused"):
        bench("http://127.0.0.1:1", scenario=path)


@pytest.mark.full
def test_the_highest_rate_that_keeps_a_promise(server, tmp_path):
    url = f"http://127.0.0.1:{server.server_address[1]}/one"
    options = {"slo": "p50=150ms", "search": True, "precision": 1.0, "duration": "1s", "warmup": "0s"}
    bench(url, **options, json=tmp_path / "r.json")
    report = json.loads((tmp_path / "r.json").read_bytes())
    found = report["search"]
    assert found["complete"]
    assert found["trials"] == len(report["levels"]) - 1
    # The server does fifty a second at best; half of 100 a second for a second would wait for 250 ms and longer.
    assert found["above_per_s"] <= 110
    assert found["rate_per_s"] is None or found["rate_per_s"] < found["above_per_s"]


def test_a_server_that_is_slow_to_start_is_waited_for(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    later = []

    def start():
        later.append(Quiet(("127.0.0.1", port), Answers))
        later[0].seen = []
        later[0].serve_forever(poll_interval=0.02)

    timer = threading.Timer(0.6, start)
    timer.start()
    try:
        options = {"wait": "30s", "duration": "200ms", "warmup": "0s", "concurrency": "2"}
        assert bench(f"http://127.0.0.1:{port}/ok", **options, json=tmp_path / "r.json") == 0
    finally:
        timer.join(10) if not later else later[0].shutdown()
        for server in later:
            server.server_close()


DIES = """
import os
from http.server import BaseHTTPRequestHandler, HTTPServer

class Dies(BaseHTTPRequestHandler):
    answered = 0
    def do_GET(self):
        Dies.answered += 1
        if Dies.answered > 20:
            os._exit(1)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass

server = HTTPServer(("127.0.0.1", 0), Dies)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


def test_a_server_that_dies_leaves_what_was_measured(tmp_path):
    with subprocess.Popen([sys.executable, "-c", DIES], stdout=subprocess.PIPE) as dying:
        url = f"http://127.0.0.1:{int(dying.stdout.readline())}/"
        threading.Thread(target=dying.wait, daemon=True).start()  # a dead child is there until somebody waited for it
        options = {"rate": "40,50", "duration": "1500ms", "warmup": "0s", "timeout": "1s", "pid": dying.pid}
        assert bench(url, method="GET", **options, json=tmp_path / "r.json") == 130
    report = json.loads((tmp_path / "r.json").read_bytes())
    (level,) = report["levels"]
    assert report["interrupted"]
    assert level["server_cpu_s"] is None
    assert 0 < level["latency"]["count"] <= 20
    assert sum(level["errors"].values()) == level["open"]["offered"] - level["latency"]["count"] > 0


RUN = """
import signal
import sys
from pathlib import Path
from trilith.cli.bench import bench
from trilith.measure.load.recorder import Recorder

url, folder, number = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
success = Recorder.success

def counted(recorder, latency_s, now):
    success(recorder, latency_s, now)
    if recorder.latencies.count == 20:
        signal.raise_signal(number)

Recorder.success = counted
sys.exit(bench(url, rate="50", duration="60s", warmup="0s", json=folder / "r.json", html=folder / "r.html"))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_a_whole_report(server, tmp_path, number):
    url = f"http://127.0.0.1:{server.server_address[1]}/ok"
    command = [sys.executable, "-c", RUN, url, str(tmp_path), str(int(number))]
    done = subprocess.run(command, capture_output=True, timeout=50, check=False)
    assert done.returncode == 130, done.stderr
    assert b"Interrupted" in done.stdout
    report = json.loads((tmp_path / "r.json").read_bytes())
    assert report["interrupted"]
    assert report["levels"][0]["latency"]["count"] > 10
    assert (tmp_path / "r.html").read_text().endswith("</html>\n")
