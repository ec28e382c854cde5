"""`--reload` has processes in advance, which change how long a change takes and nothing else."""

import os
import signal
import sys
import types

import psutil
import pytest

from trilith.orchestration.engine.spare import libraries_of

APP = """
import os
import trilith
import numpy

{before}

@trilith.service(cpu={cpu})
class Inner:
    @trilith.api
    async def mark(self) -> str:
        return "{mark}"

@trilith.service
class Outer:
    inner = trilith.depends(Inner)

    @trilith.api
    async def both(self) -> list[str]:
        return ["{mark}", await self.inner.mark(), os.environ.get("OMP_NUM_THREADS", "none")]
"""


@pytest.fixture
def source(tmp_path):
    return tmp_path / "advance.py"


def write(source, mark, *, cpu=1, before=""):
    source.write_text(APP.format(mark=mark, cpu=cpu, before=before))


def spares(server):
    children = psutil.Process(server.process.pid).children()
    return {child.pid for child in children if "engine.spare" in " ".join(child.cmdline())}


def answer(server):
    status, value = server.post("/both")
    return value[:2] if status == 200 else status


def start(serve, source, wanted=2):
    server = serve(f"{source}:Outer", "--reload")
    server.wait_line("watching")
    server.wait_until(lambda: len(spares(server)) == wanted)
    return server


def test_a_change_runs_in_processes_that_waited(serve, source):
    write(source, "one")
    server = start(serve, source)
    waiting = spares(server)
    write(source, "two")
    server.wait_until(lambda: answer(server) == ["two", "two"])
    assert {*server.replica_pids("Outer"), *server.replica_pids("Inner")} == waiting
    server.wait_until(lambda: len(spares(server) - waiting) == 2)  # for the next one
    assert server.terminate() == 0


def test_without_them_a_change_starts_as_always(serve, source):
    write(source, "one")
    server = start(serve, source)
    for process_id in spares(server):
        os.kill(process_id, signal.SIGKILL)
    write(source, "two")
    server.wait_until(lambda: answer(server) == ["two", "two"])


def test_a_change_while_they_start_is_served(serve, source):
    write(source, "one")
    server = serve(f"{source}:Outer", "--reload")
    server.wait_line("watching")
    for mark in ("two", "three", "four"):
        write(source, mark)
        server.wait_until(lambda mark=mark: answer(server) == [mark, mark])


def test_only_installed_modules_are_imported_in_advance(monkeypatch):
    import numpy

    modules = {
        "numpy": numpy,
        "pytest": pytest,
        "mine": types.ModuleType("mine"),
        "os": os,
        "sys": sys,
        "here": types.SimpleNamespace(__file__=__file__),
    }
    assert libraries_of(modules, ["pytest"]) == ["numpy"]
    assert libraries_of(modules, []) == ["numpy", "pytest"]


def test_who_sets_variables_has_libraries_to_itself(serve, source):
    write(source, "one", before="os.environ['DESK_MODE'] = 'x'")
    server = start(serve, source)
    loaded = [" ".join(psutil.Process(process_id).cmdline()) for process_id in spares(server)]
    assert not any("numpy" in line for line in loaded)
    write(source, "two", before="os.environ['DESK_MODE'] = 'y'")
    server.wait_until(lambda: answer(server) == ["two", "two"])
