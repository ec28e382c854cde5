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
@pytest.mark.parametrize(
    ("name", "workload"),
    [
        ("trilith", "echo"),
        ("trilith-onnx-grpc", "identity"),
        ("trilith-python", "identity-binary"),
        ("trilith-python-grpc", "identity-alone"),
        ("trilith-identity", "identity"),
    ],
)
def test_the_peers_harness(name, workload, tmp_path):
    report = tmp_path / "peers.json"
    chosen = ("--peers", name, "--workload", workload)
    run("-m", "benchmarks.peers", *chosen, "--duration", "1", "--rounds", "1", "--json", str(report))
    median = json.loads(report.read_bytes())["peers"][name]["median"]
    assert median["failed"] == 0
    assert median["requests_per_s"] > 0
    assert median["server_cpu_per_request_s"] > 0


def test_a_peer_that_fails_says_so_and_the_others_go_on(tmp_path):
    program = """
import dataclasses, pathlib, sys
sys.path.insert(0, ".")
from benchmarks.peers.registry import PEERS
from benchmarks.peers.rounds import measure_rounds
from benchmarks.peers.workloads import WORKLOADS
good = PEERS["trilith"]
ends = dataclasses.replace(good, name="ends", command=lambda *_: ["sh", "-c", "echo why it ended; exit 3"])
absent = dataclasses.replace(good, name="absent", environment="no-such-requirements")
measured = measure_rounds(
    [absent, ends, good], pathlib.Path(sys.argv[1]), WORKLOADS["echo"](),
    concurrency=2, duration_s=0.3, rounds=1, wrk=None,
)
print(sorted(measured.failures), measured.ratios("trilith", "ends"), measured.figures["trilith"][1].failed)
print("why it ended" in measured.failures["ends"], "no-such-requirements" in measured.failures["absent"])
"""
    shown = run("-c", program, str(tmp_path)).splitlines()[-2:]
    assert shown == ["['absent', 'ends'] [] 0", "True True"]


def test_a_burst_is_answered_within_what_its_batches_need():
    """Seven batches of 100 ms, or eight; how much longer it took is no matter here, the machine may be busy."""
    shown = run("-m", "benchmarks.burst", "--peers", "trilith-identity")
    last_s = float(shown.split("trilith-identity")[1].split("│")[1])
    assert last_s >= 0.7
