"""Threads that wait for the interpreter's lock, in a real process, beside threads that wait for something else."""

import subprocess
import sys
import time

import pytest

from trilith.measure.diagnose.threads import interpreter_data, waits_for_lock

PROGRAM = """
import queue, sys, threading

def spin():
    while True:
        pass

for _ in range(3):  # a time limit, and a lock of the program's own
    threading.Thread(target=threading.Event().wait, args=(100,), daemon=True).start()
threading.Thread(target=queue.SimpleQueue().get, kwargs={"timeout": 100}, daemon=True).start()
for _ in range(int(sys.argv[1])):
    threading.Thread(target=spin, daemon=True).start()
print("up", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("spinning", [0, 4])
def test_only_those_who_wait_for_the_interpreters_lock_are_counted(spinning):
    command = [sys.executable, "-c", PROGRAM, str(spinning)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"up\n"
            data = interpreter_data(process.pid)
            assert data
            until = time.monotonic() + 20
            seen = []
            while len(seen) < 50 and time.monotonic() < until:
                seen.append(waits_for_lock(process.pid, data))
            assert max(seen) == (0 if not spinning else pytest.approx(spinning - 1, abs=1))
        finally:
            process.kill()


def test_of_what_is_not_there_nothing_is_told():
    assert interpreter_data(2**22 + 1) == ()
    assert waits_for_lock(2**22 + 1, ()) is None
