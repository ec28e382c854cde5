"""Repositories behind URLs: what is fetched, when, and what is left of it."""

import asyncio
import errno
import io
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from waiting import until

fsspec = pytest.importorskip("fsspec")

from trilith.core.request import InferRequest  # noqa: E402
from trilith.errors import SetupError, UnknownReference  # noqa: E402
from trilith.runtime import ControlMode, Runtime, RuntimeConfig  # noqa: E402
from trilith.runtime.load_run import LoadRun  # noqa: E402
from trilith.runtime.roots import Roots  # noqa: E402
from trilith.testing.backends import EchoBackend, kind_of  # noqa: E402


@pytest.fixture
def memory(tmp_path, monkeypatch):
    """A file system of its own behind `memory://`, with a repository of two models; and a cache of its own."""
    system = fsspec.filesystem("memory")
    monkeypatch.setattr(type(system), "store", {})
    monkeypatch.setattr(type(system), "pseudo_dirs", [""])
    monkeypatch.setenv("TRILITH_CACHE", str(tmp_path / "cache"))
    for name in ("a", "b"):
        system.pipe(f"/bucket/{name}/1/model.twin", b"one")
        system.pipe(f"/bucket/{name}/model.yaml", b"max_batch_size: 4")
    return system


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_names_and_configurations_first_and_files_when_they_are_wanted(memory, tmp_path):
    roots = Roots(["memory://bucket"], tmp_path)
    found = roots.find()
    assert sorted(found) == ["a", "b"]
    mirror = found["a"][0].parent
    assert files(mirror) == ["a/model.yaml", "b/model.yaml"]
    assert roots.fetch("a") == [mirror / "a"]
    assert files(mirror) == ["a/1/model.twin", "a/model.yaml", "b/model.yaml"]
    memory.rm("/bucket/a", recursive=True)
    memory.pipe("/bucket/b/model.yaml", b"max_batch_size: 8")
    assert sorted(roots.find()) == ["b"]
    assert files(mirror) == ["b/model.yaml"]
    assert (mirror / "b" / "model.yaml").read_text() == "max_batch_size: 8"
    assert len(files(mirror.parent / "blobs")) == 1


def test_what_was_fetched_is_not_fetched_again(memory, tmp_path, monkeypatch):
    opened = []
    real = type(memory).open

    def opening(self, path, *rest, **more):
        opened.append(path)
        return real(self, path, *rest, **more)

    monkeypatch.setattr(type(memory), "open", opening)
    for _ in range(2):  # the second as a process that starts anew
        roots = Roots(["memory://bucket"], tmp_path)
        roots.find(whole=True)
        roots.fetch("a")
    assert len(opened) == 4


def test_a_fetch_that_fails_leaves_nothing(memory, tmp_path, monkeypatch):
    roots = Roots(["memory://bucket"], tmp_path)
    mirror = roots.find()["a"][0].parent

    class Cut(io.BytesIO):
        def read(self, size=-1):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(type(memory), "open", lambda *_, **__: Cut())
    with pytest.raises(SetupError, match=r"memory://bucket: no room for the models in .*free some"):
        roots.fetch("a")
    assert files(mirror) == ["a/model.yaml", "b/model.yaml"]
    assert not [name for name in files(mirror.parent / "blobs") if name.startswith(".fetching")]
    monkeypatch.undo()


def test_an_object_that_comes_short_is_not_taken(memory, tmp_path, monkeypatch):
    roots = Roots(["memory://bucket"], tmp_path)
    mirror = roots.find()["a"][0].parent

    class Short(io.BytesIO):
        size = 100

    monkeypatch.setattr(type(memory), "open", lambda *_, **__: Short(b"half"))
    with pytest.raises(UnknownReference, match=r"a/1/model.twin: cannot be fetched: 4 bytes of 100 came"):
        roots.fetch("a")
    assert files(mirror) == ["a/model.yaml", "b/model.yaml"]
    assert not [name for name in files(mirror.parent / "blobs") if name.startswith(".fetching")]


