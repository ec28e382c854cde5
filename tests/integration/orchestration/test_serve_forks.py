"""A method that forks: the child answers nobody and disturbs nothing, whichever way it comes back."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from live_server import APPS

from trilith.core.forks import EXIT_STATUS


@pytest.fixture(scope="module")
def forking(tmp_path_factory):
    from live_server import Server, environment

    folder = tmp_path_factory.mktemp("run")
    ports = ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]
    server = Server([f"{APPS}/forking.py:Forking", *ports], environment(folder))
    yield server.wait_ready()
    server.close()


@pytest.mark.parametrize("method", ["returns", "raises", "awaits", "returns_in_thread", "raises_in_thread"])
def test_a_child_that_comes_back_ends_there(forking, method):
    """Others are served meanwhile, each once and with its own answer."""
    [replica] = forking.replica_pids("Forking")
    with ThreadPoolExecutor(4) as pool:
        others = [pool.submit(forking.post, "/echo", {"number": number}) for number in range(40)]
        children = []
        for number in range(5):
            status, child = forking.post(f"/{method}", {"number": -number})
            assert (status, child > 0) == (200, True), child
            children.append(child)
        assert [each.result(20) for each in others] == [(200, number) for number in range(40)]
    for child in children:
        assert forking.post("/exit_status", {"child": child}) == (200, EXIT_STATUS)
        forking.wait_line(f"process {child} was forked by a service or a model and came back from its code")
    assert forking.replica_pids("Forking") == [replica]


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_child_ends_by_the_signal_that_its_parent_does_not_end_by(forking, start):
    assert forking.post("/ends_a_child", {"start": start}) == (200, -signal.SIGTERM)


def test_multiprocessing_works(forking):
    with ThreadPoolExecutor(4) as pool:
        answers = pool.map(lambda number: forking.post("/with_multiprocessing", {"number": number}), range(8))
        assert list(answers) == [(200, number * number) for number in range(8)]
