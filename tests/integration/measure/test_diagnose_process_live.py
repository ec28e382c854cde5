"""What is read of live processes: threads, waits for the interpreter's lock, memory that is passed over."""

import subprocess
import sys

import pytest
from waiting import wait_until

from trilith.measure.diagnose.memory import cache_bytes, copy_bytes_per_s, touched_bytes
from trilith.measure.diagnose.noise import read_noise
from trilith.measure.diagnose.threads import can_read, interpreter_data, read_threads, use_between, waits_for_lock

FOUR_THREADS = """
import threading
def work():
    value = 1
    while True:
        value = value * 31 % 1000003
for _ in range(4):
    threading.Thread(target=work).start()
"""
WAITS = "import threading\nprint('ready', flush=True)\nthreading.Event().wait()"
SUMS = """
import numpy as np
numbers = np.ones(16 << 20)
print("ready", flush=True)
while True:
    numbers.sum()
"""


@pytest.fixture
def started():
    processes = []

    def start(code):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


def test_threads_that_take_turns_are_seen_to_wait_for_the_lock(started):
    pid = started(FOUR_THREADS).pid
    wait_until(lambda: (waits_for_lock(pid, interpreter_data(pid)) or 0) >= 2)
    before = read_threads((pid,))
    wait_until(lambda: sum(each.cpu_s for each in read_threads((pid,)).values()) > 0.05)
    [process] = use_between(before, read_threads((pid,)), 1.0, {pid: "replica Slow"}, {pid: 3.0})
    assert (process.pid, process.role, process.lock_wait) == (pid, "replica Slow", 3.0)
    assert process.cpu > 0.01
    assert len(process.threads) >= 2


def test_a_thread_that_waits_for_work_does_not_wait_for_the_lock(started):
    process = started(WAITS)
    assert process.stdout.readline() == b"ready\n"
    assert waits_for_lock(process.pid, interpreter_data(process.pid)) == 0
    assert can_read(process.pid)


def test_the_memory_that_a_process_passes_over_is_seen(started):
    process = started(SUMS)
    assert process.stdout.readline() == b"ready\n"
    wait_until(lambda: touched_bytes((process.pid,), 0.5) > 100 << 20)  # 128 MiB, and what Python itself needs
    idle = started(WAITS)
    assert idle.stdout.readline() == b"ready\n"
    wait_until(lambda: touched_bytes((idle.pid,), 0.05) < 16 << 20)
    assert copy_bytes_per_s() > 1e8
    assert cache_bytes() >= 0


def test_processes_that_are_gone_are_left_out(started):
    process = started("pass")
    process.wait()
    assert read_threads((process.pid,)) == {}
    assert touched_bytes((process.pid,), 0.0) is None
    assert not can_read(process.pid)


def test_noise_has_its_three_figures():
    noise = read_noise()
    assert noise.spread >= 0
    assert 0 <= noise.stolen <= 1
    assert noise.foreign >= 0
    assert 0 <= noise.waited <= 1
