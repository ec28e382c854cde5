"""WSGI applications in a host: their environment, threads, pieces, failures."""

from __future__ import annotations

import asyncio
import threading
import time
from wsgiref.validate import validator

import pytest

import trilith
from trilith.errors import Cancelled, ServiceError
from trilith.net.transport import Window


class Shown:
    app = None


def shown(environ, start_response):
    return Shown.app(environ, start_response)


@trilith.service(threads=2)
class Pages:
    ui = trilith.mount("/ui", shown)

    def __init__(self) -> None:
        self.name = "pages"


def app(function):
    Shown.app = staticmethod(function)
    return function


def asked(mounted, **request):
    async def scenario(hosted):
        return await hosted.ask(**request).whole()

    return mounted(Pages, scenario)


def test_its_environment(mounted):
    seen = {}

    @app
    def answers(environ, start_response):
        seen.update(environ, read=environ["wsgi.input"].read(), name=trilith.current_service().name)
        start_response("201 Made", [("X-Odd", "caf\u00e9")])
        return [b"a", b"b"]

    headers = (
        (b"content-type", b"text/plain"),
        (b"content-length", b"3"),
        (b"x-a", b"1"),
        (b"x-a", b"2"),
        (b"cookie", b"a=1"),
        (b"cookie", b"b=2"),
        (b"x_a", b"smuggled"),
    )
    answer = asked(mounted, path="/ui/%C3%A9/x", method="POST", query=b"q=1", headers=headers, body=b"abc")
    assert answer == (201, [(b"X-Odd", b"caf\xe9")], b"ab")
    assert (seen["SCRIPT_NAME"], seen["PATH_INFO"]) == ("/ui", "/\u00c3\u00a9/x")
    assert (seen["REQUEST_METHOD"], seen["QUERY_STRING"], seen["REMOTE_ADDR"]) == ("POST", "q=1", "10.0.0.1")
    assert (seen["CONTENT_TYPE"], seen["CONTENT_LENGTH"], seen["HTTP_X_A"]) == ("text/plain", "3", "1, 2")
    assert (seen["HTTP_COOKIE"], seen["read"], seen["name"]) == ("a=1; b=2", b"abc", "pages")


def test_it_keeps_to_the_standard(mounted):
    @app
    @validator
    def answers(environ, start_response):
        lines = [environ["wsgi.input"].readline(), *environ["wsgi.input"]]
        start_response("200 OK", [("content-type", "text/plain")])
        return [b"%d" % len(lines)]

    answer = asked(mounted, method="POST", headers=((b"content-length", b"4"),), body=b"a\nb\n")
    assert answer[0::2] == (200, b"2")


def test_pieces_are_sent_as_they_are_made_and_a_slow_reader_holds_the_thread(mounted):
    made, closed = [], []

    class Pieces:
        def __iter__(self):
            for number in range(100):
                made.append(number)
                yield b"%d," % number

        def close(self):
            closed.append(1)

    @app
    def answers(environ, start_response):
        start_response("200 OK", [])
        return Pieces()

    async def scenario(hosted):
        request = hosted.ask(window=Window(items=4))
        first = await request.pieces(1)
        await asyncio.sleep(0.05)
        assert len(made) < 8
        return [*first, (await request.whole())[2]]

    assert b"".join(mounted(Pages, scenario)) == b"".join(b"%d," % number for number in range(100))
    assert closed == [1]


def test_an_answer_of_known_length_is_one_result(mounted):
    @app
    def answers(environ, start_response):
        start_response("200 OK", [("content-length", "5")])
        return [b"whole"]

    async def scenario(hosted):
        request = hosted.ask()
        return await request.whole(), request.port.metas

    assert mounted(Pages, scenario) == ((200, [(b"content-length", b"5")], b"whole"), [])


def test_the_function_that_start_response_gives_writes(mounted):
    @app
    def answers(environ, start_response):
        write = start_response("200 OK", [])
        write(b"a")
        return [b"b"]

    assert asked(mounted)[2] == b"ab"


def test_an_error_may_replace_a_head_that_was_not_sent(mounted):
    @app
    def answers(environ, start_response):
        start_response("200 OK", [])
        try:
            raise ValueError("late")
        except ValueError as error:
            start_response("500 Oh", [], (type(error), error, error.__traceback__))
        return [b"sorry"]

    assert asked(mounted) == (500, [], b"sorry")


@pytest.mark.parametrize("how", ["raises", "no start", "twice", "body first", "late"])
def test_failures_are_told_to_nobody(mounted, caplog, how):
    @app
    def answers(environ, start_response):
        if how == "raises":
            raise ValueError("secret")
        if how == "no start":
            return []
        if how == "body first":
            return [b"x"]
        start_response("200 OK", [])
        if how == "twice":
            start_response("200 OK", [])

        def late():
            yield b"x"
            start_response("500 Oh", [], (ValueError, ValueError("secret"), None))

        return late()

    with pytest.raises(ServiceError) as raised:
        asked(mounted)
    assert "secret" not in raised.value.message
    assert "Pages: the mount at /ui" in caplog.text


