"""What was counted of a model stays counted when it is loaded again."""

import asyncio

import pytest
from test_model_control import Files, request, write
from waiting import until

from trilith.core.load_options import ControlMode
from trilith.errors import QueueFull
from trilith.runtime import Runtime, RuntimeConfig
from trilith.runtime.protocol import model_source
from trilith.testing.backends import kind_of


@pytest.fixture
def made():
    return []


@pytest.fixture
def serve(made):
    def serve_it(*roots, **config):
        kind = kind_of(lambda file: Files(file, made), filename="model.twin")
        return Runtime(*roots, config=RuntimeConfig(backends={"files": kind}, mode=ControlMode.EXPLICIT, **config))

    return serve_it


def counted(runtime):
    [found] = runtime.statistics("a")
    return (
        found.generation,
        found.success.count,
        found.inference_count,
        sum(each.compute_infer.count for each in found.batches),
    )


@pytest.mark.parametrize(("keep", "expected"), [(True, [2, 3, 4]), (False, [1, 1, 1])])
def test_counts_and_generations(repository, serve, run, keep, expected):
    write(repository, "a")

    async def main():
        async with serve(repository, keep_statistics=keep) as runtime:
            await runtime.load("a")
            await runtime.infer(request("a"))
            assert counted(runtime) == (1, 1, 1, 1)
            for generation, count in enumerate(expected, 2):
                if generation == 3:
                    await runtime.unload("a")
                await runtime.load("a")
                await runtime.infer(request("a"))
                assert counted(runtime) == (generation, count, count, count)
            snapshots = {snapshot.name: snapshot for snapshot in model_source(runtime)()}
            assert snapshots["trilith_model_generation"].samples == [(("a", "1"), 4)]

    run(main())


def test_what_ends_after_its_successor_began_is_counted_once(repository, serve, run, made):
    write(repository, "a", yaml="{max_batch_size: 1, queue: {max_size: 1}}")

    async def main():
        async with serve(repository) as runtime:
            await runtime.load("a")
            with made[0].held():
                held = [asyncio.ensure_future(runtime.infer(request("a")))]
                await until(lambda: made[0].executed)
                held.append(asyncio.ensure_future(runtime.infer(request("a"))))
                await until(lambda: runtime.statistics("a")[0].waiting.waiting_items == 1)
                with pytest.raises(QueueFull):
                    await runtime.infer(request("a"))
                again = asyncio.ensure_future(runtime.load("a"))
                await until(lambda: counted(runtime)[0] == 2)
                await runtime.infer(request("a"))
            await asyncio.gather(*held, again)
            found = runtime.statistics("a")[0]
            assert (found.success.count, found.refused, found.fail.count) == (3, 1, 1)

    run(main())
