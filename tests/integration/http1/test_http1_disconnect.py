"""A client that goes away, in every state of its connection."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator

import pytest
from http1_live import CHUNKED, get, post, run, serving
from waiting import settled, until

from trilith.net.http1 import HttpRequest


class Watcher:
    """An application that waits for ever and remembers how that ended."""

    def __init__(self, *, task: bool) -> None:
        self.task = task
        self.started: list[str] = []
        self.ended: list[str] = []

    def __call__(self, request: HttpRequest) -> object:
        if self.task:
            return self.wait(request)
        self.started.append(request.path)
        request.on_disconnect = lambda: self.ended.append(request.path)
        return None

    async def wait(self, request: HttpRequest) -> None:
        self.started.append(request.path)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.ended.append(request.path)
            raise


LONG = 5_000_000
SENT = {
    "whole request": get("/a"),
    "pipelined request behind it": get("/a") + get("/b"),
    "half a request behind it": get("/a") + b"GET /b HT",
    "broken request behind it": get("/a") + b"nonsense\r\n\r\n",
    "too many behind it": get("/a") * 30,
    "chunked body half sent": CHUNKED.replace(b"POST /", b"POST /a") + b"3\r\nabc\r\n",
    "long body hardly sent": post(b"x" * 1000, length=LONG, target="/a"),
    "long body unread": post(b"x" * 300_000, length=LONG, target="/a"),
}


@pytest.mark.parametrize("way", ["close", "reset", "half close"])
@pytest.mark.parametrize("sent", SENT)
@pytest.mark.parametrize("task", [True, False])
def test_is_noticed_at_once(sent: str, way: str, task: bool) -> None:
    async def main() -> None:
        app = Watcher(task=task)
        async with serving(app, max_pipelined=4, tick_s=5) as live:
            loop = asyncio.get_running_loop()
            with socket.create_connection((live.host, live.port)) as client:
                client.setblocking(False)
                await loop.sock_sendall(client, SENT[sent])
                await until(lambda: app.started == ["/a"])
                await asyncio.sleep(0.02)
                assert app.ended == []
                if way == "half close":
                    client.shutdown(socket.SHUT_WR)
                else:
                    if way == "reset":
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    client.close()
                async with asyncio.timeout(2):
                    await until(lambda: app.ended == ["/a"])
                    await until(lambda: live.server.statistics().connections == 0)
            assert app.started == ["/a"]
            assert app.ended == ["/a"]
            assert live.server.statistics().disconnects >= 1

    run(main)


@pytest.mark.parametrize("quiet", [True, False])
def test_in_the_middle_of_a_stream(quiet: bool) -> None:
    ended: list[bool] = []

    async def source() -> AsyncIterator[bytes]:
        try:
            yield b"first"
            while True:
                await asyncio.sleep(3600 if quiet else 0.001)
                yield b"x" * 1000
        finally:
            ended.append(True)

    async def main() -> None:
        async with serving(lambda request: request.stream(source())) as live:
            client = await live.connect()
            await client.send(get())
            await client.reader.readuntil(b"first")
            await client.close()
            await until(lambda: ended == [True])
            assert live.server.statistics().disconnects == 1

    run(main)


def test_a_client_that_reads_slowly_and_leaves() -> None:
    ended: list[bool] = []

    async def source() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 65536
        finally:
            ended.append(True)

    async def main() -> None:
        async with serving(lambda request: request.stream(source()), tick_s=5) as live:
            with socket.create_connection((live.host, live.port)) as client:
                client.sendall(get())
                await settled(lambda: live.server.statistics().bytes_sent)
            await until(lambda: ended == [True])
            await until(lambda: live.server.statistics().connections == 0)

    run(main)


def test_many_clients_that_come_and_go_leave_nothing_behind() -> None:
    async def main() -> None:
        app = Watcher(task=True)
        async with serving(app) as live:
            for number in range(300):
                client = await live.connect()
                await client.send(list(SENT.values())[number % len(SENT)])
                if number % 3 == 0:
                    await asyncio.sleep(0.001)
                client.writer.transport.abort()
            live.clients.clear()
            await until(lambda: live.server.statistics().connections == 0)
            await until(lambda: len(app.started) == len(app.ended))
            state = live.server._state
            assert state is not None
            assert not state.hangups._owners

    run(main)
