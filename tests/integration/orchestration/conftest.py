from __future__ import annotations

import pytest
from live_server import APPS, Server, environment


@pytest.fixture
def serve(tmp_path_factory):
    """Starts servers; ends them after the test."""
    servers = []

    def start(target, *options, ready=True):
        # A short path: a UNIX socket's may have 107 bytes.
        folder = tmp_path_factory.mktemp("run")
        free = [name for name in ("--http-port", "--grpc-port", "--metrics-port") if name not in options]
        given = [*(word for name in free for word in (name, "0")), *options]
        server = Server([str(target), *given], environment(folder))
        server.runtime_folder = folder
        servers.append(server)
        return server.wait_ready() if ready else server

    yield start
    for server in servers:
        server.close()


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """One server of `apps/calls.py` for all tests of a module that do no harm."""
    folder = tmp_path_factory.mktemp("run")
    arguments = [f"{APPS}/calls.py:Calls", "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]
    server = Server([*arguments, "--max-body-mb", "8"], environment(folder))
    yield server.wait_ready()
    server.close()


@pytest.fixture(scope="module")
def serve_module(tmp_path_factory):
    """Starts servers for all tests of a module; ends them after it."""
    servers = []

    def start(target, *options):
        folder = tmp_path_factory.mktemp("run")
        free = ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]
        servers.append(Server([str(target), *free, *options], environment(folder)))
        return servers[-1].wait_ready()

    yield start
    for server in servers:
        server.close()
