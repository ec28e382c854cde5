"""A server with a small --max-held-mb: many unfinished bodies cannot fill its memory, and it serves on."""

from __future__ import annotations

import contextlib
import socket

from live_server import APPS

SIZE = 6 << 20


def test_unfinished_bodies_are_refused_over_the_bound(serve):
    server = serve(f"{APPS}/calls.py:Calls", "--max-held-mb", "32", "--max-body-mb", "8")
    head = (
        b"POST /size HTTP/1.1\r\nHost: a\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n" % SIZE
    )
    refused = 0
    with contextlib.ExitStack() as stack:
        for _ in range(12):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", server.http), timeout=20))
            client.sendall(head)
            try:
                client.sendall(bytes(SIZE - 1))
            except OSError:
                refused += 1  # it was refused before it had sent everything
        server.wait_until(lambda: metric(server, "trilith_held_refusals_total") >= 1)
        assert metric(server, "trilith_held_bytes") < 33 << 20
        answer = server.post("/echo", {"x": [1]})
        assert answer[0] == 200
    server.wait_until(lambda: metric(server, "trilith_held_bytes") == 0)


def metric(server, name):
    lines = server.get("/metrics", port=server.metrics)[1].decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))
