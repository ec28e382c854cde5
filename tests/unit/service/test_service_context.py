"""What a method can read of its call, and say of its answer; each call for itself."""

import asyncio
import pathlib

import msgspec
import pytest

import trilith
from trilith.core.context import current_context
from trilith.core.identity import Identity
from trilith.errors import Cancelled, InvalidInput, ServiceError
from trilith.service import PLAIN_RESULT
from trilith.wire.calls import NATIVE_CONTENT_TYPE, CallMeta, ResultMeta, pack_meta, unpack_call, unpack_result


@trilith.service(threads=2)
class Says:
    def __init__(self) -> None:
        self.folders: list[pathlib.Path] = []
        self.heard: list[dict[str, str]] = []
        self.begun = asyncio.Event()

    @trilith.api
    async def plain(self, x: int) -> int:
        return x

    @trilith.api
    async def created(self, x: int) -> int:
        context = trilith.context()
        context.status = 201
        context.set_header("Location", f"/things/{x}")
        context.set_cookie("seen", str(x), max_age_s=60)
        context.delete_cookie("old")
        return x

    @trilith.api
    def created_in_thread(self, x: int) -> list[int]:
        trilith.context().status = 202
        return [x]

    @trilith.api
    async def reads(self) -> dict[str, str]:
        return trilith.context().cookies

    @trilith.api
    async def fails(self) -> int:
        trilith.context().set_header("x-half", "done")
        raise InvalidInput("no")

    @trilith.api
    async def splits(self, text: str) -> int:
        trilith.context().set_header("x-text", text)
        return 1

    @trilith.api(batch=trilith.Batch(max_size=8), idempotent=True)
    async def each(self, words: list[str]) -> list[str]:
        for context, word in zip(trilith.context().items, words, strict=True):
            context.set_header("x-word", word)
            context.status = 203 if len(words) > 2 else 200
            (context.temp_dir / "word").write_text(word)
            self.folders.append(context.temp_dir)
        if "bad" in words:
            raise ValueError("bad")
        return words

    @trilith.api(batch=trilith.Batch(max_size=8))
    async def together(self, words: list[str]) -> list[str]:
        trilith.context().status = 201
        return words

    @trilith.api(batch=trilith.Batch(max_size=8))
    async def writes_together(self, words: list[str]) -> list[str]:
        return self.keep(words)

    @trilith.api(batch=trilith.Batch(max_size=8))
    def writes_together_in_thread(self, words: list[str]) -> list[str]:
        return self.keep(words)

    def keep(self, words: list[str]) -> list[str]:
        folder = trilith.context().temp_dir
        (folder / "words").write_text("".join(words))
        self.folders.append(folder)
        self.heard.append(dict(trilith.context().headers))
        if "bad" in words:
            raise ValueError("bad")
        return words

    @trilith.api
    async def writes(self) -> str:
        folder = trilith.context().temp_dir
        assert trilith.context().temp_dir == folder
        (folder / "deep").mkdir()
        (folder / "deep" / "file").write_bytes(b"x" * 1000)
        self.folders.append(folder)
        return str(folder)

    @trilith.api
    def writes_in_thread(self) -> str:
        (trilith.context().temp_dir / "file").write_bytes(b"x")
        self.folders.append(trilith.context().temp_dir)
        return "done"

    @trilith.api
    async def writes_and_waits(self) -> str:
        await self.writes()
        self.begun.set()
        await asyncio.get_running_loop().create_future()
        return ""


def test_an_answer_of_which_nothing_is_said_has_the_shared_envelope(call_once):
    assert call_once(Says, "plain", b'{"x":1}').meta is PLAIN_RESULT


def test_status_headers_and_cookies(call_once):
    meta = call_once(Says, "created", b'{"x":7}').meta
    assert meta.status == 201
    assert meta.headers == (
        ("location", "/things/7"),
        ("set-cookie", "seen=7; Path=/; Max-Age=60; Secure; HttpOnly; SameSite=Lax"),
        (
            "set-cookie",
            "old=; Path=/; Max-Age=0; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Secure; HttpOnly; SameSite=Lax",
        ),
    )
    assert call_once(Says, "created_in_thread", b'{"x":7}').meta == ResultMeta("application/json", status=202)


def test_they_stand_beside_a_timeline(call_once):
    meta = call_once(Says, "created", b'{"x":7}', trace=True).meta
    assert meta.timeline is not None
    assert (meta.status, meta.headers[0]) == (201, ("location", "/things/7"))


def test_another_service_gets_the_value_alone(serve):
    async def scenario(hosted):
        from trilith.service.codecs import native

        return await hosted.call("created", native.pack_call((7,), {}), NATIVE_CONTENT_TYPE)

    assert serve(Says, scenario).meta == ResultMeta(NATIVE_CONTENT_TYPE)


def test_an_error_has_none_of_them(call_once):
    with pytest.raises(InvalidInput, match=r"^no$"):
        call_once(Says, "fails")


def test_a_value_of_a_caller_cannot_end_the_line(call_once):
    assert call_once(Says, "splits", b'{"text":"fine"}').meta.headers == (("x-text", "fine"),)
    with pytest.raises(ServiceError, match="must not have control characters"):
        call_once(Says, "splits", b'{"text":"a\\r\\nset-cookie: b=c"}')


