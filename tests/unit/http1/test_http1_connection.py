"""One connection without sockets: order, pausing, times, endings."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from trilith.errors import Bug, InvalidInput, PayloadTooLarge, QueueFull
from trilith.net.http1.request import HttpRequest

Connect = Callable[..., Any]

GET = b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n"


def post(size: int, body: bytes = b"", *headers: bytes) -> bytes:
    lines = b"".join(header + b"\r\n" for header in headers)
    return b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n%b\r\n%b" % (size, lines, body)


CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(size: int) -> bytes:
    return b"%x\r\n%b\r\n" % (size, b"x" * size)


class Later:
    """An application that answers when it is told to."""

    def __init__(self) -> None:
        self.requests: list[HttpRequest] = []
        self.gone: list[str] = []

    def __call__(self, request: HttpRequest) -> None:
        self.requests.append(request)
        request.on_disconnect = lambda: self.gone.append(request.path)


def echo(request: HttpRequest) -> None:
    request.respond(200, request.path.encode() + request.body_nowait(), content_type=b"text/plain")


class TestOrder:
    def test_pipelined_requests_are_answered_in_order(self, connect: Connect) -> None:
        client = connect(echo)
        client.send(b"".join(GET % b"%d" % number for number in range(100)))
        bodies = [part.partition(b"\r\n\r\n")[2] for part in client.transport.written.split(b"HTTP/1.1 ")[1:]]
        assert bodies == [b"/%d" % number for number in range(100)]
        assert client.transport.reading

    def test_an_answer_waits_for_the_one_before(self, connect: Connect) -> None:
        app = Later()
        client = connect(app)
        client.send(GET % b"1" + GET % b"2")
        assert [request.path for request in app.requests] == ["/1"]
        app.requests[0].respond(200)
        assert [request.path for request in app.requests] == ["/1", "/2"]
        app.requests[1].respond(201)
        assert client.statuses == [200, 201]

    def test_a_refusal_waits_for_its_turn(self, connect: Connect) -> None:
        app = Later()
        client = connect(app)
        client.send(GET % b"1" + b"GET /2 HTTP/1.1\r\n\r\n" + GET % b"3")
        assert client.statuses == []
        app.requests[0].respond(200)
        assert client.statuses == [200, 400]
        assert len(app.requests) == 1
        assert client.transport.eof
        assert client.state.counters.refused == {"host": 1}

    def test_many_waiting_requests_do_not_recurse(self, connect: Connect) -> None:
        app = Later()
        client = connect(app, max_pipelined=5000)
        client.send(GET % b"first")
        client.state.app = echo
        client.send(GET % b"more" * 3000)
        app.requests[0].respond(200)
        assert len(client.statuses) == 3001


class TestPausing:
    """Every way into a pause, and every way out of it."""

    def test_too_many_waiting_requests(self, connect: Connect) -> None:
        app = Later()
        client = connect(app, max_pipelined=2)
        client.send(GET % b"1" + GET % b"2")
        assert client.transport.reading
        client.send(GET % b"3")
        assert not client.transport.reading
        app.requests[0].respond(200)
        assert client.transport.reading

    def test_a_body_that_nobody_reads(self, connect: Connect) -> None:
        app = Later()
        client = connect(app, read_ahead_bytes=10)
        client.send(CHUNKED + chunk(8))
        assert client.transport.reading
        client.send(chunk(8))
        assert not client.transport.reading
        app.requests[0].respond(200)
        assert client.transport.reading, "lingers, so that the client can read the answer"
        assert client.transport.eof

    def test_a_body_between_the_pause_mark_and_the_start_mark(self, connect: Connect) -> None:
        client = connect(echo, read_ahead_bytes=10, early_start_bytes=100)
        client.send(post(60, b"x" * 30))
        assert client.transport.reading
        client.send(b"x" * 30)
        assert client.statuses == [200]
        assert client.transport.reading

    def test_read_in_chunks(self, connect: Connect) -> None:
        release = asyncio.Event()
        got: list[int] = []

        async def app(request: HttpRequest) -> None:
            await release.wait()
            async for piece in request.chunks():
                got.append(len(piece))  # noqa: PERF401 - as it comes
            request.respond(200)

        client = connect(app, read_ahead_bytes=10, early_start_bytes=10)
        client.send(post(40, b"x" * 20))
        assert not client.transport.reading
        release.set()
        client.settle()
        assert client.transport.reading
        client.send(b"x" * 20)
        assert got == [20, 20]
        assert client.statuses == [200]
        assert client.transport.reading
        assert not client.transport.closed

    def test_read_whole(self, connect: Connect) -> None:
        async def app(request: HttpRequest) -> None:
            assert not request.complete
            request.respond(200, await request.body())
            assert request.body_nowait() == b"x" * 40

        client = connect(app, read_ahead_bytes=10, early_start_bytes=10)
        client.send(post(40, b"x" * 20), b"x" * 20)
        assert client.statuses == [200]
        assert client.transport.reading

    def test_complete_while_paused(self, connect: Connect) -> None:
        release = asyncio.Event()

        async def app(request: HttpRequest) -> None:
            await release.wait()
            request.respond(200, await request.body())

        client = connect(app, read_ahead_bytes=10, early_start_bytes=10)
        client.send(post(40, b"x" * 20))
        assert not client.transport.reading
        client.connection.data_received(b"x" * 20)  # what the transport had read already
        assert client.transport.reading, "a complete body holds nobody"
        release.set()
        client.settle()
        assert client.statuses == [200]

    def test_body_over_the_handlers_own_limit(self, connect: Connect) -> None:
        async def app(request: HttpRequest) -> None:
            await request.body(limit=30)

        client = connect(app, read_ahead_bytes=10)
        client.send(CHUNKED + chunk(20), chunk(20))
        assert client.statuses == [413]
        assert client.transport.reading
        client.send(chunk(20), b"0\r\n\r\n")
        assert client.statuses == [413]

    def test_a_waiting_request_with_a_long_body(self, connect: Connect) -> None:
        app = Later()
        client = connect(app, read_ahead_bytes=10, early_start_bytes=10)
        client.send(GET % b"1" + post(40, b"x" * 20))
        assert not client.transport.reading

        async def read(request: HttpRequest) -> None:
            request.respond(200, await request.body())

        client.state.app = read
        app.requests[0].respond(200)
        client.settle()
        assert client.transport.reading
        client.send(b"x" * 20)
        assert client.statuses == [200, 200]

    def test_an_answered_request_discards_the_rest(self, connect: Connect) -> None:
        app = Later()
        client = connect(app, read_ahead_bytes=10, early_start_bytes=10, discard_bytes=100)
        client.send(post(40, b"x" * 20))
        assert not client.transport.reading
        app.requests[0].respond(200)
        assert client.transport.reading
        client.state.app = echo
        client.send(b"x" * 10)
        client.send(b"x" * 10 + GET % b"2")
        assert client.statuses == [200, 200]
        assert not client.transport.closed

    def test_an_answered_request_with_too_much_to_discard(self, connect: Connect) -> None:
        app = Later()
        client = connect(app, read_ahead_bytes=10, early_start_bytes=10, discard_bytes=10)
        client.send(post(40, b"x" * 20))
        app.requests[0].respond(200)
        assert b"connection: close" in client.transport.written
        assert client.transport.eof
        client.send(b"x" * 20 + GET % b"2")
        assert client.statuses == [200]

    def test_a_client_that_does_not_read_may_not_ask(self, connect: Connect) -> None:
        client = connect(echo)
        client.send(GET % b"1")
        client.connection.pause_writing()
        assert not client.transport.reading
        client.connection.resume_writing()
        assert client.transport.reading

    def test_the_request_being_answered_may_be_read_while_its_answer_waits(self, connect: Connect) -> None:
        client = connect(Later())
        client.send(CHUNKED + chunk(8))
        client.connection.pause_writing()
        assert client.transport.reading

    def test_malformed_behind_a_running_request(self, connect: Connect) -> None:
        app = Later()
        client = connect(app)
        client.send(GET % b"1" + b"nonsense\r\n\r\n")
        assert not client.transport.reading, "what comes now is nobody's"
        app.requests[0].respond(200)
        assert client.statuses == [200, 501]
        assert client.transport.reading
        assert client.transport.eof

    def test_two_reasons_at_a_time(self, connect: Connect) -> None:
        app = Later()
        client = connect(app, max_pipelined=1)
        client.send(GET % b"1" + GET % b"2")
        client.connection.pause_writing()
        app.requests[0].respond(200)
        assert not client.transport.reading
        client.connection.resume_writing()
        assert client.transport.reading


class TestContinue:
    def test_sent_when_the_body_is_wanted(self, connect: Connect) -> None:
        async def app(request: HttpRequest) -> None:
            request.respond(200, await request.body())

        client = connect(app)
        client.send(post(3, b"", b"Expect: 100-continue"))
        assert client.transport.written == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.send(b"abc")
        assert client.statuses == [200]
        assert not client.transport.closed

    def test_not_sent_when_the_body_is_here(self, connect: Connect) -> None:
        client = connect(echo)
        client.send(post(3, b"abc", b"Expect: 100-continue"))
        assert client.statuses == [200]
        assert b"100 Continue" not in client.transport.written

    def test_refused_without_it(self, connect: Connect) -> None:
        def app(request: HttpRequest) -> None:
            raise QueueFull("no room")

        client = connect(app)
        client.send(post(3, b"", b"Expect: 100-continue"))
        assert client.statuses == [429]
        assert b"retry-after: 1" in client.transport.written
        assert b"connection: close" in client.transport.written, "whether the body comes or not is unknown"


class TestErrors:
    def test_a_bad_chunk_reaches_the_reader(self, connect: Connect) -> None:
        seen: list[Exception] = []

        async def app(request: HttpRequest) -> None:
            try:
                await request.body()
            except InvalidInput as error:
                seen.append(error)
                raise

        client = connect(app)
        client.send(CHUNKED + chunk(3), b"zz\r\n")
        assert "chunk size" in str(seen[0])
        assert client.statuses == [400]
        assert client.transport.eof
        assert client.state.counters.refused == {"malformed": 1}

    def test_a_chunked_body_over_the_limit_reaches_the_reader(self, connect: Connect) -> None:
        seen: list[Exception] = []

        async def app(request: HttpRequest) -> None:
            try:
                async for _ in request.chunks():
                    pass
            except PayloadTooLarge as error:
                seen.append(error)
                raise

        client = connect(app, max_body_bytes=10)
        client.send(CHUNKED + chunk(8), chunk(8))
        assert len(seen) == 1
        assert client.statuses == [413]
        assert client.state.counters.refused == {"body_too_large": 1}

    def test_a_bad_chunk_of_a_waiting_request(self, connect: Connect) -> None:
        app = Later()
        client = connect(app)
        client.send(GET % b"1" + CHUNKED + chunk(3))
        client.send(b"zz\r\n")
        app.requests[0].respond(200)
        assert client.statuses == [200, 400]
        assert len(app.requests) == 1, "nobody needs to see a request that is known to be broken"

    def test_a_bad_chunk_after_the_answer(self, connect: Connect) -> None:
        client = connect(lambda request: request.respond(200), discard_bytes=10)
        client.send(CHUNKED + chunk(3))
        assert client.statuses == [200]
        client.send(b"zz\r\n")
        assert client.statuses == [200]

    def test_a_failed_discard_closes(self, connect: Connect) -> None:
        client = connect(lambda request: request.respond(200), early_start_bytes=5)
        client.send(post(10, b"xxx"))
        assert client.statuses == [200]
        client.at(31)
        assert client.transport.eof
        assert client.statuses == [200]

    def test_foreign_exceptions_say_nothing_to_the_client(
        self, connect: Connect, caplog: pytest.LogCaptureFixture
    ) -> None:
        def app(request: HttpRequest) -> None:
            raise ValueError("secret")

        client = connect(app)
        client.send(GET % b"1" + GET % b"2")
        assert client.statuses == [500, 500]
        assert b"secret" not in client.transport.written
        assert b'"code":"bug"' in client.transport.written
        assert "secret" in caplog.text

    def test_a_coroutine_without_an_answer(self, connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
        async def app(request: HttpRequest) -> None: ...

        client = connect(app)
        client.send(GET % b"1")
        assert client.statuses == [500]
        assert "GET /1 ended without an answer" in caplog.text

    def test_a_bad_status_leaves_the_request_open(self, connect: Connect) -> None:
        def app(request: HttpRequest) -> None:
            request.respond(1000 if request.path == "/status" else 200, headers=[(b"x", b"a\r\nb")])

        client = connect(app)
        client.send(GET % b"status" + GET % b"header")
        assert client.statuses == [500, 500]
        assert not client.transport.closed
        assert client.transport.written.count(b"service_failed") == 2

    def test_two_answers_are_a_bug(self, connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
        def app(request: HttpRequest) -> None:
            request.respond(200)
            request.respond(201)

        client = connect(app)
        client.send(GET % b"1")
        assert client.statuses == [200]
        assert "answered twice" in caplog.text

    def test_two_readers_are_a_bug(self, connect: Connect) -> None:
        async def app(request: HttpRequest) -> None:
            first = asyncio.ensure_future(request.body())
            await asyncio.sleep(0)
            with pytest.raises(Bug, match="two tasks"):
                await request.body()
            request.respond(200, await first)

        client = connect(app)
        client.send(CHUNKED + chunk(1), b"0\r\n\r\n")
        assert client.statuses == [200]

    def test_body_nowait_needs_a_complete_body(self, connect: Connect) -> None:
        def app(request: HttpRequest) -> None:
            with pytest.raises(Bug, match="await body"):
                request.body_nowait()
            request.respond(200)

        client = connect(app)
        client.send(CHUNKED)
        assert client.statuses == [200]

    def test_body_after_chunks_is_a_bug(self, connect: Connect) -> None:
        async def app(request: HttpRequest) -> None:
            async for _ in request.chunks():
                pass
            with pytest.raises(Bug, match="read before"):
                await request.body()
            request.respond(200)

        client = connect(app)
        client.send(post(3, b"abc"))
        assert client.statuses == [200]


class TestDisconnect:
    def test_a_task_is_cancelled(self, connect: Connect) -> None:
        ended: list[str] = []

        async def app(request: HttpRequest) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(request.path)

        client = connect(app)
        client.send(GET % b"1" + GET % b"2")
        client.leave()
        assert ended == ["/1"]
        assert client.transport.written == b""
        assert client.state.counters.disconnects == 2

    def test_on_disconnect_is_called_once(self, connect: Connect) -> None:
        app = Later()
        client = connect(app)
        client.send(GET % b"1" + GET % b"2")
        client.leave()
        assert app.gone == ["/1"]
        app.requests[0].respond(200)
        assert client.transport.written == b""
        assert app.requests[0].gone
        assert not app.requests[0].answered

    def test_between_a_failed_write_and_its_report(self, connect: Connect) -> None:
        app = Later()
        client = connect(app)
        client.send(GET % b"1")
        client.transport.closed = True
        app.requests[0].respond(200)
        assert client.transport.written == b""

    def test_not_after_the_answer(self, connect: Connect) -> None:
        app = Later()
        client = connect(app)
        client.send(GET % b"1")
        app.requests[0].respond(200)
        client.leave()
        assert app.gone == []
        assert client.state.counters.disconnects == 0

    def test_while_paused_the_hang_up_counts(self, connect: Connect) -> None:
        app = Later()
        client = connect(app, read_ahead_bytes=10)
        client.send(CHUNKED + chunk(20))
        assert client.watch.watched == {client.connection}
        client.watch.watched.clear()
        client.connection._gate._descriptor = -1
        client.connection.hung_up()
        assert app.gone == ["/"]
        assert client.transport.closed

    def test_a_failing_on_disconnect_is_logged(self, connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
        def app(request: HttpRequest) -> None:
            request.on_disconnect = lambda: 1 / 0  # type: ignore[assignment,return-value]

        client = connect(app)
        client.send(GET % b"1")
        client.leave()
        assert "ZeroDivisionError" in caplog.text

    def test_a_half_sent_body_is_an_error_to_its_reader(self, connect: Connect) -> None:
        seen: list[str] = []

        def app(request: HttpRequest) -> None:
            async def read() -> None:
                try:
                    await request.body()
                except InvalidInput as error:
                    seen.append(str(error))

            tasks.append(asyncio.ensure_future(read()))

        tasks: list[asyncio.Future[None]] = []
        client = connect(app, early_start_bytes=5)
        asyncio.set_event_loop(client.loop)
        client.loop.run_until_complete(asyncio.sleep(0))
        client.loop.call_soon(client.connection.data_received, post(10, b"abc"))
        client.settle()
        client.leave()
        assert seen == ["the client closed the connection before its request was complete"]


class TestStreams:
    def test_chunks_and_the_end(self, connect: Connect) -> None:
        async def source() -> AsyncIterator[bytes]:
            for piece in (b"a", b"", b"b" * 20_000):
                yield piece

        async def app(request: HttpRequest) -> None:
            await request.stream(source())
            assert request.answered

        client = connect(app)
        client.send(GET % b"1" + GET % b"2")
        assert client.statuses == [200, 200]
        assert client.transport.written.count(b"\r\n1\r\na\r\n4e20\r\n" + b"b" * 20_000 + b"\r\n0\r\n\r\n") == 2

    def test_an_error_before_the_first_chunk_is_an_answer(self, connect: Connect) -> None:
        async def source() -> AsyncIterator[bytes]:
            raise QueueFull("later")
            yield b""

        client = connect(lambda request: request.stream(source()))
        client.send(GET % b"1")
        assert client.statuses == [429]
        assert not client.transport.closed

    def test_an_empty_chunk_sends_the_head(self, connect: Connect) -> None:
        async def source() -> AsyncIterator[bytes]:
            yield b""
            await asyncio.Event().wait()

        client = connect(lambda request: request.stream(source()))
        client.send(GET % b"1")
        assert client.transport.written.endswith(b"\r\n\r\n")
        client.leave()

    def test_an_error_after_it_cuts_the_connection(self, connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
        closed: list[bool] = []

        async def source() -> AsyncIterator[bytes]:
            try:
                yield b"a"
                raise ValueError("in the middle")
            finally:
                closed.append(True)

        client = connect(lambda request: request.stream(source()))
        client.send(GET % b"1")
        assert client.transport.aborted
        assert not client.transport.written.endswith(b"0\r\n\r\n")
        assert client.state.counters.aborted_streams == 1
        assert closed == [True]
        assert "in the middle" in caplog.text

    def test_the_producer_waits_for_a_slow_client(self, connect: Connect) -> None:
        made: list[int] = []

        async def source() -> AsyncIterator[bytes]:
            for number in range(5):
                made.append(number)
                if number == 2:
                    client.connection.pause_writing()
                yield b"x"

        client = connect(lambda request: request.stream(source()))
        client.send(GET % b"1")
        assert made == [0, 1, 2]
        client.connection.resume_writing()
        client.settle()
        assert made == [0, 1, 2, 3, 4]
        assert client.transport.written.endswith(b"0\r\n\r\n")

    def test_a_client_that_leaves_ends_the_producer(self, connect: Connect) -> None:
        ended: list[bool] = []

        async def source() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield b"x"
                    await asyncio.sleep(0)
            finally:
                ended.append(True)

        client = connect(lambda request: request.stream(source()))
        client.send(GET % b"1")
        client.leave()
        assert ended == [True]
        assert client.state.counters.disconnects == 1
        assert client.state.counters.aborted_streams == 0

    def test_http10_ends_with_the_connection(self, connect: Connect) -> None:
        async def source() -> AsyncIterator[bytes]:
            yield b"abc"

        client = connect(lambda request: request.stream(source()))
        client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert client.transport.written.endswith(b"\r\n\r\nabc")
        assert client.transport.closed

    def test_head_has_no_body(self, connect: Connect) -> None:
        async def source() -> AsyncIterator[bytes]:
            yield b"abc"

        client = connect(lambda request: request.stream(source()))
        client.send(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.transport.written.endswith(b"\r\n\r\n")
        assert client.transport.written.count(b"\r\n\r\n") == 1
        assert not client.transport.closed

    def test_a_body_that_ends_while_its_answer_streams(self, connect: Connect) -> None:
        async def app(request: HttpRequest) -> None:
            await request.stream(request.chunks())

        client = connect(app)
        client.send(CHUNKED + chunk(3), b"0\r\n\r\n" + GET % b"2")
        assert client.statuses == [200], "the next request waits, and the answer said that it is the last"
        assert client.transport.written.endswith(b"3\r\nxxx\r\n0\r\n\r\n")
        assert client.transport.closed

    def test_a_body_that_breaks_while_its_answer_streams(self, connect: Connect) -> None:
        async def app(request: HttpRequest) -> None:
            await request.stream(request.chunks())

        client = connect(app)
        client.send(CHUNKED + chunk(3), b"zz\r\n")
        assert client.transport.aborted
        assert not client.transport.written.endswith(b"0\r\n\r\n")

    def test_a_stream_answered_before_its_body_breaks(self, connect: Connect) -> None:
        async def source() -> AsyncIterator[bytes]:
            yield b"a"
            await gate.wait()

        gate = asyncio.Event()
        client = connect(lambda request: request.stream(source()), early_start_bytes=5, body_timeout_s=5)
        client.send(post(10, b"abc"))
        assert b"connection: close" not in client.transport.written, "it hopes to skip the rest of the body"
        client.at(6)
        gate.set()
        client.settle()
        assert client.transport.written.endswith(b"0\r\n\r\n")
        assert client.transport.eof, "the rest did not come"

    def test_two_streams_are_a_bug(self, connect: Connect) -> None:
        async def source() -> AsyncIterator[bytes]:
            yield b"abc"

        async def app(request: HttpRequest) -> None:
            await request.stream(source())
            with pytest.raises(Bug, match="answered twice"):
                await request.stream(source())

        client = connect(app)
        client.send(GET % b"1")
        assert client.statuses == [200]


class TestTimes:
    def test_head(self, connect: Connect) -> None:
        client = connect(echo)
        client.send(b"GET / HT")
        client.at(9)
        assert client.statuses == []
        client.send(b"TP/1.1\r\n")
        client.at(11)
        assert client.statuses == [408], "progress does not help: a head has one time limit"
        client.at(20)
        assert client.transport.aborted
        assert client.state.counters.refused == {"head_timeout": 1}

    def test_body_not_started(self, connect: Connect) -> None:
        client = connect(echo)
        client.send(post(10, b"abc"))
        client.at(29)
        assert client.statuses == []
        client.at(31)
        assert client.statuses == [408]
        assert client.state.counters.refused == {"body_timeout": 1}

    def test_body_being_read(self, connect: Connect) -> None:
        async def app(request: HttpRequest) -> None:
            await request.body()

        client = connect(app)
        client.send(CHUNKED + chunk(3))
        client.at(31)
        assert client.statuses == [408]

    def test_not_while_the_client_is_held(self, connect: Connect) -> None:
        client = connect(Later(), read_ahead_bytes=10)
        client.send(CHUNKED + chunk(20))
        client.at(1000)
        assert client.statuses == []
        assert not client.transport.closed

    def test_not_while_the_client_waits_for_continue(self, connect: Connect) -> None:
        client = connect(Later())
        client.send(post(3, b"", b"Expect: 100-continue"))
        client.at(1000)
        assert client.statuses == []

    def test_not_while_the_application_works(self, connect: Connect) -> None:
        client = connect(Later())
        client.send(GET % b"1")
        client.at(1000)
        assert not client.transport.closed

    @pytest.mark.parametrize("first", [b"", GET % b"1"])
    def test_idle(self, connect: Connect, first: bytes) -> None:
        client = connect(echo)
        if first:
            client.send(first)
        client.at(59)
        assert not client.transport.closed
        client.at(61)
        assert client.transport.closed
        assert not client.transport.aborted

    def test_empty_lines_are_no_request(self, connect: Connect) -> None:
        client = connect(echo)
        client.send(b"\r\n\r\n")
        client.at(61)
        assert client.transport.closed

    def test_write(self, connect: Connect) -> None:
        client = connect(echo)
        client.send(GET % b"1")
        client.transport.unsent = 50
        client.at(1)
        client.at(30)
        assert not client.transport.closed
        client.transport.unsent = 49
        client.at(60)
        client.at(89)
        assert not client.transport.aborted
        client.at(91)
        assert client.transport.aborted
        assert client.state.counters.write_timeouts == 1

    def test_a_long_answer_outlasts_the_linger_time(self, connect: Connect) -> None:
        client = connect(lambda request: request.respond(200, b"x" * 100_000))
        client.send(CHUNKED + chunk(3))
        assert client.transport.eof
        for second in range(1, 25):
            client.transport.unsent = 100_000 - second
            client.at(second)
        assert not client.transport.aborted
        client.transport.unsent = 0
        client.at(25)
        assert not client.transport.aborted
        client.at(30)
        assert client.transport.aborted


class TestTooMany:
    def test_those_over_the_limit_are_told_and_those_far_over_are_cut(self, connect: Connect) -> None:
        client = connect(Later(), max_connections=1)
        client.send(GET % b"1")
        state = client.state
        state.turned_away.update(range(255))
        told, cut = client.another(), client.another()
        assert told.statuses == [503]
        assert b"retry-after: 1" in told.transport.written
        assert not told.transport.aborted
        assert cut.statuses == []
        assert cut.transport.aborted
        assert state.counters.refused == {"connections": 2}
        assert not client.transport.closed

    @pytest.mark.parametrize("silent", [b"", b"GET / HT", b"PRI", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"])
    def test_the_oldest_that_brought_no_request_gives_way(self, connect: Connect, silent: bytes) -> None:
        served = connect(echo, max_connections=3)
        served.send(GET % b"1")
        first, second = served.another(), served.another()
        for client in (first, second):
            if silent:
                client.send(silent)
        came = served.another()
        assert [first.transport.closed, second.transport.closed, served.transport.closed] == [True, False, False]
        assert (first.statuses, came.statuses) == ([], [])
        came.send(GET % b"2")
        assert came.statuses == [200]
        assert served.another().statuses == []
        assert second.transport.closed
        assert served.state.counters.refused == {"connections": 2}

    def test_one_that_was_of_use_gives_way_when_it_is_idle_for_some_seconds(self, connect: Connect) -> None:
        later = Later()
        first = connect(later, max_connections=3)
        second, busy = first.another(), first.another()
        for client in (first, second, busy):
            client.send(GET % b"1")
        later.requests[1].respond(200)
        first.state.now += 3
        later.requests[0].respond(200)
        assert first.another().statuses == [503]
        first.state.now += 3
        assert first.another().statuses == []
        assert [client.transport.closed for client in (first, second, busy)] == [False, True, False]
        first.send(b"GET /")  # its next request has begun
        first.state.now += 3
        crowded = first.another()
        assert crowded.transport.closed is False
        assert first.transport.closed is False


class TestAnswers:
    def test_ids_peer_and_repr(self, connect: Connect) -> None:
        app = Later()
        client = connect(app)
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: mine\r\n\r\n" + GET % b"2")
        app.requests[0].respond(200)
        app.requests[1].respond(200)
        first, second = app.requests
        assert first.request_id == "mine"
        assert b"x-request-id: mine\r\n" in client.transport.written
        assert b"x-request-id: " + second.request_id.encode() in client.transport.written
        assert first.peer == "10.0.0.1:1234"
        assert repr(first) == "<HttpRequest mine GET / answered>"
        assert first.header(b"host") == b"a"
        assert first.header(b"nope") is None

    def test_a_body_that_is_not_bytes_is_refused(self, connect: Connect) -> None:
        client = connect(lambda request: request.respond(200, "text"))  # type: ignore[arg-type]
        client.send(GET % b"1")
        assert client.statuses == [500]
        assert b"must be bytes, bytearray or memoryview, got str" in client.transport.written

    @pytest.mark.parametrize("body", [b"abcd", bytearray(b"abcd"), memoryview(b"abcd"), memoryview(b"abXcXdX")[:0]])
    def test_buffers(self, connect: Connect, body: bytes) -> None:
        client = connect(lambda request: request.respond(200, body))
        client.send(GET % b"1")
        assert b"content-length: %d\r\n" % len(body) in client.transport.written
        assert client.transport.written.endswith(b"\r\n\r\n" + bytes(body))

    def test_wide_and_strided_memory(self, connect: Connect) -> None:
        wide = memoryview(bytearray(b"abcdefgh")).cast("I")
        bodies = iter([wide, memoryview(b"aXbXcX")[::2]])
        client = connect(lambda request: request.respond(200, next(bodies)))
        client.send(GET % b"1" + GET % b"2")
        assert b"\r\n\r\nabcdefgh" in client.transport.written
        assert client.transport.written.endswith(b"\r\n\r\nabc")

    @pytest.mark.parametrize("status", [204, 304])
    def test_no_body_where_there_is_none(self, connect: Connect, status: int) -> None:
        client = connect(lambda request: request.respond(status, b"null"))
        client.send(GET % b"1")
        assert client.transport.written.endswith(b"\r\n\r\n")

    def test_head(self, connect: Connect) -> None:
        client = connect(lambda request: request.respond(200, b"abc"))
        client.send(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"content-length: 3\r\n" in client.transport.written
        assert client.transport.written.endswith(b"\r\n\r\n")

    def test_connection_close(self, connect: Connect) -> None:
        client = connect(echo)
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert b"connection: close" in client.transport.written
        assert client.transport.closed
        assert not client.transport.aborted
