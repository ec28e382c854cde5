"""The benchmarks against `trilith serve` itself, as a person runs them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def run(*command):
    ran = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=55)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_echo_names_the_floors_and_the_cpu_time(tmp_path):
    shown = run(
        "benchmarks/echo.py", "--duration", "0.5", "--concurrency", "1,4", "--json", str(tmp_path / "echo.json")
    )
    assert "of the time, " in shown
    for level in json.loads((tmp_path / "echo.json").read_bytes())["levels"]:
        assert level["latency"]["count"] > 10
        assert level["errors"] == {}
        assert level["server_cpu_per_request_s"] > 0
        assert level["breakdown"]["unreadable"] == 0
        # Outside, service, orchestration. A service without models has no time in floor 1.
        assert {floor["floor"] for floor in level["breakdown"]["floors"]} == {0, 2, 3}
        assert sum(floor["share"] for floor in level["breakdown"]["floors"]) == pytest.approx(1.0)
        spans = {(span["key"]["earlier"], span["key"]["later"]) for span in level["breakdown"]["spans"]}
        assert ("queued", "sent") in spans


@pytest.mark.full
@pytest.mark.parametrize("name", ["trilith", "trilith-grpc"])
def test_the_peers_harness(name, tmp_path):
    report = tmp_path / "peers.json"
    run("-m", "benchmarks.peers", "--peers", name, "--duration", "1", "--rounds", "1", "--json", str(report))
    median = json.loads(report.read_bytes())["peers"][name]["median"]
    assert median["failed"] == 0
    assert median["requests_per_s"] > 10
    assert median["server_cpu_per_request_s"] > 0
