"""What a server turns down, over real sockets: each is answered, counted, and ends the connection."""

import asyncio
import socket

import orjson
import pytest
from http1_live import CHUNKED, echo, get, post, run, serving
from waiting import until

from trilith.net.http1 import HttpRequest


@pytest.mark.parametrize(
    ("data", "status", "reason", "code"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400, "host", "invalid_input"),
        (b"nonsense\r\n\r\n", 501, "method", "unsupported"),
        (b"GET / HTTP/1.1\r\nHost: h\r\nX : y\r\n\r\n", 400, "malformed", "invalid_input"),
        (post(b"abc", "Transfer-Encoding: chunked"), 400, "malformed", "invalid_input"),
        (get("/" + "u" * 20_000), 414, "url_too_long", "invalid_request"),
        (get("/", "X: " + "v" * 70_000), 431, "head_too_large", "invalid_request"),
        (get("/", *["X: y"] * 101), 431, "head_too_large", "invalid_request"),
        (post(b"", length=1 << 30), 413, "body_too_large", "payload_too_large"),
        (get("/", "Connection: Upgrade", "Upgrade: gopher"), 501, "upgrade", "unsupported"),
        (get("/", "Connection: Upgrade", "Upgrade: websocket"), 426, "websocket_version", "unsupported"),
        (
            get("/", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
            400,
            "websocket_key",
            "invalid_input",
        ),
        (get("/", "Expect: x"), 417, "expectation", "unsupported"),
        (b"GET / HTTP/3.0\r\nHost: h\r\n\r\n", 400, "malformed", "invalid_input"),
        (CHUNKED + b"zz\r\n", 400, "malformed", "invalid_input"),
    ],
)
def test_refused(data: bytes, status: int, reason: str, code: str) -> None:
    async def main() -> None:
        async with serving(echo, linger_timeout_s=0.1) as live:
            client = await live.connect()
            await client.send(data)
            ((got, headers, body),) = await client.answers("GET")
            assert got == status
            assert headers[b"connection"] == b"close"
            error = orjson.loads(body)["error"]
            assert error["code"] == code
            assert error["request_id"] == headers[b"x-request-id"].decode()
            assert await client.rest() == b""
            assert dict(live.server.statistics().refused) == {reason: 1}
            assert (await live.ask(get()))[0] == 200, "the server goes on"

    run(main)


def test_a_client_that_goes_on_sending_can_read_why() -> None:
    """Without the lingering close the reset would overtake the answer."""

    async def main() -> None:
        async with serving(echo, max_body_bytes=1000) as live:
            client = await live.connect()
            await client.send(post(b"x" * 4_000_000))
            ((status, _, _),) = await client.answers("POST")
            assert status == 413

    run(main)


def test_a_chunked_body_is_refused_as_soon_as_it_is_too_long() -> None:
    async def main() -> None:
        async with serving(echo, max_body_bytes=100_000) as live:
            client = await live.connect()
            await client.send(CHUNKED)
            for _ in range(20):
                await client.send(b"2710\r\n" + b"x" * 10_000 + b"\r\n")
            ((status, _, _),) = await client.answers("POST")
            assert status == 413

    run(main)


def test_too_many_connections() -> None:
    async def main() -> None:
        async with serving(echo, max_connections=2, linger_timeout_s=0.1) as live:
            first, second = await live.connect(), await live.connect()
            for client in (first, second):
                await client.send(get())
                await client.answers("GET")
            third = await live.connect()
            ((status, headers, _),) = await third.answers("GET")
            assert status == 503
            assert headers[b"retry-after"] == b"1"
            assert await third.rest() == b""
            await first.close()
            await until(lambda: live.server.statistics().connections == 1)
            assert (await live.ask(get()))[0] == 200
            assert dict(live.server.statistics().refused) == {"connections": 1}

    run(main)


@pytest.mark.parametrize("silent", [b"", b"GET / HT", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"])
def test_a_crowd_that_asks_nothing_keeps_nobody_out(silent: bytes) -> None:
    async def main() -> None:
        async with serving(echo, max_connections=4, max_turned_away=2) as live:
            crowd = []
            for _ in range(20):
                crowd.append(await live.connect())
                await crowd[-1].send(silent)
            for _ in range(10):
                assert (await live.ask(get()))[0] == 200
            assert live.server.statistics().connections <= 4
            await crowd[0].rest()  # ends

    run(main)


@pytest.mark.parametrize(
    ("data", "limits", "status"),
    [
        (b"GET / HT", {"head_timeout_s": 0.1}, 408),
        (post(b"abc", length=10), {"body_timeout_s": 0.1}, 408),
        (CHUNKED + b"3\r\nabc\r\n", {"body_timeout_s": 0.1}, 408),
        (b"", {"idle_timeout_s": 0.1}, None),
        (b"\r\n", {"idle_timeout_s": 0.1}, None),
    ],
)
def test_times(data: bytes, limits: dict[str, float], status: int | None) -> None:
    async def main() -> None:
        async with serving(echo, linger_timeout_s=0.1, **limits) as live:
            client = await live.connect()
            await client.send(data)
            received = await client.rest()
            if status is None:
                assert received == b""
            else:
                assert received.startswith(b"HTTP/1.1 %d " % status)
            await until(lambda: live.server.statistics().connections == 0)

    run(main)


def test_idle_after_an_answer() -> None:
    async def main() -> None:
        async with serving(echo, idle_timeout_s=0.1) as live:
            client = await live.connect()
            await client.send(get())
            assert (await client.rest()).startswith(b"HTTP/1.1 200 ")

    run(main)


def test_a_client_that_never_reads_its_answer() -> None:
    def app(request: HttpRequest) -> None:
        request.respond(200, b"x" * 50_000_000)

    async def main() -> None:
        async with serving(app, write_timeout_s=0.2) as live:
            with socket.create_connection((live.host, live.port)) as client:
                client.sendall(get())
                await until(lambda: live.server.statistics().connections == 1)
                await until(lambda: live.server.statistics().connections == 0)
            assert live.server.statistics().write_timeouts == 1

    run(main)


def test_a_slow_but_steady_reader_is_served() -> None:
    def app(request: HttpRequest) -> None:
        request.respond(200, b"x" * 8_000_000)

    async def main() -> None:
        async with serving(app, write_timeout_s=0.3) as live:
            client = await live.connect(limit=1000)
            await client.send(get("/", "Connection: close"))
            size = 0
            while chunk := await client.reader.read(200_000):
                size += len(chunk)
                await asyncio.sleep(0.01)
            assert size > 8_000_000

    run(main)
