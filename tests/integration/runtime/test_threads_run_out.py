"""A system that has no thread left for an instance: what cannot serve says so, is freed, and harms nobody else."""

import logging
import threading

import numpy as np
import pytest

from trilith.core.load_options import ControlMode
from trilith.core.request import InferRequest
from trilith.runtime import ModelState, Runtime, RuntimeConfig
from trilith.runtime.loading import LoadFailed
from trilith.testing.backends import EchoBackend, kind_of

WHY = "can't start new thread"


class Own(EchoBackend):
    """One for each instance."""

    def __init__(self):
        super().__init__(concurrent=False)


@pytest.fixture
def serve(repository, made):
    def create(_):
        made.append(Own())
        return made[-1]

    def serve_it(**config):
        kinds = {"own": kind_of(create, filename="model.twin")}
        return Runtime(repository, config=RuntimeConfig(backends=kinds, **config))

    return serve_it


@pytest.fixture
def without(monkeypatch):
    """The system has no thread of these names."""
    refused = set()
    start = threading.Thread.start

    def start_or_not(self):
        if self.name in refused:
            raise RuntimeError(WHY)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", start_or_not)
    return refused


def write(repository, name, *, versions=(1,), yaml=""):
    for version in versions:
        path = repository / name / str(version) / "model.twin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (repository / name / "model.yaml").write_text(yaml)


async def answer(runtime, name, version=""):
    request = InferRequest(model=name, version=version, inputs={"x": np.ones((1, 2), np.float32)})
    return (await runtime.infer(request)).outputs["y"].tolist()


def test_the_start_goes_on_without_the_model(repository, serve, run, without, made, caplog):
    write(repository, "a")
    write(repository, "b", yaml="instances: 3")
    without.add("trilith b/1 #1")

    async def main():
        async with serve() as runtime:
            assert await answer(runtime, "a") == [[1.0, 1.0]]
            assert runtime.model("b").state is ModelState.UNAVAILABLE
            assert WHY in runtime.model("b").reason
            assert not runtime.ready
            assert [backend.closed for backend in made].count(1) == 3  # all of it was freed at once
            without.clear()
            await runtime.load("b")
            assert await answer(runtime, "b") == [[1.0, 1.0]]
        assert [backend.closed for backend in made] == [1] * len(made)

    with caplog.at_level(logging.ERROR):
        run(main())
    assert any("'b' is unavailable" in record.message and WHY in record.message for record in caplog.records)


def test_one_version_of_several_serves(repository, serve, run, without, made):
    write(repository, "a", versions=(1, 2), yaml="versions: all")
    without.add("trilith a/2 #0")

    async def main():
        async with serve() as runtime:
            assert runtime.model("a").versions == ("1",)
            assert runtime.model("a", "2").state is ModelState.UNAVAILABLE
            assert await answer(runtime, "a") == [[1.0, 1.0]]
            assert sorted(backend.closed for backend in made) == [0, 1]

    run(main())


def test_a_load_that_cannot_begin_is_no_load(repository, serve, run, without, made):
    write(repository, "a")
    without.add("trilith a/1 #0")

    async def main():
        async with serve(mode=ControlMode.EXPLICIT) as runtime:
            control = runtime.repository
            with pytest.raises(LoadFailed, match=WHY):
                await control.load("a", {})
            assert not control.is_ready("a", "")
            [entry] = await control.index(ready_only=False)
            assert entry["state"] == "UNAVAILABLE"
            assert WHY in entry["reason"]
            assert [backend.closed for backend in made] == [1]

    run(main())


def test_a_reload_that_cannot_begin_changes_nothing(repository, serve, run, without, made):
    write(repository, "a", yaml="versions: all")

    async def main():
        async with serve() as runtime:
            write(repository, "a", versions=(2,), yaml="versions: all")
            without.add("trilith a/2 #0")
            with pytest.raises(Exception, match=WHY):
                await runtime.load("a")
            assert runtime.model("a").versions == ("1",)
            assert WHY in runtime.model("a").reason
            assert await answer(runtime, "a") == [[1.0, 1.0]]
            [counted] = runtime.statistics("a")
            assert (counted.version, counted.generation) == ("1", 1)
            assert [backend.closed for backend in made] == [0, 1]

    run(main())


def test_instances_that_cannot_begin_are_taken_back(repository, serve, run, without, made):
    write(repository, "a", versions=(1, 2), yaml="{versions: all, instances: 2}")

    async def main():
        async with serve() as runtime:
            write(repository, "a", versions=(), yaml="{versions: all, instances: 5}")
            without.add("trilith a/2 #3")
            with pytest.raises(Exception, match=WHY):
                await runtime.load("a")
            for version in ("1", "2"):
                assert await answer(runtime, "a", version) == [[1.0, 1.0]]
                assert runtime.model("a", version).config.instances.count == 2
            assert {counted.alive for counted in runtime.statistics("a")} == {2}
            without.clear()
            await runtime.load("a")
            assert {counted.alive for counted in runtime.statistics("a")} == {5}
        assert [backend.closed for backend in made] == [1] * 16  # 4 + 6 in vain + 6

    run(main())
