import os
import subprocess
import sys

import pytest

from trilith.measure import cpu_seconds, process_tree

BURN = "import time\nwhile time.process_time() < {seconds}: pass\n"
PARENT = """
import subprocess, sys
burn = {burn!r}
ended = subprocess.run([sys.executable, "-c", burn])
alive = subprocess.Popen([sys.executable, "-c", burn + "print('burnt', flush=True)\\nimport sys; sys.stdin.read()"])
alive.wait()
"""


def test_children_that_live_and_children_that_ended_are_counted():
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(burn=BURN.format(seconds=0.2))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with parent:
        assert parent.stdout.readline() == b"burnt\n"
        assert cpu_seconds(parent.pid) >= 0.35
        assert len(process_tree(parent.pid)) == 2
        parent.stdin.close()
    with pytest.raises(ProcessLookupError, match=str(parent.pid)):
        cpu_seconds(parent.pid)


def test_members_of_the_session_count_although_their_parent_is_gone():
    # The leader ends last here, so that its id still names the session.
    script = (
        "import subprocess, sys\n"
        "middle = subprocess.run([sys.executable, '-c', "
        + repr("import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'])")
        + "])\nprint('ready', flush=True)\nsys.stdin.read()\n"
    )
    leader = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    with leader:
        assert leader.stdout.readline() == b"ready\n"
        members = process_tree(leader.pid)
        assert len(members) == 2
        orphan = next(member for member in members if member.pid != leader.pid)
        assert orphan.parent != leader.pid
        leader.stdin.close()


def test_this_process_is_counted():
    before_s = cpu_seconds(os.getpid())
    burn_until = sum(os.times()[:2]) + 0.1
    while sum(os.times()[:2]) < burn_until:
        pass
    assert cpu_seconds(os.getpid()) - before_s >= 0.05