def test_a_place_is_free_when_the_thread_has_ended(mounted):
    let_go, told = threading.Event(), []

    @app
    def answers(environ, start_response):
        let_go.wait(20)
        try:
            environ["wsgi.input"].read()
        except OSError as error:
            told.append(str(error))
            raise
        raise AssertionError("a body that broke off was taken for a whole one")

    async def scenario(hosted):
        request = hosted.ask(method="POST", body=None)
        request.port.give(b"half")
        await asyncio.sleep(0.02)
        request.call.cancel()
        with pytest.raises(Cancelled):
            await request.end
        assert hosted.host.in_flight == 1
        let_go.set()
        await hosted.idle()

    mounted(Pages, scenario)
    assert told == ["the client has gone"]


def test_what_waits_for_a_thread_is_not_begun_when_its_client_has_gone(mounted):
    let_go, begun = threading.Event(), []

    @app
    def answers(environ, start_response):
        begun.append(1)
        let_go.wait(20)
        start_response("200 OK", [])
        return [b"x"]

    async def scenario(hosted):
        requests = [hosted.ask() for _ in range(3)]
        while len(begun) < 2:  # noqa: ASYNC110 - they are threads
            await asyncio.sleep(0.001)
        requests[2].call.cancel()
        requests[2].end.exception()
        let_go.set()
        await hosted.idle()

    mounted(Pages, scenario)
    assert begun == [1, 1]


@trilith.service(threads=2)
class Mixed:
    ui = trilith.mount("/ui", shown)

    @trilith.api
    def plain(self) -> int:
        return 1


async def called(host):
    from trilith.core.context import Context
    from trilith.core.timeline import Timeline
    from trilith.service import ServiceCall
    from trilith.wire.calls import CallMeta

    answered = asyncio.get_running_loop().create_future()
    meta = CallMeta("Mixed", "plain", "application/json", "r")
    context = Context(request_id="r", timeline=Timeline("service", 2))
    host.handle(ServiceCall(meta, [b"{}"], context, lambda outcome, _: answered.set_result(outcome)))
    return await answered


def test_clients_that_are_slow_hold_up_nobody(mounted):
    left = threading.Event()

    def pieces():
        while not left.is_set():
            yield b"x" * 1000

    @app
    def answers(environ, start_response):
        if environ["PATH_INFO"] == "/slow upload":
            environ["wsgi.input"].read()
        start_response("200 OK", [])
        return [b"quick"] if environ["PATH_INFO"] == "/quick" else pieces()

    async def scenario(hosted):
        slow = [hosted.ask(window=Window(items=1)) for _ in range(5)]
        slow += [hosted.ask(path="/ui/slow%20upload", method="POST", body=None) for _ in range(5)]
        for request in slow[:5]:
            await request.pieces(1)
        for _ in range(3):
            assert (await hosted.ask(path="/ui/quick").whole())[2] == b"quick"
        await called(hosted.host)
        left.set()
        for request in slow:
            request.call.cancel()
            request.end.exception()
        await hosted.idle()

    mounted(Mixed, scenario)


def test_as_many_work_at_a_time_as_there_are_threads(mounted):
    working, most, lock = [0], [0], threading.Lock()

    @app
    def answers(environ, start_response):
        environ["wsgi.input"].read()
        with lock:
            working[0] += 1
            most[0] = max(most[0], working[0])
        time.sleep(0.005)
        with lock:
            working[0] -= 1
        start_response("200 OK", [])
        return [b"a", b"b"]

    async def scenario(hosted):
        asked = [hosted.ask(method="POST", body=None) for _ in range(12)]
        for request in asked:
            request.port.give(b"x")
            request.port.end()
        return [(await request.whole())[2] for request in asked]

    assert mounted(Mixed, scenario) == [b"ab"] * 12
    assert most[0] == 2


def test_an_application_that_hangs_in_its_threads_leaves_the_methods_alone(mounted):
    let_go, begun = threading.Event(), []

    @app
    def answers(environ, start_response):
        begun.append(1)
        let_go.wait(20)
        start_response("200 OK", [])
        return [b""]

    async def scenario(hosted):
        hanging = [hosted.ask() for _ in range(3)]
        while len(begun) < 2:  # noqa: ASYNC110 - they are threads
            await asyncio.sleep(0.001)
        await called(hosted.host)
        let_go.set()
        for request in hanging:
            await request.whole()

    mounted(Mixed, scenario)