def test_cookies_of_the_request(serve):
    async def scenario(hosted):
        call, future = hosted.make("reads")
        call.context.headers["cookie"] = 'a=1; b="2"; junk'
        hosted.host.handle(call)
        return (await future).body

    assert msgspec.json.decode(serve(Says, scenario)) == {"a": "1", "b": "2"}


def test_each_call_of_a_batch_has_its_own(serve):
    async def scenario(hosted):
        answers = await hosted.batch("each", [b'{"words":"a"}', b'{"words":"b"}', b'{"words":"c"}'])
        await hosted.idle()
        return answers, hosted.host.instance.folders

    answers, folders = serve(Says, scenario)
    assert [(answer.meta.status, answer.meta.headers) for answer in answers] == [
        (203, (("x-word", word),)) for word in "abc"
    ]
    assert len(set(folders)) == 3
    assert not any(folder.exists() for folder in folders)


def test_what_a_failed_run_of_a_batch_said_is_forgotten(serve, caplog):
    async def scenario(hosted):
        return await hosted.batch("each", [b'{"words":"a"}', b'{"words":"b"}', b'{"words":"bad"}'])

    first, second, bad = serve(Says, scenario)
    assert isinstance(bad, ServiceError)
    assert {first.meta.status, second.meta.status} <= {200}
    assert [first.meta.headers, second.meta.headers] == [(("x-word", "a"),), (("x-word", "b"),)]


def test_a_batch_has_no_answer_of_its_own(serve, caplog):
    async def scenario(hosted):
        return await hosted.batch("together", [b'{"words":"a"}', b'{"words":"b"}'])

    for answer in serve(Says, scenario):
        assert isinstance(answer, ServiceError)
        assert "trilith.context().items" in answer.message


@pytest.mark.parametrize("method", ["writes", "writes_in_thread"])
def test_a_temporary_folder_ends_with_its_call(serve, method, tmp_path):
    async def scenario(hosted):
        hosted.host._uploads = tmp_path / "server" / "replica"
        (tmp_path / "server").mkdir()
        await hosted.call(method)
        await hosted.idle()
        return hosted.host.instance.folders

    [folder] = serve(Says, scenario)
    assert folder.parent == tmp_path / "server" / "replica"
    assert list(folder.parent.iterdir()) == []


@pytest.mark.parametrize("method", ["writes_together", "writes_together_in_thread"])
@pytest.mark.parametrize("words", [["a"], ["a", "b"], ["a", "bad"]])
def test_the_temporary_folder_of_a_batch_is_the_replicas_and_ends_with_it(serve, caplog, method, words, tmp_path):
    async def scenario(hosted):
        hosted.host._uploads = tmp_path / "server" / "replica"
        (tmp_path / "server").mkdir()
        await hosted.batch(method, [b'{"words":"%s"}' % word.encode() for word in words])
        await hosted.idle()
        return hosted.host.instance

    [folder] = serve(Says, scenario).folders
    assert folder.parent == tmp_path / "server" / "replica"
    assert list(folder.parent.iterdir()) == []


def test_the_context_of_a_batch_has_no_headers_not_even_of_one_call(serve):
    async def scenario(hosted):
        await hosted.call("writes_together", b'{"words":"a"}', accept="application/json")
        return hosted.host.instance.heard

    assert serve(Says, scenario) == [{}]


def test_a_temporary_folder_ends_with_a_call_that_is_taken_back(serve):
    async def scenario(hosted):
        call, future = hosted.make("writes_and_waits")
        hosted.host.handle(call)
        await hosted.host.instance.begun.wait()
        [folder] = hosted.host.instance.folders
        assert folder.is_dir()
        call.cancel()
        await hosted.idle()
        with pytest.raises(Cancelled):
            await future
        with pytest.raises(Cancelled, match="the call is over"):
            _ = call.context.temp_dir
        return folder

    assert not serve(Says, scenario).exists()


def test_by_hand_there_is_a_context_too():
    token = current_context.set(None)
    try:
        context = trilith.context()
        assert asyncio.run(Says().created(3)) == 3
        assert context.status == 201
        assert dict(context.answer.fields)["location"] == "/things/3"
        assert (context.client, context.identity, context.cookies) == ("", None, {})
        folder = context.temp_dir
        assert folder.is_dir()
        context.folder = None
        assert not folder.exists()
    finally:
        current_context.reset(token)


@trilith.service
class Outer:
    inner = trilith.depends(Says)

    @trilith.api
    async def both(self) -> list[str]:
        trilith.context().set_header("x-outer", "1")
        await self.inner.created(1)
        words = await asyncio.gather(*(self.inner.each(word) for word in "ab"))
        return words

    @trilith.api
    def blocking(self) -> list[int]:
        trilith.context().set_header("x-outer", "1")
        return self.inner.created_in_thread(1)


@pytest.mark.parametrize("method", ["both", "blocking"])
def test_a_service_that_is_called_says_nothing_of_its_callers_answer(call_once, method):
    assert call_once(Outer, method).meta.headers == (("x-outer", "1"),)
    assert call_once(Outer, method).meta.status == 200


def test_who_asks_travels_with_the_call():
    identity = Identity(name="scanner", kind="key", claims={"team": "a"})
    meta = CallMeta("s", "m", "", "id", None, client="127.0.0.1:80", identity=identity)
    assert unpack_call(pack_meta(meta)) == meta
    assert unpack_call(pack_meta(meta)).identity == identity
    result = ResultMeta("a/b", status=404, headers=(("x", "y"), ("x", "z")))
    assert unpack_result(pack_meta(result)) == result