def test_what_is_not_there(memory, tmp_path):
    with pytest.raises(UnknownReference, match="memory://nowhere is not a folder"):
        Roots(["memory://nowhere"], tmp_path).find()
    with pytest.raises(UnknownReference, match="nope://x: Protocol not known"):
        Roots(["nope://x"], tmp_path).find()


@pytest.mark.parametrize("scheme", ["memory", "file"])
def test_served(memory, tmp_path, run, scheme):
    url = "memory://bucket"
    if scheme == "file":
        memory.get("/bucket", str(tmp_path / "bucket"), recursive=True)
        url = f"file://{tmp_path}/bucket"
    kind = kind_of(lambda file: EchoBackend(), filename="model.twin")

    async def main():
        config = RuntimeConfig(backends={"twin": kind}, mode=ControlMode.EXPLICIT)
        async with Runtime(url, config=config) as runtime:
            assert [entry["name"] for entry in await runtime.repository.index(ready_only=False)] == ["a", "b"]
            await runtime.repository.load("b", {})
            await runtime.infer(InferRequest(model="b", inputs={"x": np.ones((1, 2), np.float32)}))
            with pytest.raises(SetupError, match="failed to load 'c', failed to poll from model repository"):
                await runtime.repository.load("c", {})

    run(main())


def test_polled(memory, run):
    made = []

    def create(file):
        made.append(file.path.read_text())
        return EchoBackend()

    async def main():
        kind = kind_of(create, filename="model.twin")
        config = RuntimeConfig(backends={"twin": kind}, mode=ControlMode.POLL, poll_s=3600.0)
        async with Runtime("memory://bucket", config=config) as runtime:
            assert made == ["one", "one"]
            await runtime.repository.poll()
            memory.pipe("/bucket/a/1/model.twin", b"two")
            await runtime.repository.poll()
            assert made == ["one", "one", "two"]
            memory.rm("/bucket/a", recursive=True)
            await runtime.repository.poll()
            assert runtime.model("a").unloaded
            assert runtime.model("b").ready

    run(main())


class Reader(io.BytesIO):
    """A file behind a URL that does something before each byte."""

    def __init__(self, content, before):
        super().__init__(content)
        self._before = before

    def read(self, size=-1):
        self._before()
        return super().read(1 if size else size)


def of_files(memory, monkeypatch, before):
    real = type(memory).open

    def opening(self, path, *rest, **more):
        content = real(self, path, *rest, **more).read()
        return Reader(content, before) if path.endswith(".twin") else io.BytesIO(content)

    monkeypatch.setattr(type(memory), "open", opening)


def test_a_fetch_that_hangs_is_given_up_and_those_who_wait_for_it_too(memory, run, monkeypatch):
    go = threading.Event()
    of_files(memory, monkeypatch, go.wait)
    kind = kind_of(lambda file: EchoBackend(), filename="model.twin")

    async def main():
        config = RuntimeConfig(backends={"twin": kind}, mode=ControlMode.EXPLICIT, load_timeout_s=0.5)
        async with Runtime("memory://bucket", config=config) as runtime:
            loads = [runtime.load(name) for name in ("a", "b")]
            try:
                failures = await asyncio.gather(*loads, return_exceptions=True)
                assert all("gave up looking for its files after 0.5" in str(each) for each in failures), failures
            finally:
                go.set()
            await until(lambda: not runtime._keeper.planners.statistics().left_behind)
            for name in ("a", "b"):
                await runtime.load(name)

    run(main())


def test_a_fetch_that_is_slow_and_gets_on_is_waited_for(memory, run, monkeypatch):
    of_files(memory, monkeypatch, lambda: time.sleep(0.4))
    kind = kind_of(lambda file: EchoBackend(), filename="model.twin")

    async def main():
        config = RuntimeConfig(backends={"twin": kind}, mode=ControlMode.EXPLICIT, load_timeout_s=1.0)
        async with Runtime("memory://bucket", config=config) as runtime:
            await asyncio.gather(runtime.load("a"), runtime.load("b"))  # each takes longer than that

    run(main())


