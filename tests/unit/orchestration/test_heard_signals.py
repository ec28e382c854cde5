"""Signals are heard while the main thread is in C code, and not by a child for its parent."""

import os
import queue
import signal
import socket
import threading
import time

from trilith.orchestration.engine.heard_signals import heard_signals


def test_they_are_heard_while_the_main_thread_blocks_and_passed_on():
    heard = queue.Queue()
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    lock = threading.Lock()
    lock.acquire()
    handler = signal.getsignal(signal.SIGUSR1)
    signal.set_wakeup_fd(writing.fileno())
    with reading, writing:
        try:
            with heard_signals([signal.SIGUSR1], lambda number: (heard.put(number), lock.release())):
                threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGUSR1)).start()
                assert lock.acquire(timeout=20), "released by who heard the signal"
                assert heard.get(timeout=20) is signal.SIGUSR1
                assert reading.recv(1) == bytes([signal.SIGUSR1])
        finally:
            assert signal.set_wakeup_fd(-1) == writing.fileno()
    assert signal.getsignal(signal.SIGUSR1) is handler


def test_what_is_forked_ends_by_them_and_its_parent_does_not_hear_it():
    heard = queue.Queue()
    with heard_signals([signal.SIGUSR1], heard.put):
        child = os.fork()
        if child == 0:
            while True:
                time.sleep(60)
        os.kill(child, signal.SIGUSR1)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGUSR1
        os.kill(os.getpid(), signal.SIGUSR1)
        heard.get(timeout=20)
    assert heard.empty()
