"""A loop that is busy for a moment turns nobody away: connections wait in the kernel, those of both servers alike."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
from pathlib import Path

import pytest

from trilith.net.grpc import GrpcServer
from trilith.net.http1 import HttpServer

CLIENTS = 300  # asyncio's own backlog is 100


def _longest_backlog() -> int:
    return int(Path("/proc/sys/net/core/somaxconn").read_text())


@pytest.mark.skipif(_longest_backlog() < CLIENTS, reason="this system allows no such backlog")
@pytest.mark.parametrize("kind", [HttpServer, GrpcServer])
def test_clients_of_a_busy_loop_wait_in_the_backlog(kind):
    async def main() -> int:
        server = kind(lambda request: None)
        await server.start()
        with contextlib.ExitStack() as opened:
            poller = select.poll()
            for _ in range(CLIENTS):  # in one turn of the loop: nothing is accepted meanwhile
                client = opened.enter_context(socket.socket())
                client.setblocking(False)
                client.connect_ex(server.addresses[0])
                poller.register(client, select.POLLOUT)
            connected = len(poller.poll(0))
        await server.drain(0.0)
        return connected

    assert asyncio.run(main()) == CLIENTS