def test_what_cannot_be_fetched_of_one_model_is_an_error_of_that_model(memory, tmp_path, monkeypatch, caplog):
    real = type(memory).open

    def opening(self, path, *rest, **more):
        if "/b/" in path:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real(self, path, *rest, **more)

    monkeypatch.setattr(type(memory), "open", opening)
    roots = Roots(["memory://bucket"], tmp_path)
    for _ in range(2):
        found = roots.find(whole=True)
    assert sorted(found) == ["a", "b"]
    assert files(found["a"][0]) == ["1/model.twin", "model.yaml"]
    assert [("'b'" in said, "cannot be fetched" in said) for said in caplog.messages] == [(True, True)]
    assert roots.fetch("a") == found["a"]
    with pytest.raises(UnknownReference, match=r"b/.*cannot be fetched"):
        roots.fetch("b")


def test_nobody_waits_for_the_files_of_another_model(memory, tmp_path, monkeypatch):
    go, begun = threading.Event(), threading.Event()
    real = type(memory).open

    def opening(self, path, *rest, **more):
        content = real(self, path, *rest, **more).read()
        hangs = path.endswith("/a/1/model.twin")
        return Reader(content, lambda: (begun.set(), go.wait(30))) if hangs else io.BytesIO(content)

    monkeypatch.setattr(type(memory), "open", opening)
    roots, elsewhere = (Roots(["memory://bucket"], tmp_path) for _ in range(2))  # the second as another process
    with ThreadPoolExecutor() as pool:
        fetched = [pool.submit(roots.fetch, "a")]
        assert begun.wait(30)
        try:
            for each in (roots, elsewhere):
                memory.pipe("/bucket/c/1/model.twin", b"one")
                assert sorted(pool.submit(each.find).result(10)) == ["a", "b", "c"]
                [folder] = pool.submit(each.fetch, "b").result(10)
                assert files(folder) == ["1/model.twin", "model.yaml"]
                memory.rm("/bucket/c", recursive=True)
                assert sorted(pool.submit(each.find).result(10)) == ["a", "b"]
            fetched += [pool.submit(each.fetch, "a") for each in (roots, elsewhere, elsewhere)]
            assert not any(future.done() for future in fetched)
        finally:
            go.set()
        for future in fetched:
            [folder] = future.result(30)
            assert (folder / "1" / "model.twin").read_text() == "one"


def test_processes_that_fetch_the_same_fetch_it_once_and_wait_for_each_other(memory, tmp_path, monkeypatch):
    memory.pipe("/bucket/a/1/model.twin", b"0123456789")
    opened = []

    def reading():
        opened.append(threading.get_ident())
        time.sleep(0.15)

    of_files(memory, monkeypatch, reading)
    roots = [Roots(["memory://bucket"], tmp_path) for _ in range(3)]
    runs = [LoadRun() for _ in roots]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda each, run: each.fetch("a", run), roots, runs))
    assert len(set(opened)) == 1
    assert all(run.heard_at for run in runs)  # those who waited heard that the other gets on


def test_who_waits_for_a_model_may_be_given_up(memory, tmp_path, monkeypatch):
    go, begun = threading.Event(), threading.Event()
    of_files(memory, monkeypatch, lambda: (begun.set(), go.wait(30)))
    roots, elsewhere = (Roots(["memory://bucket"], tmp_path) for _ in range(2))
    with ThreadPoolExecutor() as pool:
        try:
            pool.submit(roots.fetch, "a")
            assert begun.wait(30)
            runs = [LoadRun(), LoadRun()]
            waiting = [pool.submit(each.fetch, "a", run) for each, run in zip((roots, elsewhere), runs, strict=True)]
            for run, future in zip(runs, waiting, strict=True):
                run.give_up("nobody wants it")
                with pytest.raises(SetupError, match="nobody wants it"):
                    future.result(10)
        finally:
            go.set()
