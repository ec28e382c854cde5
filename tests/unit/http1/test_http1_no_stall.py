"""Whatever happens in whatever order: nothing stalls, and every request is answered once, in order."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trilith.net.http1.request import HttpRequest

MODES = ["now", "later", "body", "chunks", "half", "ignore", "slow", "stream", "mirror"]


class App:
    """Treats each request as its path says."""

    def __init__(self) -> None:
        self.held: list[HttpRequest] = []
        self.gates: list[asyncio.Future[None]] = []
        self.seen: list[str] = []

    def __call__(self, request: HttpRequest) -> Any:
        self.seen.append(request.path)
        mode = request.path.split("/")[1]
        if mode == "now" and request.complete:
            return request.respond(200, request.body_nowait())
        if mode == "later":
            return self.held.append(request)
        if mode == "ignore":
            return request.respond(200, b"ignored")
        return self.work(request, mode)

    async def work(self, request: HttpRequest, mode: str) -> None:
        if mode in ("chunks", "half"):
            async for _ in request.chunks():
                await asyncio.sleep(0)
                if mode == "half":
                    break
            request.respond(200)
        elif mode == "slow":
            await self.gate()
            request.respond(200, await request.body())
        elif mode == "stream":
            await request.stream(self.source())
        elif mode == "mirror":
            await request.stream(request.chunks())
        else:
            request.respond(200, await request.body())

    async def source(self) -> AsyncIterator[bytes]:
        yield b"first"
        await self.gate()
        yield b"last"

    def gate(self) -> "asyncio.Future[None]":
        future = asyncio.get_running_loop().create_future()
        self.gates.append(future)
        return future

    def advance(self) -> bool:
        """Lets the oldest thing that waits go on. Returns whether there was one."""
        if self.held:
            self.held.pop(0).respond(200)
        elif self.gates:
            self.gates.pop(0).set_result(None)
        else:
            return False
        return True


@st.composite
def request_bytes(draw: st.DrawFn) -> tuple[str, bytes]:
    path = f"/{draw(st.sampled_from(MODES))}/{draw(st.integers(0, 999))}"
    size = draw(st.sampled_from([0, 1, 9, 15, 40, 130]))
    head = f"POST {path} HTTP/1.1\r\nHost: h\r\n".encode()
    if draw(st.booleans()):
        chunk = b"%x\r\n%b\r\n" % (size, b"x" * size) if size else b""
        return path, head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk + b"0\r\n\r\n"
    return path, head + b"Content-Length: %d\r\n\r\n" % size + b"x" * size


def play(client: Any, app: App, data: bytes, cuts: list[int], turns: list[str]) -> None:
    """Sends `data` in pieces; like a transport, delivers nothing while the socket is paused."""
    client.loop.run_until_complete(asyncio.sleep(0))
    while data and not client.transport.closed and not client.transport.eof:
        turn = turns.pop() if turns else "send"
        if turn == "advance":
            app.advance()
        elif turn == "full" and not client.connection.write_paused:
            client.connection.pause_writing()
        elif turn == "empty" and client.connection.write_paused:
            client.connection.resume_writing()
        elif client.transport.reading:
            size = cuts.pop() if cuts else 64
            piece, data = data[:size], data[size:]
            client.connection.data_received(piece)
        elif client.connection.write_paused:
            client.connection.resume_writing()
        else:
            assert app.advance(), "held for ever"
        client.settle()
    if client.connection.write_paused:
        client.connection.resume_writing()
    client.settle()
    while app.advance():
        client.settle()


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(request_bytes(), min_size=1, max_size=6),
    st.lists(st.integers(1, 90), max_size=20),
    st.lists(st.sampled_from(["send", "send", "advance", "full", "empty"]), max_size=30),
)
def test_nothing_stalls(
    connect: Callable[..., Any], messages: list[tuple[str, bytes]], cuts: list[int], turns: list[str]
) -> None:
    app = App()
    client = connect(app, read_ahead_bytes=10, early_start_bytes=30, discard_bytes=50, max_pipelined=2)
    play(client, app, b"".join(data for _, data in messages), cuts, turns)
    written = client.transport.written
    assert client.statuses == [200] * len(app.seen)
    assert app.seen == [path for path, _ in messages][: len(app.seen)]
    if b"connection: close" in written:
        assert client.transport.eof or client.transport.closed
    else:
        assert len(app.seen) == len(messages)
        assert client.transport.reading
        assert not client.connection.busy
