"""What a Python instance keeps of requests that were taken back: nothing, once their call is answered."""

import socket
from types import SimpleNamespace

import pytest

from trilith.runtime.backends.python import messages
from trilith.runtime.backends.python.messages import TakenBack
from trilith.runtime.backends.python.packing import BatchAnswer
from trilith.runtime.backends.python.worker import Worker


@pytest.fixture
def worker():
    own, other = socket.socketpair()
    with own, other:
        made = Worker(own, other)
        yield made
        made._loop.close()


def call(number):
    return SimpleNamespace(id=number, result=lambda meta, buffers: None)


def notice(number, at):
    return messages.encode(TakenBack(call_id=number, at=at))


def test_a_notice_counts_while_its_call_is_not_answered(worker):
    worker._on_call(call(1))
    worker._on_call(call(2))
    worker._on_notice(notice(1, 3))
    worker._on_notice(notice(1, 4))
    assert worker._is_taken_back(1, 3)
    assert worker._is_taken_back(1, 4)
    assert not worker._is_taken_back(1, 0)
    assert not worker._is_taken_back(2, 3)


def test_nothing_is_kept_of_calls_that_are_over(worker):
    """Its loop runs between executions, so notices are mostly read when their call is answered."""
    for number in range(100):
        asked = call(number)
        worker._on_call(asked)
        worker._on_notice(notice(number, 0))
        worker._send(asked, BatchAnswer([], ""), [])
        worker._on_notice(notice(number, 1))
    assert not worker._taken_back
    assert not worker._is_taken_back(99, 1)
