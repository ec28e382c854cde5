"""A server on a loopback port, and raw clients that see every byte."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import h11
import uvloop

from trilith.net.http1 import HttpLimits, HttpRequest, HttpServer

Answer = tuple[int, dict[bytes, bytes], bytes]


class Client:
    """A connection whose answers are parsed by h11."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def rest(self) -> bytes:
        """All bytes up to the end of file or a reset."""
        received = bytearray()
        try:
            while chunk := await self.reader.read(1 << 16):
                received += chunk
        except ConnectionError:
            pass
        return bytes(received)

    async def answers(self, *methods: str) -> list[Answer]:
        """The answers to requests of these methods, in order."""
        found: list[Answer] = []
        left = b""
        for method in methods:
            answer, left = await self._answer(method, left)
            found.append(answer)
        assert left == b"", "nothing behind the last answer"
        return found

    async def _answer(self, method: str, left: bytes) -> tuple[Answer, bytes]:
        parser = h11.Connection(h11.CLIENT)
        parser.send(h11.Request(method=method, target="/", headers=[("host", "h")]))
        parser.send(h11.EndOfMessage())
        if left:
            parser.receive_data(left)
        status, headers, body = 0, {}, bytearray()
        while True:
            event = parser.next_event()
            if event is h11.NEED_DATA:
                parser.receive_data(await self.reader.read(1 << 16))
            elif isinstance(event, h11.Response):
                status, headers = event.status_code, dict(event.headers)
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                return (status, headers, bytes(body)), bytes(parser.trailing_data[0])

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except (ConnectionError, ssl.SSLError):
            return


class Live:
    """A running server."""

    def __init__(self, server: HttpServer) -> None:
        self.server = server
        self.host, self.port = server.addresses[0]
        self.clients: list[Client] = []

    async def connect(self, **options: Any) -> Client:
        client = Client(*await asyncio.open_connection(self.host, self.port, **options))
        self.clients.append(client)
        return client

    async def ask(self, data: bytes, method: str = "GET") -> Answer:
        """One request on a connection of its own."""
        client = await self.connect()
        await client.send(data)
        (answer,) = await client.answers(method)
        await client.close()
        return answer


@asynccontextmanager
async def serving(app: Any, *, tls: ssl.SSLContext | None = None, **limits: Any) -> AsyncIterator[Live]:
    limits.setdefault("tick_s", 0.05)
    server = HttpServer(app, limits=HttpLimits(**limits), ssl=tls)
    await server.start()
    live = Live(server)
    try:
        yield live
    finally:
        for client in live.clients:
            await client.close()
        await server.drain(0.5)


def run(main: Callable[[], Awaitable[None]]) -> None:
    """Runs a test's coroutine on uvloop, with a time limit."""

    async def limited() -> None:
        async with asyncio.timeout(20):
            await main()

    uvloop.run(limited())


def get(target: str = "/", *headers: str) -> bytes:
    return "\r\n".join([f"GET {target} HTTP/1.1", "Host: h", *headers, "", ""]).encode()


def post(body: bytes, *headers: str, length: int | None = None, target: str = "/") -> bytes:
    size = len(body) if length is None else length
    lines = [f"POST {target} HTTP/1.1", "Host: h", f"Content-Length: {size}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


CHUNKED = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"


def echo(request: HttpRequest) -> Any:
    """Answers with the body, from the callback where it can."""
    if request.complete:
        return request.respond(200, request.body_nowait())

    async def later() -> None:
        request.respond(200, await request.body())

    return later()
