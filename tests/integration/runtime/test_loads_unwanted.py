"""A load that waits for a thread is dropped with the last who waits for it; one that has begun is not."""

import asyncio

import pytest
from test_load_hangs import Hanging
from test_model_control import request, write
from waiting import until

from trilith.errors import NoReadyReplica, UnknownModel
from trilith.runtime import Runtime, RuntimeConfig
from trilith.runtime.changes import ControlMode
from trilith.testing.backends import kind_of


@pytest.fixture
def serve(repository, made, go):
    """A runtime that loads one model at a time, and `first` holds up all others."""
    write(repository, "first", content="hangs")
    write(repository, "other")

    def serve_it(**config):
        kind = kind_of(lambda file: Hanging(file, made, go), filename="model.twin")
        return Runtime(repository, config=RuntimeConfig(backends={"files": kind}, load_threads=1, **config))

    return serve_it


async def begun(made, awaitable):
    """The load of `first` has begun."""
    task = asyncio.ensure_future(awaitable)
    await until(lambda: made and made[-1].waits)
    return task


async def queued(runtime, *awaitables):
    """Those who wait for the load of `other`, which waits for a thread."""
    tasks = [asyncio.ensure_future(each) for each in awaitables]
    await until(lambda: runtime.load_statistics().waiting == 1 and not runtime._keeper.planners._jobs)
    return tasks


async def leave(*tasks):
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_on_demand_it_goes_with_the_last_request(serve, run, made, go):
    async def main():
        async with serve(on_demand=True) as runtime:
            first = await begun(made, runtime.infer(request("first")))
            one, two = await queued(runtime, runtime.infer(request("other")), runtime.infer(request("other")))
            await leave(one)
            assert runtime.load_statistics().waiting == 1
            await leave(two)
            await until(lambda: runtime.load_statistics().waiting == 0)
            go.set()
            await first
            assert len(made) == 1
            await runtime.infer(request("other"))  # whoever wants it then gets it
            assert len(made) == 2

    run(main())


def test_on_demand_it_goes_when_all_have_waited_too_long(serve, run, made, go):
    async def main():
        async with serve(on_demand=True, load_on_demand_wait_s=1.5) as runtime:
            first = await begun(made, runtime.infer(request("first")))
            [other] = await queued(runtime, runtime.infer(request("other")))
            with pytest.raises(NoReadyReplica, match="not there yet"):
                await other
            await until(lambda: runtime.load_statistics().waiting == 0)
            with pytest.raises(NoReadyReplica, match="not there yet"):
                await first
            assert runtime.load_statistics().running == 1  # it has begun
            go.set()
            await until(lambda: runtime.model("first").ready)
            assert len(made) == 1

    run(main())


def test_on_demand_it_gives_up_its_wait_for_a_place(serve, run, made, go):
    async def main():
        async with serve(on_demand=True, max_loaded_models=1) as runtime:
            first = await begun(made, runtime.infer(request("first")))
            other = asyncio.ensure_future(runtime.infer(request("other")))
            await until(lambda: "other" in runtime._demand._waiting)
            await leave(other)
            go.set()
            await first
            await runtime.infer(request("first"))
            assert runtime.model("first").ready
            assert len(made) == 1

    run(main())


def test_a_client_takes_it_along_that_goes_away(serve, run, made, go):
    async def main():
        async with serve(mode=ControlMode.EXPLICIT) as runtime:
            load = runtime.repository.load
            first = await begun(made, load("first", {}))
            one, two = await queued(runtime, load("other", {}), load("other", {}))
            await leave(one)
            assert runtime.load_statistics().waiting == 1
            await leave(two, first)
            await until(lambda: runtime.load_statistics().waiting == 0)
            go.set()
            await until(lambda: runtime.model("first").ready)  # that had begun
            assert len(made) == 1
            await load("other", {})
            await runtime.infer(request("other"))

    run(main())


def test_who_asks_before_its_files_were_looked_at_is_told_that_it_comes(serve, run):
    async def main():
        async with serve(mode=ControlMode.EXPLICIT) as runtime:
            with pytest.raises(UnknownModel, match="the models here are none"):
                runtime.model("other")
            load = asyncio.ensure_future(runtime.load("other"))
            await asyncio.sleep(0)  # it is begun, and what its thread finds comes in a later turn
            for ask in (lambda: runtime.model("other"), lambda: runtime.submit(request("other"), None, print)):
                with pytest.raises(NoReadyReplica, match="'other' is not at ready state: it is about to be loaded"):
                    ask()
            with pytest.raises(UnknownModel, match="the models here are none"):
                runtime.model("first")
            await load
            assert runtime.model("other").ready

    run(main())
