"""Whatever a method raises, each of its calls is answered, and nothing of it is left behind."""

import asyncio
import builtins
import contextlib
import pathlib
import resource
import threading

import numpy as np
import pytest

import trilith
from trilith.errors import Cancelled, CapacityError, InvalidInput, NotFound, QueueFull, ServiceError, TrilithError
from trilith.service import RemoteServiceCaller
from trilith.service.codecs.files import RequestFolder
from trilith.service.failure import Calling, explain

FAULTS = [
    "BaseException",
    "GeneratorExit",
    "KeyboardInterrupt",
    "SystemExit",
    "StopIteration",
    "CancelledError",
    "Odd",
    "Ending",
    "Rigged",
    "Unreadable",
]


class Odd(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Ending(Exception):
    """Whoever looks at it ends the process."""

    def __str__(self) -> str:
        raise SystemExit(3)

    __repr__ = __str__


class Rigged(Exception):
    def __str__(self) -> str:
        return RiggedText("text")


class RiggedText(str):
    __slots__ = ()

    def __format__(self, spec: str) -> str:
        raise SystemExit(3)


class Unreadable(InvalidInput):
    def __init__(self) -> None:
        Exception.__init__(self)

    @property
    def message(self) -> str:  # type: ignore[override]
        raise SystemExit(3)


def fault(name: str) -> BaseException:
    kinds = {"CancelledError": asyncio.CancelledError} | {
        kind.__name__: kind for kind in (Odd, Ending, Rigged, Unreadable)
    }
    kind: type[BaseException] = kinds[name] if name in kinds else getattr(builtins, name)
    return kind()


@trilith.service
class Faulty:
    @trilith.api
    async def short(self, name: str) -> str:
        raise fault(name)

    @trilith.api
    async def general(self, name: str) -> np.ndarray:
        raise fault(name)

    @trilith.api
    def thread(self, name: str) -> str:
        raise fault(name)

    @trilith.api(batch=trilith.Batch(max_size=4))
    async def batched(self, names: list[str]) -> list[str]:
        raise fault(names[0])

    @trilith.api(batch=trilith.Batch(max_size=4))
    def batched_thread(self, names: list[str]) -> list[str]:
        raise fault(names[0])

    @trilith.api(batch=trilith.Batch(max_size=4))
    async def item(self, names: list[str]) -> list[str]:
        return [fault(name) for name in names]  # type: ignore[misc]

    @trilith.api(batch=trilith.Batch(max_size=4), idempotent=True)
    async def halves(self, names: list[str]) -> list[str]:
        if any(name in FAULTS for name in names):
            raise fault(next(name for name in names if name in FAULTS))
        return names

    @trilith.api
    async def cancels_itself(self) -> int:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return 1

    @trilith.api
    async def well(self) -> int:
        return 1


@pytest.mark.parametrize("method", ["short", "general", "thread", "batched", "batched_thread", "item"])
def test_every_exception_is_the_methods_failure(serve, caplog, method):
    async def scenario(hosted):
        for name in FAULTS:
            caplog.clear()
            with pytest.raises(ServiceError, match=f"^Faulty.{method} failed; see the server's log, request id r1$"):
                async with asyncio.timeout(2):
                    await hosted.call(method, f'{{"name{"s" if method[0] in "bi" else ""}": "{name}"}}'.encode())
            assert f"raised {name}" in caplog.text
            await hosted.idle()
        assert (await hosted.call("well")).body == b"1"

    serve(Faulty, scenario)


@pytest.mark.parametrize("name", FAULTS)
def test_a_batch_is_tried_in_halves_after_any_exception(serve, caplog, name):
    async def scenario(hosted):
        bodies = [f'{{"names": "{one}"}}'.encode() for one in ("a", name, "b")]
        first, failed, last = await hosted.batch("halves", bodies)
        assert (first.body, last.body) == (b'"a"', b'"b"')
        assert isinstance(failed, ServiceError)

    serve(Faulty, scenario)


def test_a_method_that_cancels_itself_has_failed(serve, caplog):
    async def scenario(hosted):
        with pytest.raises(ServiceError):
            await hosted.call("cancels_itself")
        await hosted.idle()

    serve(Faulty, scenario)


@pytest.mark.parametrize("retry_after_s", [float("nan"), float("inf"), -1.0, "soon"])
def test_an_absurd_time_to_wait_is_none(retry_after_s):
    found = explain(QueueFull("full", retry_after_s=retry_after_s), "X.y", "r1", debug=False)
    assert (type(found), found.message, found.retry_after_s) == (QueueFull, "full", None)


class Mine(QueueFull):
    code = "mine\r\nx"


class Silent(InvalidInput):
    code = "silent"

    def __init__(self) -> None:
        Exception.__init__(self, "said by hand")


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (Mine("full", retry_after_s=3), QueueFull, "full"),
        (Silent(), InvalidInput, "said by hand"),
        (InvalidInput(5), InvalidInput, "5"),  # type: ignore[arg-type]
    ],
)
def test_an_error_class_of_the_users_own_is_the_nearest_of_triliths(error, kind, message):
    found = explain(error, "X.y", "r1", debug=False)
    assert type(found) is kind
    assert (found.code, found.message) == (kind.code, message)
    assert found.retry_after_s == getattr(error, "retry_after_s", None)
    assert found.__cause__ is error


