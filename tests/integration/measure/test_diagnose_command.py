"""`trilith diagnose` against two services of the suite, and against servers that answer as told."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from benchmarks.diagnose.cases import CASES, SERVICES
from benchmarks.diagnose.running import plan_of, running
from waiting import wait_until

from trilith.cli import main
from trilith.cli.diagnose import diagnose
from trilith.errors import InvalidConfig, SetupError
from trilith.measure.diagnose import diagnose as run
from trilith.orchestration import running_targets, server_reports

QUICK = {"duration": "100ms", "warmup": "0s", "max_load": 4, "max_noise": 1e9}
RUN = """
import sys
from trilith.cli.diagnose import diagnose
sys.exit(diagnose(sys.argv[1], duration="500ms", max_noise=1e9))
"""


class Scripted(BaseHTTPRequestHandler):
    """One request at a time takes 10 ms; `/limited` lets one in four through; `/missing` is nowhere."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        self.server.answered += 1
        self.rfile.read(int(self.headers.get("content-length", 0)))
        with self.server.place:
            time.sleep(0.01)
        status = 404 if self.path == "/missing" else 200
        if self.path == "/limited" and self.server.answered % 4:
            status = 429
        self.send_response(status)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_POST = do_GET

    def handle(self):
        try:
            super().handle()
        except OSError:
            self.close_connection = True

    def log_message(self, *_):
        pass


@contextmanager
def serving():
    with ThreadingHTTPServer(("127.0.0.1", 0), Scripted) as server:
        server.daemon_threads = True
        server.block_on_close = False
        server.answered = 0
        server.place = threading.Lock()
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)


@pytest.fixture
def port():
    with serving() as server:
        yield server.server_address[1]


@pytest.mark.parametrize("name", ["too few replicas", "window too long"])
def test_a_known_bottleneck_is_named(name):
    [case] = (each for each in CASES if each.name == name)
    for _ in range(3):  # the machine of a test may be very busy for a moment
        with running(case) as (pid, port):
            plan = dataclasses.replace(plan_of(case, port, "", pid, duration_s=0.3), warmup_s=0.1)
            found = run(plan, largest=4, noisiest=1e9, try_change="few" in name)
        if found.verdict.stage == case.stage:
            break
    assert (found.verdict.floor, found.verdict.stage) == (case.floor, case.stage)
    assert found.verdict.changes[0].gain.value > 1.2
    if "few" in name:  # a copy with another replica was beside it for a moment
        assert found.verified.why_not == ""
        assert found.verified.change.settings == {"TooFewReplicas.replicas": 2}
        assert found.verified.measured.value > 1.1
        assert [status[0] for status in running_targets()].count(f"{SERVICES}:{case.service}") == 0
    level = found.evidence.levels[-1]
    assert {"gateway", "agent", f"replica {case.service}"} <= {process.role for process in level.processes}
    assert level.stations[0].name == case.service
    assert found.evidence.memory.touched_bytes > 1 << 20
    assert [waterfall.title for waterfall in found.waterfalls] == ["the median request", "a request at p99"]
    assert any(bar.floor == 2 for bar in found.waterfalls[0].bars)


def test_a_server_of_another_kind_is_seen_from_outside(port, tmp_path, capsys):
    written, page = tmp_path / "found.json", tmp_path / "found.html"
    status = diagnose(f"http://127.0.0.1:{port}/", pid=os.getpid(), json=written, html=page, **QUICK)
    found = json.loads(written.read_bytes())
    assert status == (found["verdict"]["floor"] == "unknown")
    assert "The ladder of loads" in page.read_text()
    assert found["schema"] == "trilith-diagnose/1"
    assert [level["load"] for level in found["evidence"]["levels"]][:2] == [1, 2]
    assert found["evidence"]["levels"][0]["processes"]
    assert any("timelines" in line for line in found["evidence"]["unread"])
    assert "The ladder of loads" in capsys.readouterr().out


def test_what_fails_is_not_explained(port, capsys):
    assert diagnose(f"http://127.0.0.1:{port}/limited", **QUICK) == 1
    assert "limits the rate" in " ".join(capsys.readouterr().out.split())


def test_what_is_wrong_is_said_in_a_sentence(port, capsys):
    with pytest.raises(SetupError, match="status 404"):
        diagnose(f"http://127.0.0.1:{port}/missing", **QUICK)
    for option in ({"max_load": 0}, {"max_noise": 0.0}, {"duration": "0s"}):
        with pytest.raises(InvalidConfig):
            diagnose(f"http://127.0.0.1:{port}/", **option)
    with pytest.raises(SystemExit) as ended:
        main(["diagnose", "http://127.0.0.1:1/"])
    assert ended.value.code == 2
    assert "nothing listens" in capsys.readouterr().err


def test_a_machine_that_is_too_noisy_gets_no_verdict(port, capsys):
    assert diagnose(f"http://127.0.0.1:{port}/", **{**QUICK, "max_noise": 1e-9}) == 1
    assert "to say anything" in " ".join(capsys.readouterr().out.split())


APP = """
import trilith


@trilith.service
def double(x: float) -> float:
    return 2 * x
"""


def test_the_way_from_an_edit_to_an_answer_is_timed_on_a_copy(tmp_path, monkeypatch):
    (tmp_path / "app.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    assert diagnose("app.py:double", workflow=True, json=Path("found.json")) == 0
    found = json.loads((tmp_path / "found.json").read_bytes())
    steps = {step["name"]: step for step in found["steps"]}
    assert steps["install"]["seconds"] is None
    assert "no requirements.txt" in steps["install"]["note"]
    assert steps["start to ready"]["seconds"] > 0
    assert steps["edit to answer"]["seconds"] > 0
    assert found["slowest"]["name"] in ("start to ready", "edit to answer")
    assert (tmp_path / "app.py").read_text() == APP
    assert "app.py:double" not in dict(running_targets())
    with pytest.raises(InvalidConfig, match=r"expected a file as app.py:Name"):
        diagnose("http://127.0.0.1:8000/", workflow=True)


def test_a_model_is_diagnosed_over_grpc_too(tmp_path, capsys):
    [case] = (each for each in CASES if each.name == "one instance too few")
    written = tmp_path / "found.json"
    with running(case) as (_, port):
        url = f"grpc://{grpc_address(port)}"
        diagnose(url, model=case.model, json=written, **{**QUICK, "max_load": 2})
    found = json.loads(written.read_bytes())["evidence"]
    assert found["url"].startswith(url)
    station = found["levels"][-1]["stations"][0]
    assert (station["kind"], station["name"], station["slots"]) == ("model", case.model, 1)
    assert station["calls"] > 0
    assert found["levels"][-1]["processes"]
    assert "The ladder of loads" in capsys.readouterr().out


def grpc_address(http_port):
    [record] = (each.record for each in server_reports() if each.record.http.endswith(f":{http_port}"))
    return record.grpc


def test_ctrl_c_shows_what_was_seen(tmp_path):
    with serving() as server:
        process = subprocess.Popen(
            [sys.executable, "-c", RUN, f"http://127.0.0.1:{server.server_address[1]}/"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(tmp_path),
        )
        wait_until(lambda: server.answered > 60)
        process.send_signal(signal.SIGINT)
        shown, told = process.communicate(timeout=30)
    assert process.returncode == 130, told
    assert "Traceback" not in told
    assert "stopped by hand" in shown or not shown
