"""ASGI applications in a host: heads, pieces, what they are told, how they end."""

from __future__ import annotations

import asyncio
import time

import pytest

import trilith
from memory_circles import no_circles
from trilith.errors import Cancelled, DeadlineExceeded, InvalidInput, ServiceError
from trilith.net.transport import Window


class Shown:
    """What the application of a test does."""

    app = None


async def shown(scope, receive, send):
    if scope["type"] == "lifespan":
        raise RuntimeError("no")
    await Shown.app(scope, receive, send)


@trilith.service(timeout_s=5)
class Pages:
    ui = trilith.mount("/ui", shown)
    quick = trilith.mount("/quick", shown, timeout_s=0.05)

    @trilith.api
    async def method(self) -> int:
        return 1


def app(function):
    Shown.app = staticmethod(function)
    return function


async def start(send, status=200, headers=()):
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})


async def body(send, data=b"", more=False):
    await send({"type": "http.response.body", "body": data, "more_body": more})


def test_an_answer_that_is_given_at_once_is_one_result(mounted):
    @app
    async def answers(scope, receive, send):
        await start(send, 201, [(b"x-odd", b"caf\xe9"), (b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")])
        await body(send, b"whole")

    async def scenario(hosted):
        asked = hosted.ask()
        found = await asked.whole()
        assert asked.port.metas == []
        return found

    status, headers, data = mounted(Pages, scenario)
    assert (status, data) == (201, b"whole")
    assert headers == [(b"x-odd", b"caf\xe9"), (b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")]


def test_pieces_come_as_they_are_sent_and_large_ones_are_cut(mounted):
    @app
    async def answers(scope, receive, send):
        await start(send)
        await body(send, b"one", more=True)
        await body(send, b"", more=True)
        await body(send, bytes(200_000))

    async def scenario(hosted):
        asked = hosted.ask()
        first = await asked.pieces(1)
        return first, await asked.whole(), [len(piece) for piece in asked.port.sent], len(asked.port.metas)

    first, (status, _, data), _, count = mounted(Pages, scenario)
    assert (first, status, len(data), count) == ([b"one"], 200, 200_000, 5)


def test_the_head_alone_goes_out_when_nothing_follows(mounted):
    @app
    async def answers(scope, receive, send):
        await start(send, 202)
        await asyncio.sleep(1000)

    async def scenario(hosted):
        asked = hosted.ask("/quick")
        assert await asked.pieces(1) == [b""]
        await asyncio.sleep(0.1)  # longer than its time limit, which is one to the beginning
        assert not asked.end.done()

    mounted(Pages, scenario)


def test_a_body_in_pieces_is_let_in_when_it_is_wanted(mounted):
    wanted = asyncio.Event()

    @app
    async def answers(scope, receive, send):
        await wanted.wait()
        messages = [await receive() for _ in range(3)]
        assert [(m["body"], m["more_body"]) for m in messages] == [(b"ab", True), (b"c", True), (b"", False)]
        await start(send)
        await body(send, b"good")

    async def scenario(hosted):
        asked = hosted.ask(method="POST", body=None)
        await asyncio.sleep(0)
        assert not asked.port.asked
        wanted.set()
        asked.port.give(b"ab", b"", b"c")
        asked.port.end()
        return await asked.whole()

    assert mounted(Pages, scenario)[2] == b"good"


def test_a_slow_reader_holds_the_application(mounted):
    sent = []

    @app
    async def answers(scope, receive, send):
        await start(send)
        for number in range(100):
            await body(send, b"%d," % number, more=True)
            sent.append(number)
        await body(send)

    async def scenario(hosted):
        asked = hosted.ask(window=Window(items=4))
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(sent) < 5
        return await asked.whole()

    assert mounted(Pages, scenario)[2] == b"".join(b"%d," % number for number in range(100))


@pytest.mark.parametrize("how", ["receive", "send", "deaf"])
def test_when_the_client_goes_the_application_is_told(mounted, how):
    told = []

    @app
    async def answers(scope, receive, send):
        if how == "receive":
            await receive()
            told.append((await receive())["type"])
        elif how == "send":
            await start(send)
            try:
                while True:
                    await body(send, b"x" * 1000, more=True)
            except OSError as error:
                told.append(str(error))
                raise
        else:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                told.append("cancelled")
                raise

    async def scenario(hosted):
        asked = hosted.ask(window=Window(items=2))
        for _ in range(10):
            await asyncio.sleep(0)
        asked.call.cancel()
        await hosted.idle()
        with pytest.raises(Cancelled):
            await asked.end

    mounted(Pages, scenario)
    assert told == [{"receive": "http.disconnect", "send": "the client has gone", "deaf": "cancelled"}[how]]


def test_after_its_answer_an_application_is_told_that_it_is_over(mounted):
    told = []

    @app
    async def answers(scope, receive, send):
        await receive()
        await start(send)
        await body(send, b"x")
        told.append((await receive())["type"])

    async def scenario(hosted):
        await hosted.ask().whole()
        await hosted.idle()

    mounted(Pages, scenario)
    assert told == ["http.disconnect"]


def test_a_late_answer_is_given_up(mounted):
    @app
    async def answers(scope, receive, send):
        await asyncio.sleep(1000)

    async def scenario(hosted):
        with pytest.raises(DeadlineExceeded, match=r"did not begin to answer within 0\.05 s"):
            await hosted.ask("/quick").end
        with pytest.raises(DeadlineExceeded, match="trilith-timeout-ms"):
            await hosted.ask(deadline=time.monotonic() + 0.05).end

        @app
        async def reads(scope, receive, send):
            await receive()

        asked = hosted.ask("/quick", body=None)
        with pytest.raises(DeadlineExceeded, match="its caller sent it no item"):
            await asked.end

    mounted(Pages, scenario)


def test_what_it_raises_is_told_to_nobody(mounted, caplog):
    @app
    async def answers(scope, receive, send):
        raise ValueError("secret")

    async def scenario(hosted):
        with pytest.raises(ServiceError) as raised:
            await hosted.ask().end
        return raised.value.message

    message = mounted(Pages, scenario)
    assert "secret" not in message
    assert "Pages: the mount at /ui" in message
    assert "secret" in caplog.text


def test_what_fails_after_the_answer_is_in_the_log(mounted, caplog):
    @app
    async def answers(scope, receive, send):
        await start(send)
        await body(send, b"x")
        raise ValueError("too late")

    async def scenario(hosted):
        assert (await hosted.ask().whole())[2] == b"x"
        await hosted.idle()

    mounted(Pages, scenario)
    assert "too late" in caplog.text


def test_what_goes_on_after_its_answer_is_waited_for_at_the_end(mounted):
    ended = []

    @app
    async def answers(scope, receive, send):
        await start(send)
        await body(send, b"x")
        await asyncio.sleep(0.05)
        ended.append(trilith.current_service())

    async def scenario(hosted):
        await hosted.ask().whole()
        assert ended == []

    mounted(Pages, scenario)
    assert isinstance(ended[0], Pages)


def test_what_a_method_may_say_of_its_answer_an_application_may_too(mounted):
    @app
    async def answers(scope, receive, send):
        trilith.context().set_header("x-said", "1")
        await start(send)
        await body(send)

    async def scenario(hosted):
        return await hosted.ask().whole()

    assert (b"x-said", b"1") in mounted(Pages, scenario)[1]


def test_what_is_no_exchange_is_refused(mounted):
    async def scenario(hosted):
        asked = hosted.ask("/nowhere")
        with pytest.raises(Exception, match="has no method '/nowhere'"):
            await asked.end
        call = hosted.ask().call
        call.buffers = [b"junk"]
        with pytest.raises(InvalidInput, match="could not be read"):
            hosted.host.handle(call)

    @app
    async def answers(scope, receive, send):
        await start(send)
        await body(send)

    mounted(Pages, scenario)


@pytest.mark.parametrize("way", ["ended", "cancelled"])
def test_nothing_of_an_exchange_waits_for_the_collector(mounted, way):
    @app
    async def answers(scope, receive, send):
        while (await receive()).get("more_body"):
            pass
        await start(send)
        await body(send, b"x" * 5000, more=True)
        await body(send, b"x" * 5000)

    async def once(hosted):
        asked = hosted.ask(body=None)
        asked.port.give(b"y" * 5000)
        if way == "cancelled":
            while not asked.port.asked:  # noqa: ASYNC110 - the twin has no event
                await asyncio.sleep(0.001)
            asked.port.receive(lambda item: None, lambda: None)  # as the end of a real one does
            asked.call.cancel()
        else:
            asked.port.end()
            await asked.whole()
            asked.port.receive(lambda item: None, lambda: None)
        await hosted.idle()
        if asked.end.done() and asked.end.exception():
            asked.end.exception().__traceback__ = None

    async def scenario(hosted):
        await once(hosted)
        await asyncio.sleep(0)
        with no_circles():
            await once(hosted)
            await asyncio.sleep(0)

    mounted(Pages, scenario)