@pytest.mark.parametrize("kind", [ServiceError, QueueFull, ValueError])
def test_a_text_that_cannot_be_encoded_becomes_one_that_can(kind):
    found = explain(kind("half \ud800"), "X.y", "r1", debug=True, logged=True)
    assert "half ?" in found.message


def test_a_refusal_of_a_call_whose_text_ends_the_process_is_the_methods_failure(caplog):
    error = NotFound("x")
    error.__class__ = EndingRefusal
    with contextlib.suppress(NotFound), Calling("Other.one"):
        raise error
    found = explain(error, "X.y", "r1", debug=True)
    assert type(found) is ServiceError
    assert "called Other.one" in found.message


class EndingRefusal(NotFound):
    __str__ = Ending.__str__


@trilith.service
class Uploads:
    def __init__(self) -> None:
        self.seen: list[pathlib.Path] = []

    @trilith.api
    def keep(self, file: pathlib.Path, count: int = 0) -> int:
        self.seen.append(file)
        return count

    @trilith.api
    async def keep_many(self, files: list[pathlib.Path], count: int = 0) -> int:
        self.seen += files
        raise ValueError


@pytest.fixture
def folders(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return lambda: list(tmp_path.iterdir())


def test_uploads_are_removed_when_the_disk_is_full(serve, folders, monkeypatch, caplog):
    def full(path, body):
        path.touch()
        raise OSError(28, "No space left on device")

    async def scenario(hosted):
        with pytest.raises(CapacityError):
            await hosted.call("keep", b"x", "application/octet-stream")
        await hosted.idle()
        assert folders() == []

    monkeypatch.setattr(pathlib.Path, "write_bytes", full)
    serve(Uploads, scenario)


@pytest.mark.parametrize("method", ["keep", "keep_many"])
def test_uploads_are_removed_when_a_later_argument_is_wrong(serve, folders, method):
    async def scenario(hosted):
        async def send(meta, buffers, context):
            answer = await hosted.call(method, list(buffers), meta.content_type)
            return answer.meta, answer.buffers

        caller = RemoteServiceCaller(hosted.host.spec, send)
        with pytest.raises(InvalidInput, match="count"):
            await caller.call(method, (b"x" if method == "keep" else [b"x"], "no number"), {})
        await hosted.idle()
        assert folders() == []

    serve(Uploads, scenario)


def test_uploads_are_removed_after_the_call(serve, folders, caplog):
    async def scenario(hosted):
        await hosted.call("keep", b"x", "application/octet-stream")
        body = b'--b\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\nx\r\n--b--\r\n'
        with pytest.raises(ServiceError):
            await hosted.call("keep_many", body, "multipart/form-data; boundary=b")
        await hosted.idle()
        assert len(hosted.host.instance.seen) == 2
        assert folders() == []

    serve(Uploads, scenario)


def test_uploads_of_a_request_that_is_given_up_meanwhile_are_removed(serve, folders, monkeypatch):
    writing, go_on, saved = threading.Event(), threading.Event(), threading.Event()
    write, save = pathlib.Path.write_bytes, RequestFolder.save

    def slow(path, body):
        writing.set()
        go_on.wait(5)
        return write(path, body)

    async def scenario(hosted):
        body = b'--b\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\n%b\r\n--b--\r\n' % (
            b"x" * 100_000
        )
        call, future = hosted.make("keep_many", body, "multipart/form-data; boundary=b")
        hosted.host.handle(call)
        await asyncio.to_thread(writing.wait, 5)
        call.cancel()
        with pytest.raises(Cancelled):
            await future
        await hosted.idle()
        go_on.set()
        await asyncio.to_thread(saved.wait, 5)
        assert folders() == []
        assert hosted.host.instance.seen == []

    def save_and_say(folder, *args):
        try:
            return save(folder, *args)
        finally:
            saved.set()

    monkeypatch.setattr(RequestFolder, "save", save_and_say)
    monkeypatch.setattr(pathlib.Path, "write_bytes", slow)
    serve(Uploads, scenario)


def test_a_folder_that_was_removed_takes_no_more(folders):
    folder = RequestFolder()
    folder.save(b"x", "a")
    folder.remove()
    with pytest.raises(TrilithError, match="given up"):
        folder.save(b"x", "b")
    assert folders() == []


def test_no_room_for_an_upload_is_no_failure_of_the_method(serve, folders):
    """The bound on the length of files is one that a process can set itself: EFBIG, as ENOSPC from a full disk."""

    async def scenario(hosted):
        body = b'--b\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\n%b\r\n--b--\r\n' % (
            b"x" * 100_000
        )
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
        try:
            call, future = hosted.make("keep_many", body, "multipart/form-data; boundary=b")
            hosted.host.handle(call)
            with pytest.raises(CapacityError, match=r"no room for an upload \(100000 bytes\) .*TMPDIR") as raised:
                await future
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert raised.value.code == "unavailable"
        await hosted.idle()
        assert folders() == []
        assert hosted.host.instance.seen == []

    serve(Uploads, scenario)


def test_a_call_for_which_there_is_no_thread_fails_and_says_so(serve, monkeypatch, caplog):
    """As when the system has no more threads."""

    @trilith.service
    class Plain:
        @trilith.api
        def one(self) -> int:
            return 1

    async def scenario(hosted):
        def refuse(*_):
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patched:
            patched.setattr(hosted.host._executor, "submit", refuse)
            with pytest.raises(ServiceError):
                await hosted.call("one")
        assert "can't start new thread" in caplog.text
        await hosted.idle()
        assert await hosted.body("one") == b"1"

    serve(Plain, scenario)
