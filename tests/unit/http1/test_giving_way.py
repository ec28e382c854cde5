"""Who gives way when all connections are taken and each has a request under way."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from websocket_octets import TEXT, frame, handshake

from trilith.net.http1 import HttpRequest, WebSocket
from trilith.net.http1.giving_way import connection_that_gives_way

Connect = Callable[..., Any]
PART = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nx"


async def echo(request: HttpRequest) -> None:
    if request.switches is None:
        request.respond(200, await request.body())
        return
    websocket = WebSocket(request)
    await websocket.accept()
    while True:
        await websocket.send(await websocket.receive())


def look(*clients: Any, after: float) -> None:
    state = clients[0].state
    state.now += after
    for client in clients:
        client.transport.protocol.check(state.now) if client.transport.protocol else client.connection.check(state.now)


def test_a_body_that_does_not_come_gives_way_and_the_slowest_first(connect: Connect) -> None:
    quick = connect(echo, max_connections=3)
    slow, stalled = quick.another(), quick.another()
    for client in (quick, slow, stalled):
        client.send(PART)
    assert quick.another().statuses == [503]  # they may come yet
    look(quick, slow, stalled, after=1)
    slow.send(b"x" * 100)
    quick.send(b"x" * 50_000)
    look(quick, slow, stalled, after=2.5)
    came = quick.another()
    came.send(PART)
    assert came.statuses == []
    assert (stalled.statuses, slow.statuses) == ([503], [])
    look(quick, slow, came, after=1)
    assert quick.another().statuses == []
    assert (slow.statuses, quick.statuses, came.statuses) == ([503], [], [])
    assert quick.state.counters.refused == {"connections": 3}
    quick.send(b"x" * 49_999)
    assert quick.statuses == [200]
    for client in (quick, slow, stalled, came):
        client.leave()


def test_a_body_that_the_server_holds_back_does_not_give_way(connect: Connect) -> None:
    client = connect(
        lambda request: asyncio.Event().wait(), max_connections=1, read_ahead_bytes=10, early_start_bytes=1
    )
    client.send(PART + b"x" * 5000)
    look(client, after=1)
    look(client, after=9)
    assert client.connection.late_body is None
    client.leave()


@pytest.mark.parametrize("comes_from", ["10.0.0.1:9", "10.0.0.2:9"])
def test_silent_websockets_of_one_client_give_way_to_others(connect: Connect, comes_from: str) -> None:
    first = connect(echo, max_connections=3)
    clients = [first, first.another(), first.another()]
    for client in clients:
        client.connection.data_received(handshake())
        client.settle()
    state = first.state
    for client, after in zip(clients, (2.0, 1.0, 3.0), strict=True):
        state.now += after
        client.transport.protocol.data_received(frame(TEXT, b"hello"))
        client.settle()
    connections = [client.transport.protocol for client in clients]
    state.now += 4
    found = connection_that_gives_way(connections, comes_from, state.now)
    if comes_from.startswith("10.0.0.1:"):
        assert found is None
        leave(clients)
        return
    assert found is connections[0]  # the last message of it is the oldest
    found.give_way()
    assert b"others wait" in clients[0].transport.written
    # Of two connections two clients have one each: nobody holds more than a share.
    assert connection_that_gives_way(connections[:1], comes_from, state.now + 9) is None
    leave(clients)


def leave(clients: Any) -> None:
    for client in clients:
        protocol, client.transport.protocol = client.transport.protocol, None
        protocol.connection_lost(None)
        client.settle()
