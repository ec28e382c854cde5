import json
import os
import signal
import subprocess
import sys
import urllib.request

import psutil
import pytest

from trilith.errors import InvalidConfig
from trilith.measure.copies import CopyFailed, CopyPlan, running_copy

APP = """
import trilith

@trilith.service
class Inner:
    @trilith.api(batch=trilith.Batch(max_size=2))
    def square(self, numbers: list[int]) -> list[int]:
        return [number * number for number in numbers]

@trilith.service
class Outer:
    inner = trilith.depends(Inner)

    @trilith.api
    async def square(self, number: int) -> int:
        return await self.inner.square(number)
"""


@pytest.fixture
def app(tmp_path):
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def asked(copy, path, value):
    request = urllib.request.Request(copy.url(path), json.dumps(value).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.loads(answer.read())


def test_a_copy_has_other_settings_and_ends_with_all_its_processes(app):
    settings = {"Inner.replicas": 2, "Inner.square.max_batch": 8}
    with running_copy(CopyPlan(target="app.py:Outer", settings=settings, folder=app)) as copy:
        tree = psutil.Process(copy.pid).children(recursive=True)
        assert asked(copy, "/square", {"number": 3}) == 9
        assert len(tree) == 4  # the gateway, the outer replica and two inner ones
        assert copy.ready_s > 0
    assert not psutil.wait_procs(tree, timeout=20)[1]
    assert not psutil.pid_exists(copy.pid)


def test_it_ends_when_what_it_was_for_fails(app):
    with pytest.raises(KeyboardInterrupt), running_copy(CopyPlan(target="app.py:Outer", folder=app)) as copy:
        raise KeyboardInterrupt
    assert not psutil.pid_exists(copy.pid)


def test_a_copy_that_cannot_start_says_why(app):
    with (
        pytest.raises(CopyFailed) as raised,
        running_copy(CopyPlan(target="app.py:Outer", settings={"Inner.replica": 2}, folder=app)),
    ):
        raise AssertionError("it started")
    assert "Inner.replica: cannot be set" in raised.value.message
    assert "did you mean 'replicas'?" in raised.value.message
    with (
        pytest.raises(InvalidConfig, match="expected names with dots"),
        running_copy(CopyPlan(target="app.py:Outer", settings={"Inner..replicas": 2}, folder=app)),
    ):
        raise AssertionError("it started")


def test_no_copy_outlives_the_process_that_measures(app):
    script = (
        "import sys, trilith.measure.copies as c\n"
        "with c.running_copy(c.CopyPlan(target='app.py:Outer')) as copy:\n"
        "    print(copy.pid, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    measuring = subprocess.Popen(
        [sys.executable, "-c", script], cwd=app, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    copy = psutil.Process(int(measuring.stdout.readline()))
    tree = [copy, *copy.children(recursive=True)]
    os.kill(measuring.pid, signal.SIGKILL)
    measuring.wait(20)
    measuring.stdin.close()
    measuring.stdout.close()
    assert not psutil.wait_procs(tree, timeout=20)[1]
