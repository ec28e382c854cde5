"""Deaths in the middle of changes: what serves goes on, and each answer is of one revision."""

from __future__ import annotations

import json
import os
import shutil
import signal

import pytest

PAIR = """
import pathlib
import trilith

@trilith.service
class Inner:
    @trilith.api(idempotent=True)
    async def mark(self) -> str:
        return "{mark}"

@trilith.service
class Outer:
    inner = trilith.depends(Inner)

    def __init__(self):
        {start}

    @trilith.api(idempotent=True)
    async def both(self) -> list[str]:
        return ["{mark}", await self.inner.mark()]
"""


def write(source, mark, *, start="pass"):
    source.write_text(PAIR.format(mark=mark, start=start))


@pytest.fixture
def source(tmp_path):
    write(tmp_path / "app.py", "one")
    return tmp_path / "app.py"


@pytest.fixture
def server(serve, source):
    server = serve(f"{source}:Outer", "--reload")
    server.wait_line("watching")
    return server


def answer(server):
    status, value = server.post("/both")
    return value if status == 200 else status


def kill(server, service):
    [process_id] = server.replica_pids(service)
    os.kill(process_id, signal.SIGKILL)
    server.wait_until(lambda: server.replica_pids(service) not in ([], [process_id]))


def hold(tmp_path):
    """A constructor that waits until the test says go."""
    gate = tmp_path / "go"
    return gate, f"[None for _ in iter(lambda: pathlib.Path({str(gate)!r}).exists(), True)]"


@pytest.mark.parametrize("broken", ["this is not python\n", PAIR.format(mark="two", start="raise ValueError('no')")])
def test_after_a_bad_change_a_dead_replica_is_replaced_by_its_like(server, source, broken):
    source.write_text(broken)
    server.wait_line("keeps serving")
    for service in ("Inner", "Outer"):
        server.wait_until(lambda service=service: len(server.replica_pids(service)) == 1)  # the change's are gone
        kill(server, service)
        assert answer(server) == ["one", "one"]
    write(source, "three")
    server.wait_until(lambda: answer(server) == ["three", "three"])


@pytest.mark.parametrize("happens", [lambda source: source.unlink(), lambda source: shutil.rmtree(source.parent)])
def test_a_dead_replica_is_replaced_though_its_file_is_gone(serve, tmp_path, happens):
    folder = tmp_path / "program"
    folder.mkdir()
    write(folder / "app.py", "one")
    server = serve(f"{folder}/app.py:Outer", "--reload")
    server.wait_line("watching")
    happens(folder / "app.py")
    for service in ("Inner", "Outer"):
        kill(server, service)
        assert answer(server) == ["one", "one"]
    assert "giving up" not in server.output


def test_a_replica_that_dies_while_a_change_starts_is_replaced(server, source, tmp_path):
    gate, wait = hold(tmp_path)
    write(source, "two", start=wait)
    server.wait_line("starting revision 2")
    server.wait_until(lambda: len(server.status()["services"]) == 2)
    for service in ("Inner", "Outer"):
        kill(server, service)
        assert answer(server) == ["one", "one"]
    gate.touch()
    server.wait_until(lambda: answer(server) == ["two", "two"])


def test_a_gateway_that_dies_while_a_change_starts_serves_the_old_revision_again(server, source, tmp_path):
    gate, wait = hold(tmp_path)
    write(source, "two", start=wait)
    server.wait_line("starting revision 2")
    os.kill(server.gateway_pid(), signal.SIGKILL)
    server.wait_line("starting another, replicas keep running")
    server.wait_until(lambda: answer(server) == ["one", "one"])
    gate.touch()
    server.wait_until(lambda: answer(server) == ["two", "two"])


def test_a_constructor_calls_its_own_revision(server, source):
    write(source, "two")
    text = source.read_text().replace(
        "    @trilith.api(idempotent=True)\n    async def both",
        "    @trilith.api\n    async def first(self) -> str:\n        return self.seen\n\n"
        "    @trilith.api(idempotent=True)\n    async def both",
    )
    source.write_text(text.replace("        pass\n", "        self.seen = self.inner.mark()\n"))
    server.wait_until(lambda: answer(server) == ["two", "two"])
    assert server.post("/first") == (200, "two")


def test_requests_that_end_their_replica_do_not_end_the_server(serve, tmp_path):
    source = tmp_path / "ends.py"
    source.write_text(
        "import os, trilith\n@trilith.service\nclass Ends:\n"
        "    @trilith.api\n    async def end(self) -> int:\n        os._exit(1)\n"
        "    @trilith.api\n    async def well(self) -> int:\n        return 1\n"
    )
    server = serve(f"{source}:Ends")
    for _ in range(3):  # that it is never given up for it: test_reconcile; each time it waits twice as long
        server.wait_until(lambda: server.post("/well") == (200, 1))
        assert server.post("/end")[0] == 502
    server.wait_until(lambda: server.post("/well") == (200, 1))
    assert "giving up" not in server.output


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("b'not a message\\n'", "JSON is malformed"),
        ("bytes(65 << 20)", "more than 64 MiB"),
        ('b\'{"kind":"failed","x":\' + b"[" * 100_000 + b"\\n"', "recursion"),
        ('b\'{"kind":"described","model_roots":[],"description":{}}\\n\'', "`services`"),
        ('b\'{"kind":"described","model_roots":[],"description":{"services":[]}}\\n\'', "length"),
        ('b\'{"kind":"described","model_roots":[],"description":{"services":[{"name":""}]}}\\n\'', "name"),
    ],
    ids=["no-json", "endless", "deep", "no-description", "no-service", "no-name"],
)
def test_what_a_replica_writes_to_its_control_descriptor_harms_it_alone(serve, tmp_path, said, why):
    source = tmp_path / "rude.py"
    source.write_text(
        "import os, sys, trilith\n@trilith.service\nclass Rude:\n"
        "    @trilith.api\n    def write(self) -> int:\n"
        f"        descriptor, said = int(sys.argv[2]), {said}\n"
        "        os.set_blocking(descriptor, True)\n"
        "        while said:\n            said = said[os.write(descriptor, said) :]\n"
        "        return 1\n"
        "    @trilith.api\n    async def well(self) -> int:\n        return os.getpid()\n"
    )
    server = serve(f"{source}:Rude")
    _, before = server.post("/well")
    server.post("/write")
    assert why in server.wait_line(f"process {before} was killed: ")
    server.wait_until(lambda: server.post("/well")[1] not in (before, None))
    server.wait_until(lambda: json.loads(server.get("/readyz")[1])["ready"])


def test_the_first_revision_may_be_broken_and_mended(serve, tmp_path):
    source = tmp_path / "app.py"
    source.write_text("this is not python\n")
    server = serve(f"{source}:Outer", "--reload", ready=False)
    server.wait_line("waiting for a change of its files")
    server.wait_line("watching")
    write(source, "one")
    server.wait_ready()
    assert answer(server) == ["one", "one"]
