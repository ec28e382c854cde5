"""Requests and answers over real sockets, answers parsed by h11."""

import asyncio
import os
from collections.abc import AsyncIterator

import orjson
from http1_live import CHUNKED, echo, get, post, run, serving
from waiting import settled, until

from trilith.errors import UnknownModel
from trilith.net.http1 import HttpRequest


def test_echo_and_the_fixed_headers() -> None:
    async def main() -> None:
        async with serving(echo) as live:
            status, headers, body = await live.ask(post(b"abc", "X-Request-Id: mine"), "POST")
            assert (status, body) == (200, b"abc")
            assert headers[b"server"] == b"trilith"
            assert headers[b"date"].endswith(b" GMT")
            assert headers[b"x-request-id"] == b"mine"
            assert headers[b"content-type"] == b"application/json"
            assert b"connection" not in headers

    run(main)


def test_bodies_of_all_sizes_and_cuts_on_one_connection() -> None:
    async def main() -> None:
        async with serving(echo, early_start_bytes=50_000, read_ahead_bytes=10_000) as live:
            client = await live.connect()
            for size in (0, 1, 9_999, 10_001, 49_999, 50_001, 300_000, 2_000_000):
                body = os.urandom(size)
                await client.send(post(body))
                ((status, _, answer),) = await client.answers("POST")
                assert (status, answer == body) == (200, True)
                pieces = [body[at : at + 70_000] for at in range(0, size, 70_000)]
                chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
                await client.send(CHUNKED + chunks + b"0\r\n\r\n")
                ((status, _, answer),) = await client.answers("POST")
                assert (status, answer == body) == (200, True)

    run(main)


def test_on_the_standard_event_loop() -> None:
    async def main() -> None:
        async with serving(echo, read_ahead_bytes=1000) as live:
            for body in (b"abc", b"x" * 3_000_000):
                status, _, answer = await live.ask(post(body), "POST")
                assert (status, answer == body) == (200, True)

    asyncio.run(main())


def test_a_request_in_single_bytes() -> None:
    async def main() -> None:
        async with serving(echo) as live:
            client = await live.connect()
            for byte in post(b"abc"):
                await client.send(bytes([byte]))
                await asyncio.sleep(0)
            ((status, _, body),) = await client.answers("POST")
            assert (status, body) == (200, b"abc")

    run(main)


def test_pipelining_with_slow_and_fast_answers() -> None:
    async def app(request: HttpRequest) -> None:
        await asyncio.sleep(0.02 if request.path.endswith("0") else 0)
        request.respond(200, request.path.encode())

    async def main() -> None:
        async with serving(app, max_pipelined=3) as live:
            client = await live.connect()
            await client.send(b"".join(get(f"/{number}") for number in range(40)))
            answers = await client.answers(*["GET"] * 40)
            assert [body for _, _, body in answers] == [b"/%d" % number for number in range(40)]

    run(main)


def test_pipelined_large_answers_wait_for_the_reader() -> None:
    """The answers of one packet of requests must not pile up for a client that does not read."""

    def app(request: HttpRequest) -> None:
        request.respond(200, b"x" * 1_000_000)

    async def main() -> None:
        async with serving(app) as live:
            client = await live.connect(limit=1000)
            for _ in range(50):
                await client.send(get())
                await asyncio.sleep(0.001)
            assert await settled(lambda: live.server.statistics().requests) < 50
            answers = await client.answers(*["GET"] * 50)
            assert all(len(body) == 1_000_000 for _, _, body in answers)

    run(main)


