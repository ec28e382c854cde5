"""Several repositories with models of one name: what is loaded, listed and counted, and what a name stands for."""

import asyncio
import shutil

import numpy as np
import pytest

from trilith.core.load_options import ControlMode
from trilith.core.request import InferRequest
from trilith.errors import InvalidConfig, InvalidInput, SetupError, UnknownModel
from trilith.runtime import Runtime, RuntimeConfig
from trilith.runtime.protocol import model_source
from trilith.runtime.protocol.describe import takes_requests
from trilith.telemetry import Metrics
from trilith.telemetry.exposition import render

CONFIG = """backend: "identity" max_batch_size: %s metric_tags { key: "team" value: "%s" }
input { name: "x" data_type: TYPE_FP32 dims: 2 } output { name: "y" data_type: TYPE_FP32 dims: 2 }
"""
NEVER_S = 3600.0


@pytest.fixture
def roots(tmp_path):
    for root, name, rows in (("a", "m", 4), ("b", "m", 8), ("b", "n", 8)):
        folder = tmp_path / root / name
        (folder / "1").mkdir(parents=True)
        (folder / "config.pbtxt").write_text(CONFIG % (rows, root))
    return tmp_path / "a", tmp_path / "b"


def served(roots, mode=ControlMode.NONE, **options):
    return Runtime(*roots, config=RuntimeConfig(model_namespacing=True, mode=mode, poll_s=NEVER_S, **options))


def ask(runtime, name):
    return runtime.infer(InferRequest(model=name, inputs={"x": np.ones((1, 2), np.float32)}))


async def refused(runtime, name):
    for call in (
        lambda: ask(runtime, name),
        lambda: asyncio.to_thread(runtime.model, name),
        lambda: asyncio.to_thread(runtime.model, name, "1"),
        lambda: asyncio.to_thread(runtime.statistics, name),
    ):
        with pytest.raises(InvalidInput) as caught:
            await call()
        assert caught.value.message.startswith(
            f"There are 2 identifiers of model '{name}' in global map, model namespace must be provided to resolve "
            "ambiguity."
        )
    assert not await takes_requests(runtime, name, "")
    assert not runtime.repository.is_ready(name, "")


def ready(entries):
    return [(entry["name"], entry.get("state")) for entry in entries]


def test_all_are_loaded_and_told_apart(roots):
    async def main():
        async with served(roots) as runtime:
            assert runtime.ready
            await refused(runtime, "m")
            await ask(runtime, "n")
            assert await takes_requests(runtime, "n", "1")
            index = await runtime.repository.index(ready_only=True)
            assert ready(index) == [("m", "READY"), ("m", "READY"), ("n", "READY")]
            found = [(each.namespace, each.name, each.inference_count) for each in runtime.statistics()]
            assert found == [(str(roots[0]), "m", 0), (str(roots[1]), "m", 0), (str(roots[1]), "n", 1)]
            assert [each.inference_count for each in runtime.statistics("n")] == [1]
            metrics = Metrics()
            metrics.add_source(model_source(runtime))
            lines = render(metrics).decode().splitlines()
            for root, name, count in ((0, "m", 0), (1, "m", 0), (1, "n", 1)):
                labels = f'model="{name}",namespace="{roots[root]}",team="{roots[root].name}",version="1"'
                assert f"nv_inference_count{{{labels}}} {count}" in lines
            assert len(set(lines)) == len(lines)  # two models' series do not fall together
            for name in (f"{roots[0]}\0m", "\0m", "m\0", "nobody"):
                with pytest.raises((UnknownModel, InvalidInput)):
                    await ask(runtime, name)

    asyncio.run(main())


def test_clients_load_and_unload_all_of_a_name(roots):
    async def main():
        async with served(roots, ControlMode.EXPLICIT, load_at_start=("n",)) as runtime:
            control = runtime.repository
            assert ready(await control.index(ready_only=False)) == [("m", None), ("m", None), ("n", "READY")]
            await control.load("m", {})
            await refused(runtime, "m")
            await control.load("m", {"config": '{"max_batch_size": 2}'})
            assert [model.max_batch_size for model in runtime.models() if model.name == "m"] == [2, 2]
            await control.unload("m")
            with pytest.raises(UnknownModel, match="no available versions"):
                await ask(runtime, "m")
            assert await control.index(ready_only=True) == [
                {"name": "n", "version": "1", "state": "READY", "reason": ""}
            ]
            with pytest.raises(SetupError, match="failed to load 'x', failed to poll"):
                await control.load("x", {})
            with pytest.raises(UnknownModel, match="failed to unload 'x'"):
                await control.unload("x")

    asyncio.run(main())


def test_a_name_follows_the_folders(roots):
    async def main():
        async with served(roots, ControlMode.POLL) as runtime:
            await refused(runtime, "m")
            shutil.move(roots[0] / "m", roots[0].parent / "aside")
            await runtime.repository.poll()
            assert runtime.model("m").max_batch_size == 8
            await ask(runtime, "m")
            shutil.move(roots[0].parent / "aside", roots[0] / "m")
            await runtime.repository.poll()
            await refused(runtime, "m")
            (roots[0] / "m" / "config.pbtxt").write_text("nonsense: 1")  # one that cannot be loaded is meant, too
            await runtime.repository.poll()
            await refused(runtime, "m")

    asyncio.run(main())


def test_a_program_loads_by_name_or_from_a_folder(roots):
    async def main():
        async with served(roots, ControlMode.EXPLICIT) as runtime:
            assert (await runtime.load("n")).max_batch_size == 8
            assert (await runtime.load("m", roots[0] / "m")).max_batch_size == 4
            await runtime.unload("m")
            with pytest.raises(InvalidInput, match="ambiguity"):
                await runtime.load("m")
            await runtime.unload("m")

    asyncio.run(main())


def test_what_it_does_not_go_with(roots):
    with pytest.raises(InvalidConfig, match="model_namespacing: a request for a name cannot say"):
        RuntimeConfig(model_namespacing=True, on_demand=True)

    async def main():
        async with Runtime(*roots) as runtime:
            with pytest.raises(
                SetupError, match=r"more than one repository: .*; rename the folder of one, or start the"
            ):
                await runtime.load("m")

    asyncio.run(main())
