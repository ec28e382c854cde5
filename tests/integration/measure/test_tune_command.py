import json
import os
import signal
import subprocess
import sys

import psutil
import pytest

pytestmark = pytest.mark.timeout(240)  # copies start one after the other, on whatever machine

APP = """
import asyncio
import trilith

@trilith.service(concurrency=1)
class Reader:
    @trilith.api
    async def read(self, page: int) -> int:
        await asyncio.sleep(0.02)  # bound by waiting, so that nobody's load on this machine changes what is best
        return page
"""


@pytest.fixture
def app(tmp_path):
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "space.yaml").write_text("Reader.concurrency: [1, 8]\nReader.timeout_s: [30, 60]\n")
    (tmp_path / "trilith.yaml").write_text("# ours\nservices:\n  Reader: {replicas: 1}  # for now\n")
    return tmp_path


def tune(app, *words, space="space.yaml"):
    return subprocess.Popen(
        [
            *(sys.executable, "-P", "-m", "trilith", "tune", "app.py:Reader", "--space", space),
            *("--config", "trilith.yaml", "--duration", "400ms", "--warmup", "100ms", "--concurrency", "8", *words),
        ],
        cwd=app,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def test_a_search_that_is_stopped_goes_on_and_writes_what_it_found(app):
    stopped = tune(app, "--data", '{"page": 1}', "--budget", "2")
    while "as it is" not in (line := stopped.stderr.readline()):
        assert line, "it ended"
    copies = psutil.Process(stopped.pid).children(recursive=True)
    os.kill(stopped.pid, signal.SIGINT)
    told, said = stopped.communicate(timeout=100)
    assert stopped.returncode == 130, said
    assert "Stopped after" in told
    assert "goes on from here" in said
    assert not psutil.wait_procs(copies, timeout=20)[1]

    again = tune(app, "--data", '{"page": 1}', "--budget", "2", "--yes", "--json", "result.json")
    told, said = again.communicate(timeout=200)
    assert again.returncode == 0, said
    assert "  2  " in said
    assert "  1  " not in said  # that was measured before
    found = json.loads((app / "result.json").read_bytes())
    assert found["winner"]["Reader.concurrency"] == 8
    assert found["ratio"] > 2
    assert "Reader.concurrency: null -> 8" in told or "Reader.concurrency: 1 -> 8" in told
    written = (app / "trilith.yaml").read_text()
    assert written.startswith("# ours\nservices:\n  Reader: {replicas: 1, ")
    assert "concurrency: 8" in written
    assert "# for now" in written
    assert "+  Reader: {replicas: 1, concurrency: 8" in told


def test_wrong_answers_are_no_winner(app):
    (app / "space.yaml").write_text("Reader.concurrency: {values: [1, 8], changes_outputs: true}\n")
    refused = tune(app, "--data", '{"page": 1}')
    assert refused.wait(100) == 2
    assert "Reader.concurrency: may change what is answered" in refused.stderr.read()
    refused.stdout.close()
    refused.stderr.close()
    checked = tune(app, "--data", '{"page": 1}', "--budget", "2", "--dry-run", "--check", "echo $TRILITH_URL; exit 3")
    told, said = checked.communicate(timeout=200)
    assert checked.returncode == 0, said
    assert "answers otherwise: the check ended with 3: http://127.0.0.1:" in told
    assert "Only one configuration could be measured" in told


@pytest.mark.parametrize(
    ("words", "space", "said"),
    [
        (["--data", "{}"], "space.yaml", "POST http://127.0.0.1:"),
        (["--objective", "cost"], "space.yaml", "--objective cost needs --rate"),
        ([], "other.yaml", "other.yaml: cannot be read"),
    ],
)
def test_what_cannot_be_searched_is_said_at_once(app, words, space, said):
    ended = tune(app, *words, space=space)
    told = ended.communicate(timeout=200)[1]
    assert ended.returncode == 2
    assert said in told
    assert "Traceback" not in told
