"""Models that are loaded when somebody wants them, and make room for others."""

import asyncio
import functools
import threading

import pytest
from test_model_control import Files, index, request, write
from waiting import until

from trilith.core.clock import MonotonicClock
from trilith.core.load_options import ControlMode
from trilith.errors import Draining, InvalidConfig, NoReadyReplica, QueueFull, UnknownModel
from trilith.runtime import ModelState, Runtime, RuntimeConfig
from trilith.runtime.on_demand import MOST_WAITING
from trilith.runtime.protocol import describe
from trilith.runtime.protocol.grpc_services import model_health
from trilith.runtime.roots import Roots
from trilith.testing.backends import kind_of


class Slow(Files):
    """Hangs while it loads, when its file says so, until it is let go."""

    def __init__(self, file, made, go):
        self._go = go
        self.waits = False
        super().__init__(file, made)

    def load(self):
        if self.file.path.read_text() == "hangs":
            self.waits = True
            self._go.wait()
        return super().load()


class Ahead(MonotonicClock):
    """The machine's clock, and how far it was put forward."""

    ahead_s = 0.0

    def now(self):
        return super().now() + self.ahead_s


@pytest.fixture
def made():
    return []


@pytest.fixture
def go():
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def serve(made, go):
    def serve_it(*roots, **config):
        kind = kind_of(lambda file: Slow(file, made, go), filename="model.twin")
        return Runtime(*roots, config=RuntimeConfig(backends={"files": kind}, on_demand=True, **config))

    return serve_it


def loaded(made):
    return sum(model.loaded - model.closed for model in made)


def test_of_a_thousand_models_so_many_are_in_memory(repository, serve, run, made):
    for at in range(1000):
        write(repository, f"m{at:03}")

    async def main():
        async with serve(repository, max_loaded_models=8, load_at_start=("m007",), load_threads=8) as runtime:
            assert runtime.ready
            assert len(made) == 1
            assert len(await runtime.repository.index(ready_only=False)) == 1000
            most = 0
            for start in range(0, 1000, 40):
                names = [f"m{at:03}" for at in range(start, start + 40)]
                for answer in asyncio.as_completed([runtime.infer(request(name)) for name in names]):
                    await answer
                    most = max(most, loaded(made))
            assert most <= 8 + 1  # the one of the start is not counted
            assert len(made) == 1000
            for _ in range(2):
                await runtime.infer(request("m999"))
            again = len(made) - 1000
            assert again <= 1  # it may have made room already, and then it stayed
            entries = await runtime.repository.index(ready_only=True)
            assert {"m007", "m999"} <= {entry["name"] for entry in entries}
            assert len(entries) <= 9

    run(main())
    assert all(model.loaded == model.closed == 1 for model in made)


def test_many_who_want_it_share_one_load(repository, serve, run, made, go):
    write(repository, "a", content="hangs")

    async def main():
        async with serve(repository) as runtime:
            asked = [asyncio.ensure_future(runtime.infer(request("a"))) for _ in range(100)]
            await until(lambda: made and made[-1].waits)
            [entry] = await runtime.repository.index(ready_only=False)
            assert (entry["state"], entry["reason"][:11]) == ("LOADING", "loading for")
            asked[0].cancel()
            go.set()
            await asyncio.gather(*asked[1:])
            assert len(made) == 1
            with pytest.raises(UnknownModel, match="version 7 is not found"):
                await runtime.infer(request("a", version="7"))
            with pytest.raises(UnknownModel, match="'b' is not found"):
                await runtime.infer(request("b"))
            with pytest.raises(UnknownModel):
                await runtime.infer(request("../models/a"))

    run(main())


def test_a_failure_is_told_to_all_and_not_tried_again_at_once(repository, serve, run, made, monkeypatch):
    clock = Ahead()
    monkeypatch.setattr("trilith.runtime.runtime.MonotonicClock", lambda: clock)
    write(repository, "a", content="broken")

    async def main():
        async with serve(repository) as runtime:
            asked = [runtime.infer(request("a")) for _ in range(10)]
            failures = await asyncio.gather(*asked, return_exceptions=True)
            assert all(isinstance(each, NoReadyReplica) for each in failures)
            assert "'a' is not at ready state: load failed for model 'a'" in str(failures[0])
            assert "the file is broken" in str(failures[0])
            with pytest.raises(NoReadyReplica, match="the file is broken") as refused:
                await runtime.infer(request("a"))
            assert refused.value.retry_after_s == 1.0
            assert len(made) == 1
            assert runtime.model("a").state is ModelState.UNAVAILABLE
            write(repository, "a")
            clock.ahead_s += refused.value.retry_after_s
            await runtime.infer(request("a"))
            assert len(made) == 2

    run(main())


