"""Hooks of services as a server heeds them: health, deployment; and starts that fail."""

from __future__ import annotations

import json
import shutil
import time

import pytest
from live_server import APPS


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOOKS", str(tmp_path))
    return tmp_path


def notes(folder):
    return (folder / "notes").read_text().split() if (folder / "notes").exists() else []


def pids(server, count=24):
    return {server.post("/pid")[1] for _ in range(count)}


def test_a_replica_that_is_not_ready_gets_no_calls(serve, folder):
    server = serve(f"{APPS}/hooks.py:Health")
    first, second = server.replica_pids("Health")
    (folder / f"unready-{first}").touch()
    server.wait_line("takes no calls any more: __is_ready__ returned False")
    server.wait_until(lambda: server.status()["services"][0]["serving"] == 1)
    assert pids(server) == {second}
    assert server.get("/readyz")[0] == 200

    (folder / "unready").touch()
    server.wait_until(lambda: server.get("/readyz")[0] == 503)
    assert json.loads(server.get("/readyz")[1])["problems"] == ["no replica of Health is ready"]
    assert server.get("/livez")[0] == 200
    status, body = server.post("/pid", headers={"trilith-timeout-ms": "300"})  # it waits for one
    assert (status, body["error"]["code"]) == (504, "deadline_exceeded")

    (folder / "unready").unlink()
    (folder / f"unready-{first}").unlink()
    server.wait_until(lambda: server.get("/readyz")[0] == 200)
    server.wait_until(lambda: pids(server) == {first, second})


def test_none_is_called_before_it_is_ready(serve, folder):
    (folder / "unready").touch()
    server = serve(f"{APPS}/hooks.py:Health", ready=False)
    server.wait_line("is not ready to begin: __is_ready__ returned False")
    (folder / "unready").unlink()
    server.wait_ready()
    assert server.post("/pid")[0] == 200


def test_a_replica_that_is_of_no_use_is_replaced(serve, folder):
    server = serve(f"{APPS}/hooks.py:Health")
    first, second = server.replica_pids("Health")
    (folder / f"dead-{first}").touch()
    line = server.wait_line(f"killing a replica of Health (pid {first})")
    assert "__is_alive__ returned False, 2 times in a row" in line
    server.wait_until(lambda: len(set(server.replica_pids("Health")) - {first}) == 2)
    assert second in server.replica_pids("Health")


@pytest.mark.parametrize("name", ["Deployed", "Bounded"])
def test_what_is_done_before_a_deployment_is_done_once(serve, folder, name):
    server = serve(f"{APPS}/hooks.py:{name}")
    assert server.post("/pid")[0] == 200
    assert notes(folder)[0] == "migrate"
    assert notes(folder).count("migrate") == 1


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("fail", "Deployed.migrate, which runs before a deployment, raised RuntimeError: the table is locked"),
        ("crash", "the worker ended while Deployed.migrate ran"),
    ],
)
def test_when_that_fails_nothing_is_made(serve, folder, how, words):
    (folder / how).touch()
    server = serve(f"{APPS}/hooks.py:Deployed", ready=False)
    assert server.process.wait(40) == 1
    server.wait_line(words)
    assert notes(folder) == ["migrate"]


def test_a_change_that_cannot_be_deployed_leaves_what_serves(serve, folder):
    source = folder / "app" / "hooks.py"
    source.parent.mkdir()
    shutil.copy(APPS / "hooks.py", source)
    server = serve(f"{source}:Deployed", "--reload")
    assert notes(folder).count("migrate") == 1
    before = pids(server)
    (folder / "fail").touch()
    source.write_text(source.read_text() + "\n# changed\n")
    server.wait_line("the table is locked")
    server.wait_line("the revision before it keeps serving")
    assert pids(server) == before
    (folder / "fail").unlink()
    source.write_text(source.read_text() + "\n# again\n")
    server.wait_until(lambda: not before & pids(server, 8))
    assert notes(folder).count("migrate") == 3


@pytest.mark.parametrize(
    ("name", "tries", "words"),
    [
        ("Fails", 2, "its constructor raised RuntimeError: no licence"),
        ("Crashes", 6, "exit code 9"),
        pytest.param("NeedsCrashing", 6, "a replica of Crashes", marks=pytest.mark.full),
    ],
)
@pytest.mark.timeout(150)  # six starts of a process on a busy machine
def test_a_service_that_cannot_start_is_tried_ever_more_slowly_and_then_no_more(serve, folder, name, tries, words):
    begun = time.monotonic()
    server = serve(f"{APPS}/hooks.py:{name}", ready=False)
    assert server.process.wait(120) == 1
    server.wait_line(words)
    server.wait_line(f"could not be started {tries} times in a row; giving up")
    assert notes(folder).count("tried") == tries
    if tries == 6:  # 0.1 s, and twice as long after each
        assert time.monotonic() - begun > 0.1 + 0.2 + 0.4 + 0.8 + 1.6
