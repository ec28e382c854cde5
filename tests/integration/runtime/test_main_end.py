"""Threads that are no daemons idle without looking up, and end when the main thread has."""

import subprocess
import sys
import textwrap
import threading

from trilith.runtime.instances import InstanceThread, Rest
from trilith.runtime.main_end import MainEnd
from trilith.testing.backends import EchoBackend


class Idle:
    """Never has work."""

    name = "nobody's"

    def __init__(self):
        self.left = threading.Event()

    def take(self, instance):
        return Rest(None)

    def leave(self, instance):
        self.left.set()


class Inbox:
    """What an instance waits at; notes for how long."""

    def __init__(self):
        self.waits = []
        self.waited = threading.Event()
        self._woken = threading.Semaphore(0)

    def put(self, item):
        self._woken.release()

    def get(self, timeout=None):
        self.waits.append(timeout)
        self.waited.set()
        self._woken.acquire()


def test_an_idle_instance_waits_until_it_is_woken():
    work, inbox = Idle(), Inbox()
    instance = InstanceThread("idle", work, None, EchoBackend(), lambda _: None)
    instance._inbox = inbox
    instance.start()
    assert inbox.waited.wait(10)
    instance.stop()
    assert instance.join(10)
    assert work.left.is_set()
    assert inbox.waits == [None]


def test_one_thread_tells_all_and_keeps_none():
    end, before = MainEnd(), threading.active_count()

    class Told:
        def wake(self):
            pass

    some = [Told() for _ in range(100)]
    for each in some:
        end.tell(each)
    assert threading.active_count() == before + 1
    assert len(end._told) == 100
    some.clear()
    del each
    assert not end._told


PROGRAM = """
    import os, sys, threading
    from trilith.runtime.instances import InstanceThread, Rest
    from trilith.testing.backends import EchoBackend

    class Idle:
        name = "nobody's"
        def take(self, instance):
            return Rest(None)
        def leave(self, instance):
            os.write(1, b"left\\n")

    def begin():
        for at in range(3):
            InstanceThread(f"idle {at}", Idle(), None, EchoBackend(), lambda _: None).start()

    begin()
    if len(sys.argv) > 1 and os.fork() == 0:
        begin()  # the child has no threads of its parent's
"""


def run(*arguments):
    code = textwrap.dedent(PROGRAM)
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60)


def test_a_program_that_forgets_them_ends():
    done = run()
    assert (done.returncode, done.stdout) == (0, "left\n" * 3)


def test_a_forked_process_ends_too():
    done = run("fork")
    assert (done.returncode, done.stdout.count("left")) == (0, 6)