def test_who_waits_too_long_is_told_and_the_load_goes_on(repository, serve, run, made, go):
    write(repository, "a", content="hangs")

    async def main():
        async with serve(repository, load_on_demand_wait_s=1.5) as runtime:
            with pytest.raises(
                NoReadyReplica, match=r"it was wanted 1.5 s ago and is not there yet \(loading for \d s"
            ):
                await runtime.infer(request("a"))
            go.set()
            await until(lambda: any(model.ready for model in runtime.models()))
            await runtime.infer(request("a"))
            assert len(made) == 1

    run(main())


def test_the_least_recently_used_makes_room_and_none_that_is_used(repository, serve, run, made):
    for name in "abc":
        write(repository, name)

    async def main():
        async with serve(repository, max_loaded_models=2) as runtime:

            def ready():
                return [model.name for model in runtime.models() if model.ready]

            for name in "aba":
                await runtime.infer(request(name))
            await runtime.infer(request("c"))
            assert ready() == ["a", "c"]
            of_a, of_c = (next(model for model in made[::-1] if model.file.model == name) for name in "ac")
            with of_a.held(), of_c.held():
                held = [asyncio.ensure_future(runtime.infer(request(name))) for name in "ac"]
                await until(lambda: of_a.most_at_once and len(of_c.executed) == 2)
                waits = asyncio.ensure_future(runtime.infer(request("b")))
                await until(lambda: runtime._demand._residents.blocked)
                assert ready() == ["a", "c"]
                of_c._open.set()
                await waits
                assert ready() == ["a", "b"]
            await asyncio.gather(*held)
            assert loaded(made) == 2

    run(main())


def test_two_who_want_two_models_in_one_place_both_get_answers(repository, serve, run, made):
    for name in "ab":
        write(repository, name)

    async def main():
        async with serve(repository, max_loaded_models=1) as runtime:

            async def ask(name):
                for _ in range(10):
                    await runtime.infer(request(name))

            await asyncio.gather(*(ask(name) for name in "abab"))
            assert loaded(made) == 1

    run(main())


def test_a_program_may_unload_what_was_loaded_on_demand(repository, serve, run, made):
    for name in "ab":
        write(repository, name)

    async def main():
        async with serve(repository, max_loaded_models=1) as runtime:
            await runtime.infer(request("a"))
            await runtime.unload("a")
            await runtime.infer(request("b"))
            await runtime.infer(request("a"))
            assert index(await runtime.repository.index(ready_only=True)) == {("a", "1"): "READY"}

    run(main())
    assert len(made) == 3


def test_a_place_is_given_back_whatever_the_unload_raises(repository, serve, run, made, monkeypatch, caplog):
    for name in ("a", "b", "c"):
        write(repository, name)

    async def main():
        async with serve(repository, max_loaded_models=1) as runtime:
            await runtime.infer(request("a"))
            unload = runtime._keeper.unload

            async def unload_and_fail(name):
                await unload(name)
                monkeypatch.undo()
                raise RuntimeError("can't start new thread")

            monkeypatch.setattr(runtime._keeper, "unload", unload_and_fail)
            for name in ("b", "c", "a"):
                await runtime.infer(request(name))

    run(main())
    assert "unloading model 'a' failed" in caplog.text


def test_so_many_wait_and_no_more(repository, serve, run, made, go):
    write(repository, "a", content="hangs")

    async def main():
        async with serve(repository, drain_timeout_s=0.05) as runtime:
            asked = [asyncio.ensure_future(runtime.infer(request("a"))) for _ in range(MOST_WAITING)]
            await until(lambda: made and made[-1].waits)
            with pytest.raises(QueueFull, match="requests wait for model 'a' to load"):
                await runtime.infer(request("a"))
        assert {type(each) for each in await asyncio.gather(*asked, return_exceptions=True)} == {Draining}

    run(main())


class Disk:
    """Says whether the repositories hold a model, when it does."""

    def __init__(self, monkeypatch):
        self.answers = threading.Event()
        self.answers.set()
        self.asked = []
        self._real = Roots.holds
        monkeypatch.setattr(Roots, "holds", lambda roots, name: self.holds(roots, name))

    def holds(self, roots, name):
        self.asked.append((name, threading.current_thread()))
        self.answers.wait()
        return self._real(roots, name)


