"""A server with next to no file descriptors: idle clients take none that its replicas need."""

from __future__ import annotations

import contextlib
import resource
import socket

import pytest
from live_server import APPS


def refused(server, protocol):
    wanted = f'trilith_refused_total{{protocol="{protocol}",reason="connections"}} '
    lines = server.get("/metrics", port=server.metrics)[1].decode().splitlines()
    return sum(float(line.removeprefix(wanted)) for line in lines if line.startswith(wanted))


@pytest.mark.parametrize("descriptors", [64, 128])
def test_idle_clients_leave_the_replicas_their_descriptors(serve, descriptors):
    server = serve(f"{APPS}/calls.py:Calls", ready=False)
    # The children are started after the agent has loaded itself, and get its limits.
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (descriptors, descriptors))
    server.wait_ready()
    size = 1 << 20
    with server.connection() as earlier, contextlib.ExitStack() as idle:
        earlier.request("POST", "/echo", b'{"x": [1]}', {"content-type": "application/json"})
        assert earlier.getresponse().read() == b"[1.0]"
        for number in range(140):
            port = server.http if number % 2 else server.grpc
            idle.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
        server.wait_until(lambda: refused(server, "http") >= 40 and refused(server, "grpc") >= 40)
        for _ in range(8):
            earlier.request("POST", "/size", b"z" * size, {"content-type": "application/octet-stream"})
            assert earlier.getresponse().read() == str(size).encode()
            earlier.request("POST", "/blob", b'{"size": %d}' % size, {"content-type": "application/json"})
            assert len(earlier.getresponse().read()) == size
    assert "ended" not in server.output
