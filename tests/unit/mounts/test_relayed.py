"""Exchanges whose messages come through middleware."""

from __future__ import annotations

import asyncio
from collections import deque

import pytest

from trilith.service.mounts.exchange import ClientGone, Phase
from trilith.service.mounts.relayed import RelayedExchange, RelayedSocket
from trilith.service.mounts.socket import SocketClosed

SCOPE = {
    "type": "http",
    "method": "POST",
    "raw_path": b"/ui/x",
    "root_path": "/ui",
    "query_string": b"q",
    "headers": [[b"a", b"b"]],
    "client": ("c", 1),
    "server": ("s", 2),
    "scheme": "http",
    "http_version": "1.1",
}
SOCKET = {**SCOPE, "type": "websocket", "scheme": "wss", "subprotocols": ["chat"]}


class Other:
    """The side of the middleware."""

    def __init__(self, *messages):
        self.sent = []
        self.gone = False
        self._messages = deque(messages)

    async def receive(self):
        if not self._messages:
            await asyncio.sleep(1000)
        return self._messages.popleft()

    async def send(self, message):
        if self.gone:
            raise ConnectionError("gone")
        self.sent.append(message)


def test_a_request_and_its_answer():
    async def main():
        other = Other(
            {"type": "http.request", "body": b"ab", "more_body": True},
            {"type": "http.request", "body": b"", "more_body": True},
            {"type": "http.request", "body": b"c"},
        )
        exchange = RelayedExchange(SCOPE, other.receive, other.send)
        assert (exchange.head.path, exchange.head.raw_path_below, exchange.head.websocket) == ("/ui/x", b"/x", False)
        over = asyncio.ensure_future(exchange.wait_over())  # beside who reads
        assert [await exchange.receive() for _ in range(3)] == [b"ab", b"c", None]
        await exchange.start(201, [(b"X-Odd", b"1")])
        await exchange.send(b"d")
        await exchange.finish(b"e")
        over.cancel()
        with pytest.raises(RuntimeError, match="begun before"):
            await exchange.start(200)
        return other.sent

    start, *body = asyncio.run(main())
    assert start == {"type": "http.response.start", "status": 201, "headers": [(b"x-odd", b"1")]}
    assert [(one["body"], one["more_body"]) for one in body] == [(b"d", True), (b"e", False)]


def test_a_client_that_goes():
    async def main():
        other = Other({"type": "http.disconnect"})
        exchange = RelayedExchange(SCOPE, other.receive, other.send)
        with pytest.raises(ClientGone):
            await exchange.receive()
        await exchange.wait_over()
        assert exchange.gone
        other = Other({"type": "http.request"}, {"type": "http.disconnect"})
        exchange = RelayedExchange(SCOPE, other.receive, other.send)
        over = asyncio.ensure_future(exchange.wait_over())
        await asyncio.sleep(0)
        assert not over.done()
        assert await exchange.receive() is None
        await over
        assert exchange.gone
        exchange = RelayedExchange(SCOPE, other.receive, other.send)
        other.gone = True
        with pytest.raises(ClientGone):
            await exchange.start(200)
        assert exchange.gone

    asyncio.run(main())


def test_a_websocket():
    async def main():
        other = Other(
            {"type": "websocket.connect"},
            {"type": "websocket.receive", "text": "a"},
            {"type": "websocket.receive", "bytes": b"b"},
            {"type": "websocket.disconnect", "code": 4000, "reason": "bye"},
        )
        socket = RelayedSocket(SOCKET, other.receive, other.send)
        assert (socket.head.scheme, socket.head.subprotocols, socket.head.websocket) == ("https", ("chat",), True)
        await socket.accept("chat", [(b"X-Odd", b"1")])
        assert [await socket.receive_message(), await socket.receive_message()] == ["a", b"b"]
        await socket.send_message("c")
        await socket.send_message(b"d")
        for _ in range(2):
            with pytest.raises(SocketClosed) as closed:
                await socket.receive_message()
            assert (closed.value.code, closed.value.reason) == (4000, "bye")
        with pytest.raises(ClientGone):
            await socket.send_message("late")
        await socket.wait_over()
        return other.sent

    assert asyncio.run(main()) == [
        {"type": "websocket.accept", "subprotocol": "chat", "headers": [(b"x-odd", b"1")]},
        {"type": "websocket.send", "text": "c"},
        {"type": "websocket.send", "bytes": b"d"},
    ]


def test_a_websocket_is_closed_or_refused():
    async def main():
        other = Other({"type": "websocket.connect"})
        socket = RelayedSocket(SOCKET, other.receive, other.send)
        await socket.accept()
        await socket.close(4001, "so")
        assert socket.phase is Phase.FINISHED
        refused = RelayedSocket(SOCKET, other.receive, other.send)
        assert await refused.receive() is None
        await refused.start(403)
        await refused.finish(b"no")
        return other.sent[1:]

    assert [one["type"] for one in asyncio.run(main())] == [
        "websocket.close",
        "websocket.http.response.start",
        "websocket.http.response.body",
    ]


def test_a_websocket_is_open_from_its_acceptance_to_its_close_and_a_refusal_opens_none():
    async def main():
        other = Other({"type": "websocket.connect"})
        socket = RelayedSocket(SOCKET, other.receive, other.send)
        assert not socket.open
        await socket.accept()
        assert socket.open
        await socket.close()
        assert not socket.open
        refused = RelayedSocket(SOCKET, other.receive, other.send)
        await refused.start(401)
        assert not refused.open

    asyncio.run(main())