@pytest.fixture
def disk(monkeypatch):
    found = Disk(monkeypatch)
    yield found
    found.answers.set()


def test_a_disk_that_hangs_holds_up_who_asks_it_alone(repository, serve, run, made, disk):
    for name in ("a", "b", "c"):
        write(repository, name)

    async def main():
        async with serve(repository) as runtime:
            await runtime.infer(request("a"))
            disk.answers.clear()
            b = [asyncio.ensure_future(runtime.infer(request("b"))) for _ in range(20)]
            nope = [asyncio.ensure_future(runtime.infer(request("nope"))) for _ in range(20)]
            ready = asyncio.ensure_future(describe.takes_requests(runtime, "c", ""))
            health = model_health(runtime, draining=lambda: False)
            assert health("c"), "it was there when the runtime started"
            assert health("nope") is None
            await until(lambda: len(disk.asked) >= 3)
            for _ in range(20):
                await runtime.infer(request("a"))
            b[0].cancel()
            assert not any(each.done() for each in (*b[1:], *nope, ready))
            disk.answers.set()
            await asyncio.gather(*b[1:])
            refused = await asyncio.gather(*nope, return_exceptions=True)
            assert {type(each) for each in refused} == {UnknownModel}
            assert "'nope' is not found" in str(refused[0])
            assert await ready
            assert {name for name, _ in disk.asked} == {"a", "b", "c", "nope"}
            assert threading.main_thread() not in {thread for _, thread in disk.asked}

    run(main())


def test_a_disk_that_hangs_for_long_is_given_up(repository, serve, run, made, disk):
    write(repository, "a")

    async def main():
        async with serve(repository, load_on_demand_wait_s=0.2) as runtime:
            disk.answers.clear()
            with pytest.raises(NoReadyReplica, match="'a' is not at ready state: it"):
                await runtime.infer(request("a"))
            assert not await describe.takes_requests(runtime, "a", "")
            disk.answers.set()
            await until(lambda: _obtainable(runtime, "a"))

    run(main())


def _obtainable(runtime, name):
    return model_health(runtime, draining=lambda: False)(name)


def test_what_waits_for_a_disk_is_told_of_the_end(repository, serve, run, made, disk):
    write(repository, "a")

    async def main():
        async with serve(repository) as runtime:
            disk.answers.clear()
            asked = [asyncio.ensure_future(runtime.infer(request(name))) for name in ("a", "nope")]
            await until(lambda: disk.asked)
        assert {type(each) for each in await asyncio.gather(*asked, return_exceptions=True)} == {Draining}

    run(main())


def test_a_folder_that_comes_later_is_found(repository, serve, run, made):
    async def main():
        async with serve(repository) as runtime:
            with pytest.raises(UnknownModel):
                await runtime.infer(request("late"))
            write(repository, "late")
            await until(lambda: _obtainable(runtime, "late"))
            assert await describe.takes_requests(runtime, "late", "")
            await runtime.infer(request("late"))

    run(main())


@pytest.mark.parametrize(
    "wrong", [{"mode": ControlMode.POLL}, {"max_loaded_models": 0}, {"load_on_demand_wait_s": 0.0}]
)
def test_what_cannot_be(wrong):
    with pytest.raises(InvalidConfig):
        RuntimeConfig(on_demand=True, **wrong)


def test_what_whoever_asks_gets_counts_as_ready_while_it_comes_and_goes(repository, serve, run, made, go):
    write(repository, "a", content="hangs")
    write(repository, "b", content="broken")

    async def main():
        async with serve(repository) as runtime:
            ready = functools.partial(describe.takes_requests, runtime, version="")
            health = model_health(runtime, draining=lambda: False)
            assert await ready("a")
            assert health("a")
            first = asyncio.ensure_future(runtime.infer(request("a")))
            await until(lambda: made and made[-1].waits)
            assert runtime.model("a").state is ModelState.LOADING
            assert await ready("a")
            assert health("a")
            go.set()
            await first
            assert await ready("a")
            await runtime.unload("a")
            assert await ready("a")
            with pytest.raises(NoReadyReplica):
                await runtime.infer(request("b"))
            assert not await ready("b")
            assert not health("b")

    run(main())
