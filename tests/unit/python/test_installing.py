"""The commands that make an environment: what they say, that they get on, and their end."""

import sys
import threading
import time
from pathlib import Path

import pytest

from trilith.errors import SetupError
from trilith.runtime.backends.python.installing import LAST_LINES, Installer

SAYS = """
import sys
for at in range(40):
    print(f"line {at}")
    print(f"Progress {at} of 40", flush=True)
print("last", file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""
HANGS = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(os.getpid(), child.pid, flush=True)
child.wait()
"""


def python(code, *arguments):
    return [sys.executable, "-c", code, *arguments]


def test_what_it_says(tmp_path):
    heard = []
    code, said = Installer().run(python(SAYS, "3"), tmp_path, lambda: heard.append(1))
    assert code == 3
    assert said.splitlines() == [f"line {at}" for at in range(40 - LAST_LINES + 1, 40)] + ["last"]
    assert len(heard) == 81


def test_what_runs_is_ended_with_all_that_it_began(tmp_path):
    installer, begun, ended = Installer(), threading.Event(), []

    def run():
        try:
            installer.run(python(HANGS), tmp_path, begun.set)
        except SetupError as error:
            ended.append(error.message)

    thread = threading.Thread(target=run)
    thread.start()
    assert begun.wait(30)
    group = installer._process.pid
    installer.stop("nobody wants it")
    thread.join(30)
    assert ended == ["nobody wants it"]
    while alive(group):  # what it began was killed with it, and may take a moment to be gone
        time.sleep(0.01)
    with pytest.raises(SetupError, match="nobody wants it"):
        installer.run(python("pass"), tmp_path, begun.set)


def alive(group):
    """Whether a process of the group runs; those that ended may wait to be reaped."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(its_group) == group and state != "Z":
            return True
    return False


def test_who_hears_may_end_it(tmp_path):
    def refuse():
        raise SetupError("it was given up")

    installer = Installer()
    with pytest.raises(SetupError, match="it was given up"):
        installer.run(python(HANGS), tmp_path, refuse)
    assert installer._process is None
