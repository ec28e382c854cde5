"""Servers that are gone, slow or busy: a call of a client ends within its limit, whatever comes or does not come."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest

import trilith
from trilith.errors import DeadlineExceeded, InvalidConfig
from trilith.service import describe
from trilith.service.openapi import openapi_document


@trilith.service
class Quick:
    @trilith.api(timeout_s=0.2)
    async def answer(self, data: bytes) -> int:
        return 1


@contextlib.contextmanager
def serving(post):
    """A server of `Quick` whose calls are answered by `post(handler)`; its address."""
    document = msgspec.json.encode(openapi_document(describe(Quick)))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(document)))
            self.end_headers()
            self.wfile.write(document)

        def do_POST(self):
            with contextlib.suppress(OSError):
                post(self)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def call(url, *, asynchronous, data=b"x", **options):
    if not asynchronous:
        with trilith.client(url, **options) as client:
            return client.answer(data)

    async def main():
        async with trilith.client(url, asynchronous=True, **options) as client:
            return await client.answer(data)

    return asyncio.run(main())


@pytest.fixture
def over():
    """Set when a test is over: its server hangs until then."""
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_server_that_is_gone_is_not_waited_for_beyond_the_methods_limit(asynchronous, over):
    with serving(lambda handler: over.wait(30)) as url:
        with pytest.raises(DeadlineExceeded, match=r"for longer than the method's own limit of 0\.2 s"):
            call(url, asynchronous=asynchronous)
        with pytest.raises(DeadlineExceeded, match=r"client's time limit of 0\.1 s"):
            call(url, asynchronous=asynchronous, timeout_s=0.1)
        over.set()


@pytest.mark.parametrize("asynchronous", [True, False])
def test_the_limit_is_one_of_the_whole_call(asynchronous, over):
    sent = []

    def trickle(handler):
        handler.send_response(200)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", "1000")
        handler.end_headers()
        while len(sent) < 1000 and not over.wait(0.02):
            handler.wfile.write(b"1")
            sent.append(1)

    with serving(trickle) as url:
        with pytest.raises(DeadlineExceeded, match=r"client's time limit of 0\.1 s"):
            call(url, asynchronous=asynchronous, timeout_s=0.1)
        over.set()
    assert len(sent) < 1000


@pytest.mark.parametrize("asynchronous", [True, False])
def test_what_is_sent_slowly_counts_too(asynchronous, over):
    def sip(handler):
        while not over.wait(0.02) and handler.rfile.read(1 << 16):
            pass

    with serving(sip) as url:
        with pytest.raises(DeadlineExceeded, match=r"client's time limit of 0\.1 s"):
            call(url, asynchronous=asynchronous, timeout_s=0.1, data=bytes(64 << 20))
        over.set()


@pytest.mark.parametrize("asynchronous", [True, False])
def test_it_is_the_servers_error_that_is_seen(asynchronous):
    def overdue(handler):
        time.sleep(float(handler.headers["trilith-timeout-ms"]) / 1e3)
        body = b'{"error": {"code": "deadline_exceeded", "message": "the server says so"}}'
        handler.send_response(504)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    with serving(overdue) as url, pytest.raises(DeadlineExceeded, match="the server says so"):
        call(url, asynchronous=asynchronous, timeout_s=0.5)


def test_connections_are_as_many_as_was_said():
    under_way, most, lock = [0], [0], threading.Lock()

    def answer(handler):
        with lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        handler.rfile.read(int(handler.headers["content-length"]))
        time.sleep(0.05)
        with lock:
            under_way[0] -= 1
        handler.send_response(200)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", "1")
        handler.end_headers()
        handler.wfile.write(b"1")

    async def many(url):
        async with trilith.client(url, asynchronous=True, connections=3) as client:
            return await asyncio.gather(*(client.answer(b"x") for _ in range(12)))

    with serving(answer) as url:
        assert asyncio.run(many(url)) == [1] * 12
    assert most == [3]


def test_a_busy_client_says_that_it_is_and_no_client_is_without_connections(over):
    async def two(url):
        async with trilith.client(url, asynchronous=True, connections=1) as client:
            first = asyncio.ensure_future(client.with_timeout(30).answer(b"x"))
            assert await asyncio.to_thread(hangs.wait, 20)
            with pytest.raises(DeadlineExceeded, match=r"no connection to .* was free .*connections=N"):
                await client.with_timeout(0.1).answer(b"x")
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)

    hangs = threading.Event()

    def hang(handler):
        hangs.set()
        over.wait(30)

    with serving(hang) as url:
        asyncio.run(two(url))
        over.set()
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(InvalidConfig, match="connections: expected a whole number from 1"):
            trilith.client("http://127.0.0.1:1", connections=wrong)


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan"), float("inf"), "x", True])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_time_limit_that_is_none_is_refused(timeout_s, asynchronous):
    with pytest.raises(InvalidConfig, match="timeout_s: expected seconds above 0"):
        trilith.client("http://127.0.0.1:1", asynchronous=asynchronous, timeout_s=timeout_s)


def test_a_time_limit_that_is_none_is_refused_for_a_copy_too():
    client = trilith.client("http://127.0.0.1:1", asynchronous=True, timeout_s=5)
    with pytest.raises(InvalidConfig, match="timeout_s: expected seconds above 0"):
        client.with_timeout(0)