def test_head_http10_and_close() -> None:
    async def main() -> None:
        async with serving(lambda request: request.respond(200, b"abc")) as live:
            client = await live.connect()
            await client.send(b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n" + get())
            (_, headers, body), (_, _, second) = await client.answers("HEAD", "GET")
            assert (headers[b"content-length"], body, second) == (b"3", b"", b"abc")

            client = await live.connect()
            await client.send(b"GET / HTTP/1.0\r\n\r\n")
            assert (await client.rest()).endswith(b"connection: close\r\n\r\nabc")

            client = await live.connect()
            await client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            ((_, headers, _),) = await client.answers("GET")
            assert headers[b"connection"] == b"keep-alive"
            await client.send(get("/", "Connection: close"))
            assert b"connection: close" in await client.rest()

    run(main)


def test_continue() -> None:
    async def main() -> None:
        async with serving(echo) as live:
            client = await live.connect()
            await client.send(post(b"", "Expect: 100-continue", length=3))
            assert await client.reader.readexactly(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
            await client.send(b"abc")
            ((status, _, body),) = await client.answers("POST")
            assert (status, body) == (200, b"abc")

    run(main)


def test_streaming_both_ways_at_once() -> None:
    async def app(request: HttpRequest) -> None:
        async def upper() -> AsyncIterator[bytes]:
            async for piece in request.chunks():
                yield piece.upper()

        await request.stream(upper(), content_type=b"text/plain")

    async def main() -> None:
        async with serving(app, read_ahead_bytes=5_000, write_buffer_bytes=5_000) as live:
            client = await live.connect()
            await client.send(CHUNKED)

            async def feed() -> None:
                for _ in range(300):
                    await client.send(b"2710\r\n" + b"abcdefghij" * 1000 + b"\r\n")
                await client.send(b"0\r\n\r\n")

            feeding = asyncio.ensure_future(feed())
            ((status, _, body),) = await client.answers("POST")
            await feeding
            assert status == 200
            assert body == b"ABCDEFGHIJ" * 300_000

    run(main)


def test_a_slow_reader_stops_the_producer() -> None:
    made = 0

    async def source() -> AsyncIterator[bytes]:
        nonlocal made
        for _ in range(1000):
            made += 1
            yield b"z" * 65536

    async def main() -> None:
        async with serving(lambda request: request.stream(source())) as live:
            client = await live.connect(limit=1000)
            await client.send(get())
            assert await settled(lambda: made) < 500
            ((_, _, body),) = await client.answers("GET")
            assert len(body) == 1000 * 65536

    run(main)


def test_a_slow_handler_stops_the_sender() -> None:
    go = asyncio.Event()

    async def app(request: HttpRequest) -> None:
        await go.wait()
        total = 0
        async for piece in request.chunks():
            total += len(piece)
        request.respond(200, b"%d" % total)

    async def main() -> None:
        async with serving(app) as live:
            client = await live.connect()
            size = 40_000_000
            sending = asyncio.ensure_future(client.send(post(b"x" * size)))
            assert await settled(lambda: live.server.statistics().bytes_received) < 1_000_000
            assert not sending.done()
            go.set()
            ((_, _, body),) = await client.answers("POST")
            await sending
            assert body == b"%d" % size

    run(main)


def test_a_stream_that_fails_is_cut() -> None:
    async def source() -> AsyncIterator[bytes]:
        yield b"part"
        await asyncio.sleep(0.01)
        raise UnknownModel("gone in the middle")

    async def main() -> None:
        async with serving(lambda request: request.stream(source())) as live:
            client = await live.connect()
            await client.send(get())
            received = await client.rest()
            assert b"4\r\npart\r\n" in received
            assert not received.endswith(b"0\r\n\r\n")
            assert live.server.statistics().aborted_streams == 1

    run(main)


def test_errors_are_json_with_the_request_id() -> None:
    def app(request: HttpRequest) -> None:
        raise UnknownModel("no model 'x' is loaded")

    async def main() -> None:
        async with serving(app) as live:
            status, headers, body = await live.ask(get("/", "X-Request-Id: q7"))
            assert status == 404
            assert headers[b"x-request-id"] == b"q7"
            expected = {"code": "unknown_model", "message": "no model 'x' is loaded", "request_id": "q7"}
            assert orjson.loads(body) == {"error": expected}

    run(main)


def test_statistics() -> None:
    async def main() -> None:
        async with serving(echo) as live:
            client = await live.connect()
            await client.send(post(b"abc") + get())
            await client.answers("POST", "GET")
            found = live.server.statistics()
            assert (found.connections, found.requests, found.in_flight) == (1, 2, 0)
            assert dict(found.responses) == {200: 2}
            assert found.bytes_received == len(post(b"abc") + get())
            assert found.bytes_sent > 100
            assert "1 connections" in repr(live.server)
            await client.close()
            await until(lambda: live.server.statistics().connections == 0)

    run(main)
