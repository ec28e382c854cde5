"""Middleware round the methods and the mounts of a service, in a host."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

import trilith
from trilith.errors import Cancelled, DeadlineExceeded, InvalidConfig, InvalidInput, ServiceError, SetupError

JSON = ((b"content-type", b"application/json"),)


class Marks:
    """Says in a header of each answer that it has passed; and what it was made with."""

    def __init__(self, app, mark="plain"):
        self._app = app
        self._mark = mark.encode()

    async def __call__(self, scope, receive, send):
        async def marked(message):
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (b"x-mark", self._mark)]}
            await send(message)

        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if (b"x-raise", b"1") in scope["headers"]:
            raise ValueError("secret of the middleware")
        if (b"x-move", b"1") in scope["headers"]:
            scope = {**scope, "path": "/add"}
        await self._app(scope, receive, marked)


def flask_like(environ, start_response):
    body = environ["wsgi.input"].read()
    if environ["PATH_INFO"] == "/blocks":
        Seen.blocked.wait(20)
    start_response("200 OK", [("content-type", "text/plain")])
    return [environ["SCRIPT_NAME"].encode(), environ["PATH_INFO"].encode(), b"%d" % len(body)]


async def some_page(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            scope["state"]["kept"] = "kept"
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    text = f"{scope['path']} {scope['root_path']} {scope['state']['kept']}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": text})


class Seen:
    goes_on: asyncio.Event
    blocked = threading.Event()
    cancelled = 0


@trilith.service(middleware=[Marks, (Marks, {"mark": "inner"})], threads=2)
class Both:
    page = trilith.mount("/page", some_page)
    flask = trilith.mount("/flask", flask_like)

    @trilith.api
    async def add(self, a: int, b: int = 1) -> int:
        trilith.context().set_header("x-said", trilith.context().request_id)
        trilith.context().status = 201
        return a + b

    @trilith.api
    def fails(self) -> int:
        raise ValueError("secret")

    @trilith.api
    def refuses(self) -> int:
        raise InvalidInput("not so")

    @trilith.api
    async def count(self, n: int, fail: bool = False) -> AsyncIterator[int]:
        trilith.context().set_header("x-said", "streamed")
        for number in range(n):
            yield number
        if fail:
            raise InvalidInput("midway")

    @trilith.api
    async def quiet(self) -> AsyncIterator[int]:
        yield 1
        await Seen.goes_on.wait()
        yield 2

    @trilith.api
    def total(self, numbers: Iterator[int]) -> int:
        return sum(numbers)

    @trilith.api
    def blocks(self) -> int:
        Seen.blocked.wait(20)
        return 1

    @trilith.api
    async def waits(self) -> int:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            Seen.cancelled += 1
            raise
        return 1


def post(mounted, path, value=None, headers=JSON, **options):
    async def scenario(hosted):
        body = options.pop("body", json.dumps(value if value is not None else {}).encode())
        options.setdefault("method", "POST")
        return await hosted.ask("*", path, headers=headers, body=body, **options).whole()

    status, fields, data = mounted(Both, scenario)
    return status, dict(fields), data


def test_a_method_answers_behind_its_middleware_as_without(mounted):
    status, headers, data = post(mounted, "/add", {"a": 1})
    assert (status, data) == (201, b"2")
    assert headers[b"content-type"] == b"application/json"
    assert headers[b"content-length"] == b"1"
    assert headers[b"x-said"] == b"r1"
    assert headers[b"x-mark"] == b"plain"  # the outermost, added last


@pytest.mark.parametrize(
    ("path", "value", "headers", "status", "text"),
    [
        ("/add", {"a": "x"}, JSON, 400, "invalid_input"),
        ("/add", {"a": 1}, ((b"content-type", b"image/png"),), 415, "unsupported_media_type"),
        ("/add", {"a": 1}, (*JSON, (b"accept", b"image/png")), 406, "not_acceptable"),
        ("/add", {"a": 1}, (*JSON, (b"trilith-timeout-ms", b"x")), 400, "trilith-timeout-ms"),
        ("/fails", {}, JSON, 500, "service_failed"),
        ("/refuses", {}, JSON, 400, "not so"),
        ("/nowhere", {}, JSON, 404, "Both has nothing at /nowhere"),
        ("/count", {"n": 1}, (*JSON, (b"accept", b"image/png")), 406, "streams"),
        ("/total", {}, JSON, 415, "takes a stream"),
    ],
)
def test_errors_of_methods_have_their_statuses(mounted, path, value, headers, status, text):
    found, fields, data = post(mounted, path, value, headers)
    assert found == status
    assert text in data.decode()
    assert fields[b"x-mark"] == b"plain"
    assert b"secret" not in data
    assert json.loads(data)["error"]["request_id"] == "r1"


def test_other_verbs_are_refused(mounted):
    status, headers, _ = post(mounted, "/add", method="GET")
    assert (status, headers[b"allow"]) == (405, b"POST")


def test_streams_are_framed_as_without_middleware(mounted):
    status, headers, data = post(mounted, "/count", {"n": 2})
    assert (status, data) == (200, b"data: 0\n\ndata: 1\n\n")
    assert (headers[b"content-type"], headers[b"x-said"]) == (b"text/event-stream", b"streamed")
    lines = (*JSON, (b"accept", b"application/jsonl"))
    assert post(mounted, "/count", {"n": 2}, lines)[2] == b"0\n1\n"
    assert post(mounted, "/count", {"n": 0}, lines)[2] == b""
    failed = post(mounted, "/count", {"n": 1, "fail": True}, lines)[2]
    assert failed.startswith(b'0\n{"error":{"code":"invalid_input","message":"midway"')
    items = ((b"content-type", b"application/jsonl"),)
    assert post(mounted, "/total", headers=items, body=b"1\n2\n3\n")[2] == b"6"


@pytest.mark.parametrize("accept", [b"text/event-stream", b"application/jsonl"])
def test_a_stream_that_is_silent_says_that_it_goes_on_where_its_form_has_words_for_it(mounted, accept):
    async def scenario(hosted):
        Seen.goes_on = asyncio.Event()
        headers = (*JSON, (b"accept", accept))
        request = hosted.ask("*", "/quiet", method="POST", headers=headers, body=b"{}")
        seen = await request.pieces(1)
        if accept == b"text/event-stream":
            seen += await request.pieces(2)
        else:
            await asyncio.sleep(0.05)
            assert not request.port.sent
        Seen.goes_on.set()
        return b"".join(seen), (await request.whole())[2]

    first, rest = mounted(Both, scenario, stream_keep_alive_s=0.01)
    if accept == b"text/event-stream":
        assert first == b"data: 1\n\n:\n\n:\n\n"
        assert rest.replace(b":\n\n", b"") == b"data: 2\n\n"
    else:
        assert (first, rest) == (b"1\n", b"2\n")


def test_mounts_of_both_kinds_stand_behind_it(mounted):
    status, headers, data = post(mounted, "/page/x", method="GET")
    assert (status, data, headers[b"x-mark"]) == (200, b"/page/x /page kept", b"plain")
    assert post(mounted, "/flask/x", body=b"abc")[2] == b"/flask/x3"


def test_middleware_may_lead_elsewhere_and_an_encoded_path_does_not(mounted):
    status, _, data = post(mounted, "/page/x", {"a": 4}, (*JSON, (b"x-move", b"1")))
    assert (status, data) == (201, b"5")
    assert post(mounted, "/%61dd", {"a": 4})[0] == 404


def test_what_is_not_there_is_told_with_the_id_of_the_request(mounted):
    status, headers, data = post(mounted, "/nowhere")
    assert (status, headers[b"content-type"]) == (404, b"application/json")
    assert json.loads(data)["error"] == {
        "code": "not_found",
        "message": "Both has nothing at /nowhere",
        "request_id": "r1",
    }


def test_middleware_that_raises_is_a_failure_of_the_service(mounted, caplog):
    async def scenario(hosted):
        with pytest.raises(ServiceError) as raised:
            await hosted.ask("*", "/add", method="POST", headers=(*JSON, (b"x-raise", b"1")), body=b"{}").end
        assert "secret" not in raised.value.message
        return (await hosted.ask("*", "/add", method="POST", headers=JSON, body=b'{"a": 1}').whole())[0]

    assert mounted(Both, scenario) == 201
    assert "secret of the middleware" in caplog.text


@pytest.mark.parametrize("path", ["/blocks", "/flask/blocks", "/waits"])
def test_a_place_is_free_when_the_work_has_stopped(mounted, path):
    Seen.blocked.clear()
    before = Seen.cancelled

    async def scenario(hosted):
        request = hosted.ask("*", path, method="POST", headers=JSON, body=b"{}")
        inside = path != "/flask/blocks"  # the exchange, and the call of a method in it
        while hosted.host.in_flight < 1 + inside:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        request.call.cancel()
        with pytest.raises(Cancelled):
            await request.end
        if path.endswith("/blocks"):
            await asyncio.sleep(0.1)  # longer than the moment that applications have to end by themselves
            assert hosted.host.in_flight
            Seen.blocked.set()
        await hosted.idle()

    mounted(Both, scenario)
    assert Seen.cancelled == before + (path == "/waits")


def test_each_has_the_time_limit_that_it_declares(mounted):
    async def hangs(scope, receive, send):
        if scope["type"] != "lifespan":
            await asyncio.sleep(1000)

    @trilith.service(middleware=[Marks], timeout_s=50)
    class Slow:
        page = trilith.mount("/a", hangs, timeout_s=0.04)
        longer = trilith.mount("/a/b", hangs, timeout_s=0.05)

        @trilith.api(timeout_s=0.06)
        async def waits(self) -> None:
            await asyncio.sleep(1000)

    async def scenario(hosted):
        for path, limit in (("/a/x", "0.04"), ("/a/b", "0.05"), ("/waits", "0.06")):
            asked = hosted.ask("*", path, method="POST", headers=JSON, body=b"{}")
            try:
                answered = (await asked.whole())[2].decode()  # the method's own error, or that of the exchange
            except DeadlineExceeded as error:
                answered = error.message
            assert f"within {limit} s" in answered

    mounted(Slow, scenario)


def test_misuse_is_refused_where_it_is_declared():
    for wrong in (Marks, [3], [(Marks, 3)], "x"):
        with pytest.raises(InvalidConfig, match="middleware must be"):
            trilith.service(middleware=wrong)(type("Any", (), {"page": trilith.mount("/", some_page)}))


class Sizes:
    seen: list[int]
    goes_on: asyncio.Event


async def begun():
    while not Sizes.seen:  # noqa: ASYNC110 - the loop's turns are counted in no event
        await asyncio.sleep(0)


@trilith.service(middleware=[Marks])
class Batched:
    @trilith.api(batch=trilith.Batch(max_size=3, max_wait_ms=0))
    async def read(self, x: list[int]) -> list[int]:
        Sizes.seen.append(len(x))
        await Sizes.goes_on.wait()
        return [InvalidInput("not 7") if each == 7 else 2 * each for each in x]


def test_calls_of_a_batched_method_are_joined_behind_it(mounted):
    async def scenario(hosted):
        Sizes.seen, Sizes.goes_on = [], asyncio.Event()

        def ask(x):
            return hosted.ask("*", "/read", method="POST", headers=JSON, body=b'{"x": %d}' % x)

        first = ask(1)
        await begun()
        asked = [ask(x) for x in (2, 7, 3, 4, 5)]
        for _ in range(20):
            await asyncio.sleep(0)
        Sizes.goes_on.set()
        answers = [(await each.whole())[::2] for each in (first, *asked)]
        assert [status for status, _ in answers] == [200, 200, 400, 200, 200, 200]
        assert [body for _, body in answers[:2] + answers[3:]] == [b"2", b"4", b"6", b"8", b"10"]
        assert b"not 7" in answers[2][1]
        assert Sizes.seen == [1, 3, 2]

    mounted(Batched, scenario)


def test_a_full_queue_of_a_batched_method_refuses(mounted):
    @trilith.service(middleware=[Marks], max_waiting=1)
    class Full:
        @trilith.api(batch=trilith.Batch(max_size=1))
        async def read(self, x: list[int]) -> list[int]:
            Sizes.seen.append(len(x))
            await Sizes.goes_on.wait()
            return x

    async def scenario(hosted):
        Sizes.seen, Sizes.goes_on = [], asyncio.Event()
        asked = [hosted.ask("*", "/read", method="POST", headers=JSON, body=b'{"x": 1}')]
        await begun()
        asked += [hosted.ask("*", "/read", method="POST", headers=JSON, body=b'{"x": 1}') for _ in range(2)]
        assert (await asked[2].whole())[0] == 429
        Sizes.goes_on.set()
        assert [(await each.whole())[0] for each in asked[:2]] == [200, 200]

    mounted(Full, scenario)


def test_middleware_that_cannot_be_made_ends_the_start(mounted):
    @trilith.service(middleware=[(Marks, {"unknown": 1})])
    class Broken:
        page = trilith.mount("/", some_page)

    async def scenario(hosted):
        raise AssertionError("it did start")

    with pytest.raises(SetupError, match="Broken: its middleware: Marks could not be made: TypeError"):
        mounted(Broken, scenario)
