"""Whoever unloads or reloads a model may be cancelled: what served ends all the same, and within the runtime."""

import asyncio
import contextlib
import random
import threading

import pytest
from test_load_hangs import Hanging
from test_model_control import request, write
from waiting import until

from trilith.core.load_options import ControlMode
from trilith.errors import CapacityError, Conflict, Draining, SetupError, UnknownModel
from trilith.runtime import ModelHandle, ModelState, Runtime, RuntimeConfig
from trilith.runtime.loading import close_all
from trilith.runtime.protocol import model_source
from trilith.runtime.remembered import LoadMemory
from trilith.testing.backends import EchoBackend, kind_of

BUSY = "hangs warming up"  # it hangs when it runs


@pytest.fixture
def serve(repository, made, go):
    def serve_it(**config):
        kind = kind_of(lambda file: Hanging(file, made, go), filename="model.twin")
        return Runtime(repository, config=RuntimeConfig(backends={"files": kind}, mode=ControlMode.EXPLICIT, **config))

    return serve_it


async def left(task):
    """Whoever waits for it goes away."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def running(runtime, *requests):
    """Requests that run, and wait to be let go."""
    tasks = [asyncio.ensure_future(runtime.infer(each)) for each in requests]
    served = [runtime._keeper.routes[each.model, each.version] for each in requests]
    await until(lambda: all(len(each._queue) == 0 and not each.idle for each in served))
    return tasks


def test_an_unload_goes_on_when_who_asked_for_it_goes_away(repository, serve, run, made, go):
    write(repository, "a", content=BUSY)

    async def main():
        async with serve() as runtime:
            await runtime.load("a")
            [answer] = await running(runtime, request("a"))
            unload = asyncio.ensure_future(runtime.unload("a"))
            await until(lambda: runtime.model("a").state is ModelState.UNLOADING)
            await left(unload)
            again = asyncio.ensure_future(runtime.unload("a"))
            done, _ = await asyncio.wait([again], timeout=0.05)
            assert not done  # it is not unloaded yet
            go.set()
            await answer
            await again
            assert made[0].closed == 1
            assert runtime.model("a").unloaded

    run(main())


def test_an_unload_ends_nothing_that_was_loaded_after_it(repository, serve, run, made, go):
    write(repository, "a", content=BUSY)

    async def main():
        async with serve() as runtime:
            await runtime.load("a")
            [answer] = await running(runtime, request("a"))
            unloads = [asyncio.ensure_future(runtime.repository.unload("a")) for _ in range(3)]
            await until(lambda: runtime.model("a").state is ModelState.UNLOADING)
            await runtime.repository.load("a", {})
            assert runtime.model("a").ready
            go.set()
            await asyncio.gather(answer, *unloads)
            assert runtime.model("a").ready
            assert [backend.closed for backend in made] == [1, 0]
            await runtime.infer(request("a"))

    run(main())


@pytest.mark.parametrize("seed", range(4))
def test_whoever_asks_last_is_heard(repository, serve, run, made, go, seed):
    """Loads and unloads of one model by many clients, with requests in flight."""
    write(repository, "a")
    chosen = random.Random(seed)

    async def main():
        async with serve() as runtime:
            asked = []
            for _ in range(40):
                act = chosen.choice([runtime.load, runtime.unload, runtime.infer])
                asked.append(asyncio.ensure_future(act(request("a") if act == runtime.infer else "a")))
                for _ in range(chosen.choice([0, 1, 5, 40])):
                    await asyncio.sleep(0)
            wanted = chosen.choice([True, False])
            asked.append(asyncio.ensure_future(runtime.load("a") if wanted else runtime.unload("a")))
            for ended in await asyncio.gather(*asked, return_exceptions=True):
                assert not isinstance(ended, Exception) or isinstance(ended, Conflict | CapacityError | UnknownModel)
            assert runtime.model("a").ready == wanted
        assert [backend.closed for backend in made] == [min(backend.loaded, 1) for backend in made]

    run(main())


def test_a_runtime_does_not_end_before_the_unload_that_somebody_left(repository, serve, run, made, go):
    write(repository, "a", content=BUSY)

    async def main():
        async with serve() as runtime:
            await runtime.load("a")
            [answer] = await running(runtime, request("a"))
            unload = asyncio.ensure_future(runtime.unload("a"))
            await until(lambda: runtime.model("a").state is ModelState.UNLOADING)
            await left(unload)
            asyncio.get_running_loop().call_soon(go.set)
        await answer
        assert made[0].closed == 1

    run(main())
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("trilith a/")]


def test_a_reload_that_serves_ends_what_it_took_over_from(repository, serve, run, made, go):
    write(repository, "a", content=BUSY)

    async def main():
        async with serve() as runtime:
            await runtime.load("a")
            [answer] = await running(runtime, request("a"))
            write(repository, "a", content="changed")
            reload = asyncio.ensure_future(runtime.load("a"))
            await until(lambda: any(each.serves for each in runtime._keeper.models["a"].attempts))
            await left(reload)
            asyncio.get_running_loop().call_soon(go.set)
        await answer
        assert [model.closed for model in made] == [1, 1]

    run(main())


def test_a_load_goes_on_while_somebody_else_wants_the_same(repository, serve, run, made, go):
    write(repository, "a", content="hangs")

    async def main():
        async with serve() as runtime:
            first = asyncio.ensure_future(runtime.load("a"))
            await until(lambda: made and made[-1].waits)
            others = [asyncio.ensure_future(runtime.load("a")) for _ in range(2)]
            keeper = runtime._keeper
            await until(lambda: len(keeper.models["a"].attempts) == 3 and not keeper.planners._jobs)
            await left(first)
            await left(others[0])
            assert runtime.model("a").state is ModelState.LOADING
            go.set()
            await others[1]
            assert len(made) == 1
            await runtime.infer(request("a"))

    run(main())


def test_a_load_is_given_up_when_the_last_who_wants_it_goes_away(repository, serve, run, made, go):
    write(repository, "a", content="hangs")

    async def main():
        async with serve() as runtime:
            first = asyncio.ensure_future(runtime.load("a"))
            await until(lambda: made and made[-1].waits)
            second = asyncio.ensure_future(runtime.load("a"))
            keeper = runtime._keeper
            await until(lambda: len(keeper.models["a"].attempts) == 2 and not keeper.planners._jobs)
            await left(first)
            await left(second)
            assert runtime.model("a").state is ModelState.UNAVAILABLE
            await until(lambda: not keeper.models["a"].attempts)
            go.set()
            await until(lambda: made[0].closed)

    run(main())


def test_versions_end_at_the_same_time(repository, serve, run, made, go):
    write(repository, "a", content=BUSY, yaml="versions: all")
    write(repository, "a", version=2)

    async def main():
        async with serve() as runtime:
            await runtime.load("a")
            [answer] = await running(runtime, request("a", version="1"))
            unload = asyncio.ensure_future(runtime.unload("a"))
            quick = next(model for model in made if model.hangs == "fine")
            await until(lambda: quick.closed)
            assert not unload.done()
            go.set()
            await unload
            await answer

    run(main())
    assert [model.closed for model in made] == [1, 1]


def test_what_is_asked_for_while_the_runtime_stops_is_refused(repository, serve, run, made, go):
    write(repository, "a", content=BUSY)

    async def main():
        async with serve() as runtime:
            await runtime.load("a")
            [answer] = await running(runtime, request("a"))
            leaving = asyncio.ensure_future(runtime.__aexit__(None, None, None))
            await until(lambda: not runtime._keeper.open)
            with pytest.raises(Draining):
                await runtime.repository.load("a", {})
            go.set()
            await leaving
            await answer
            assert len(made) == made[0].closed == 1

    run(main())


def test_what_cannot_be_freed_does_not_keep_the_others(repository, serve, run, made, go, caplog, monkeypatch):
    write(repository, "a", yaml="versions: all")
    write(repository, "a", version=2)

    async def main():
        async with serve() as runtime:
            await runtime.load("a")
            monkeypatch.setattr(made[0], "close", lambda: 1 / 0)
            await runtime.unload("a")
            assert runtime.model("a").unloaded
            assert made[1].closed == 1
            assert "a loaded model cannot be freed" in caplog.text

    run(main())


def test_a_load_that_loses_to_its_own_end_leaves_nothing(repository, serve, run, made, go):
    """Whoever asked goes away in the very turn in which the load has brought what was wanted."""
    write(repository, "a", content="hangs")

    async def main():
        async with serve() as runtime:
            load = asyncio.ensure_future(runtime.load("a"))
            await until(lambda: made and made[-1].waits)
            keeper = runtime._keeper
            [job] = keeper.threads._jobs.values()
            job._outcome.add_done_callback(lambda _: load.cancel())
            go.set()
            with contextlib.suppress(asyncio.CancelledError, Conflict):
                await load
        assert made[0].closed == 1

    run(main())


def test_it_is_remembered_when_it_serves_and_when_it_serves_no_more(repository, serve, run, made, go, tmp_path):
    """A process that dies while the old version drains is followed by one that knows what stood."""
    write(repository, "a", content=BUSY)
    memory = tmp_path / "memory"

    async def remembered():
        return [(entry.loaded, entry.config) for entry in await LoadMemory(memory).read()]

    async def remembers(*entries):
        while await remembered() != [*entries]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    async def main():
        async with serve(memory=memory, drain_timeout_s=10) as runtime:
            control, config = runtime.repository, '{"max_batch_size": 8}'
            await runtime.load("a")
            answers = await running(runtime, request("a"))
            assert await remembered() == []  # what the program does, it does again
            write(repository, "a", content=BUSY)
            begun = [asyncio.ensure_future(each) for each in (runtime.load("a"), control.load("a", {}))]
            await remembers((True, None))
            answers += await running(runtime, request("a"))
            begun.append(asyncio.ensure_future(control.load("a", {"config": config})))
            await remembers((True, config))
            answers += await running(runtime, request("a"))
            begun.append(asyncio.ensure_future(control.unload("a")))
            await remembers()  # no start loads it, so it says nothing that it was unloaded
            assert not any(task.done() for task in (begun[0], *begun[2:]))  # begun[1] may find that all is done
            go.set()
            await asyncio.gather(*answers)
            for ended in await asyncio.gather(*begun, return_exceptions=True):
                assert ended is None or isinstance(ended, ModelHandle | Conflict)  # it was unloaded meanwhile
            assert await remembered() == []

    run(main())


def test_a_reload_that_the_end_interrupts_is_not_remembered_as_an_unload(repository, serve, run, made, go, tmp_path):
    write(repository, "a")
    memory = tmp_path / "memory"

    async def main():
        async with serve(memory=memory, drain_timeout_s=0.1) as runtime:
            await runtime.repository.load("a", {})
            write(repository, "a", content="hangs")
            again = asyncio.ensure_future(runtime.repository.load("a", {}))
            await until(lambda: len(made) == 2 and made[-1].waits)
        with pytest.raises(Draining):
            await again
        [entry] = await LoadMemory(memory).read()
        assert (entry.name, entry.loaded) == ("a", True)

    run(main())


def test_what_was_given_up_and_runs_on_is_counted(repository, serve, run, made, go):
    def loads(runtime):
        [found] = [snapshot for snapshot in model_source(runtime)() if snapshot.name == "trilith_model_loads"]
        return {state: value for (state,), value in found.samples}

    async def main():
        runtime = serve(load_timeout_s=0.2, load_threads=1)
        assert loads(runtime) == {"waiting": 0, "running": 0, "left_behind": 0}  # a scrape may come before the start
        async with runtime:
            write(repository, "a", content="hangs")
            with pytest.raises(SetupError, match="gave up loading"):
                await runtime.load("a")
            assert loads(runtime) == {"waiting": 0, "running": 0, "left_behind": 1}
            go.set()
            await until(lambda: loads(runtime) == {"waiting": 0, "running": 0, "left_behind": 0})

    run(main())


def test_one_backend_that_cannot_be_freed_keeps_none_of_its_siblings(caplog):
    backends = [EchoBackend() for _ in range(3)]
    backends[1].close = lambda: 1 / 0
    close_all(backends)
    assert [backend.closed for backend in backends] == [1, 0, 1]
    assert "ZeroDivisionError" in caplog.text
