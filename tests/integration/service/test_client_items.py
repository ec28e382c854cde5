"""Calls whose caller gives items, against a server that answers early, late, badly or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator

import msgspec
import pytest

import trilith
from trilith.core.context import Context, current_context
from trilith.core.timeline import Timeline
from trilith.errors import DeadlineExceeded, InvalidConfig, InvalidInput, NoReadyReplica, ReplicaLost
from trilith.service import describe, openapi_document
from trilith.service.client import remote_methods

TRACE = f"00-{'1' * 32}-{'2' * 16}-01"


@trilith.service(timeout_s=0.3)
class Taking:
    @trilith.api
    def total(self, words: Iterator[str]) -> str: ...

    @trilith.api
    def echo(self, words: Iterator[str]) -> Iterator[str]: ...

    @trilith.api
    def count(self, n: int = 1) -> Iterator[str]: ...

    @trilith.api
    def one(self) -> str: ...


DOCUMENT = msgspec.json.encode(openapi_document(describe(Taking)))


def answer_of(body, status=200, kind="application/json"):
    head = f"HTTP/1.1 {status} Said\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    return head.encode() + body


class Server:
    """Answers POST by `post(reader, writer)`, on a loop of its own.

    Attributes:
        heads: of the requests, as they came.
        open_now, most_open: connections with a POST.
    """

    def __init__(self, post, port=0):
        self.heads, self.open_now, self.most_open = [], 0, 0
        self._post = post
        self._loop = asyncio.new_event_loop()
        started = threading.Event()

        async def start():
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
            self.port = self._server.sockets[0].getsockname()[1]
            started.set()

        def run():
            asyncio.set_event_loop(self._loop)
            self._loop.create_task(start())
            self._loop.run_forever()

        self._thread = threading.Thread(target=run)
        self._thread.start()
        assert started.wait(20)
        self.url = f"http://127.0.0.1:{self.port}"

    async def _serve(self, reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET /openapi.json"):
                writer.write(answer_of(DOCUMENT))
            else:
                self.heads.append(head)
                self.open_now += 1
                self.most_open = max(self.most_open, self.open_now)
                try:
                    await self._post(reader, writer)
                finally:
                    self.open_now -= 1
            await writer.drain()
        writer.close()

    def close(self):
        if self._loop.is_closed():
            return

        async def stop():
            self._server.close()
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(stop(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def serving():
    servers = []

    def start(post, port=0):
        servers.append(Server(post, port))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def over():
    """Set when a test is over: what hangs ends then."""
    event = threading.Event()
    yield event
    event.set()


def call(url, method, make, *, asynchronous, **options):
    """What a method answers to items that `make` makes."""
    if not asynchronous:
        with trilith.client(url, **options) as client:
            found = getattr(client, method)(make())
            return list(found) if method == "echo" else found

    async def items():
        for item in make():
            yield item
            await asyncio.sleep(0.01)

    async def main():
        async with asyncio.timeout(20), trilith.client(url, asynchronous=True, **options) as client:
            found = getattr(client, method)(items())
            return [item async for item in found] if method == "echo" else await found

    return asyncio.run(main())


async def early(reader, writer):
    """Answers after the first item, and resets the connection of who then still sends."""
    await reader.readuntil(b"a")
    writer.write(answer_of(b'"early"'))
    await writer.drain()
    await asyncio.sleep(0.05)
    writer.transport.abort()


async def early_failure(reader, writer):
    await reader.readuntil(b"a")
    writer.write(answer_of(b'{"error":{"code":"invalid_input","message":"no such word"}}', 400))
    await writer.drain()
    await asyncio.sleep(0.05)
    writer.transport.abort()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_answer_is_given_as_soon_as_it_comes_and_the_sending_stops(serving, asynchronous):
    closed = threading.Event()
    given = []

    def endless():
        try:
            while True:
                given.append("a")
                yield "a"
                time.sleep(0.001)
        finally:
            closed.set()

    assert call(serving(early).url, "total", endless, asynchronous=asynchronous) == "early"
    assert closed.wait(20)
    with pytest.raises(InvalidInput, match="no such word"):
        call(serving(early_failure).url, "total", endless, asynchronous=asynchronous)


def test_an_answer_is_not_late_because_the_next_item_is(serving, over):
    def slow():
        yield "a"
        over.wait(60)
        yield "b"

    began = time.monotonic()
    assert call(serving(early).url, "total", slow, asynchronous=False) == "early"
    assert time.monotonic() - began < 30
    assert not over.is_set()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_the_items_raise_is_raised(serving, asynchronous):
    async def wait(reader, writer):
        await reader.read(-1)

    def bad():
        yield "a"
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        call(serving(wait).url, "total", bad, asynchronous=asynchronous)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("method", ["total", "echo"])
def test_a_caller_that_takes_its_time_is_waited_for_and_a_silent_server_is_not(serving, over, method, asynchronous):
    async def late(reader, writer):
        await reader.readuntil(b"0\r\n\r\n")
        writer.write(answer_of(b'data: "late"\n\n', kind="text/event-stream"))

    async def silent(reader, writer):
        await reader.readuntil(b"0\r\n\r\n")
        await asyncio.sleep(60)

    def slow():
        for item in "abc":
            yield item
            over.wait(0.4)  # the method's limit is 0.3 s

    if method == "echo":
        assert call(serving(late).url, method, slow, asynchronous=asynchronous) == ["late"]
    with pytest.raises(DeadlineExceeded, match=r"for longer than the method's own limit of 0\.3 s"):
        call(serving(silent).url, method, lambda: iter("ab"), asynchronous=asynchronous)


def test_every_call_passes_the_trace_of_its_caller_on(serving):
    async def refuse(reader, writer):
        writer.write(answer_of(b"", 404))

    server = serving(refuse)
    token = current_context.set(Context(request_id="r", timeline=Timeline("x", 3), headers={"traceparent": TRACE}))
    try:
        for asynchronous in (False, True):
            for method in ("total", "echo"):
                with pytest.raises(trilith.errors.TrilithError):
                    call(server.url, method, lambda: iter("a"), asynchronous=asynchronous)
        with trilith.client(server.url) as client, trilith.client(server.url, websockets=True) as sockets:
            for calls in (client.one, lambda: list(client.count(n=1)), lambda: list(sockets.echo(["a"]))):
                with pytest.raises(trilith.errors.TrilithError):
                    calls()
    finally:
        current_context.reset(token)
    assert len(server.heads) == 7
    assert [TRACE.encode() in head for head in server.heads] == [True] * 7


def test_there_are_no_more_calls_under_way_than_was_said(serving):
    async def answer(reader, writer):
        await asyncio.sleep(0.05)
        writer.write(answer_of(b'"x"'))

    server = serving(answer)

    async def many():
        async with trilith.client(server.url, asynchronous=True, connections=3) as client:

            async def echoed():
                with contextlib.suppress(ReplicaLost):
                    return [item async for item in client.echo(["a"])]

            calls = [work for _ in range(4) for work in (client.total(["a"]), echoed(), client.one())]
            return await asyncio.gather(*calls)

    asyncio.run(many())
    assert len(server.heads) == 12
    assert server.most_open == 3

    with trilith.client(server.url, connections=2) as client:
        threads = [threading.Thread(target=client.total, args=(["a"],)) for _ in range(6)]
        server.most_open = 0
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert server.most_open == 2


def test_a_call_that_waits_for_its_turn_has_a_limit_and_one_that_is_left_gives_its_turn_back(serving, over):
    came = threading.Event()

    async def stream(reader, writer):
        writer.write(b'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: "x"\n\n')
        await writer.drain()
        came.set()
        await reader.read(-1)

    server = serving(stream)
    with trilith.client(server.url, connections=1) as client:
        for held in (client.count(n=1), client.echo(iter("a"))):
            assert next(held) == "x"
            for busy in (lambda: client.with_timeout(0.1).one(), lambda: client.with_timeout(0.1).total(["a"])):
                with pytest.raises(DeadlineExceeded, match=r"no connection to .* was free .*connections=N"):
                    busy()
            held.close()


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("method", ["total", "echo"])
def test_a_connection_is_tried_again_and_no_item_is_lost(serving, method, asynchronous):
    async def gather(reader, writer):
        got = (await reader.readuntil(b"0\r\n\r\n")).count(b'"')
        writer.write(answer_of(b'data: "%d"\n\n' % got, kind="text/event-stream"))

    async def gather_one(reader, writer):
        got = (await reader.readuntil(b"0\r\n\r\n")).count(b'"')
        writer.write(answer_of(b'"%d"' % got))

    answer = gather if method == "echo" else gather_one
    first = serving(answer)
    port = first.port
    asked = []

    def items():
        asked.append(1)
        yield from "ab"

    async def later():
        async with trilith.client(first.url, asynchronous=True) as client:
            await asyncio.to_thread(first.close)

            async def given():
                for item in items():
                    yield item

            async def begin():
                found = getattr(client, method)(given())
                return [item async for item in found] if method == "echo" else await found

            work = asyncio.ensure_future(begin())
            await asyncio.sleep(0.05)
            assert asked == []
            await asyncio.to_thread(serving, answer, port)
            return await work

    def plain():
        with trilith.client(first.url) as client:
            first.close()
            timer = threading.Timer(0.05, serving, (answer, port))
            timer.start()
            found = getattr(client, method)(items())
            found = list(found) if method == "echo" else found
            timer.join()
            return found

    found = asyncio.run(later()) if asynchronous else plain()
    assert found == (["4"] if method == "echo" else "4")
    assert asked == [1]


@pytest.mark.parametrize("method", ["total", "echo"])
def test_without_a_server_it_is_said_after_the_last_try(serving, method):
    server = serving(early)
    with trilith.client(server.url, retries=1) as client:
        server.close()
        with pytest.raises(NoReadyReplica, match="nothing answers at"):
            list(getattr(client, method)(["a"]))


def test_a_head_without_an_end_is_not_read_for_ever(serving):
    async def endless(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nx-long: ")
        while True:
            writer.write(b"a" * 60_000)
            await writer.drain()

    server = serving(endless)
    for method in ("total", "echo"):
        for asynchronous in (False, True):
            with pytest.raises(ReplicaLost, match="head of the answer is longer than 65536 bytes"):
                call(server.url, method, lambda: iter("a"), asynchronous=asynchronous, timeout_s=20)


def test_who_is_named_in_the_address_is_told_to_the_server_alone(serving):
    async def answer(reader, writer):
        writer.write(answer_of(b'"x"'))

    server = serving(answer)
    url = server.url.replace("//", "//ann:pa%20ss@")
    assert call(url, "total", lambda: iter("a"), asynchronous=False) == "x"
    [head] = server.heads
    assert b"host: 127.0.0.1:%d\r\n" % server.port in head
    assert b"authorization: Basic YW5uOnBhIHNz\r\n" in head


def test_a_closed_client_says_so(serving):
    server = serving(early)
    client = trilith.client(server.url)
    client.close()
    for calls in (client.one, lambda: client.total(["a"]), lambda: client.echo(["a"])):
        with pytest.raises(RuntimeError, match="is closed"):
            calls()


def test_who_waits_on_a_loop_of_the_program_and_so_stops_it_gets_an_answer(serving):
    """A plain client in an asynchronous method of a service in this process, which runs on the program's own loop."""
    server = serving(early)

    @trilith.service
    class Waiting:
        @trilith.api
        async def ask(self) -> str:
            with trilith.client(server.url) as client:
                return client.total(["a"])

    @trilith.service
    class Outer:
        waiting = trilith.depends(Waiting)

        @trilith.api
        def go(self) -> str:
            return self.waiting.ask()

    assert Outer().go() == "early"


def test_an_accept_that_http_does_not_allow_is_refused(serving):
    with remote_methods(serving(early).url) as methods, pytest.raises(InvalidConfig, match="the value of 'accept'"):
        methods.call(methods.find("one"), {}, accept="text/plain\r\nx: y")
