"""Models that load, unload and ask for other models while they execute."""

import asyncio
import json

import pytest
from python_models import ECHO, ask, echo_with, write_model

from trilith.errors import ModelError
from trilith.runtime import ControlMode, Runtime, RuntimeConfig

# What to do is in the parameters of the request.
OBEDIENT = """
said = json.loads(request.parameters())
found = 0
def obey():
    nonlocal found
    if "load" in said:
        files = {"file:1/model.py": said["source"].encode()} if "source" in said else None
        pb_utils.load_model(said["load"], files=files, config=said.get("config", ""))
    if "unload" in said:
        pb_utils.unload_model(said["unload"])
    if "ready" in said:
        found = int(pb_utils.is_model_ready(said["ready"], said.get("version", "")))
if "thread" in said:
    thread = threading.Thread(target=obey)
    thread.start()
    thread.join()
else:
    obey()
return x + found
"""
EXPLICIT = RuntimeConfig(mode=ControlMode.EXPLICIT, load_at_start=("obedient",))


async def told(runtime, **parameters):
    answer = await runtime.infer(ask("obedient", 10, parameters=parameters))
    return int(answer.outputs["y"][0, 0]) - 10


def test_a_model_loads_and_unloads_another(repository, run):
    write_model(repository, "obedient", echo_with(run=OBEDIENT))
    write_model(repository, "other", ECHO)

    async def main():
        async with Runtime(repository, config=EXPLICIT) as runtime:
            assert await told(runtime, ready="other") == 0
            assert await told(runtime, load="other", ready="other") == 1
            assert (await runtime.infer(ask("other", 3))).outputs["y"].tolist() == [[3]]
            assert await told(runtime, ready="other", version="1") == 1
            assert await told(runtime, ready="other", version="2") == 0
            assert await told(runtime, ready="nobody") == 0
            assert await told(runtime, unload="other", ready="other", thread=True) == 0
            doubled = echo_with(run="return x * 2")
            config = json.dumps({"backend": "python"})
            assert await told(runtime, load="other", config=config, source=doubled, ready="other", thread=True) == 1
            assert (await runtime.infer(ask("other", 3))).outputs["y"].tolist() == [[6]]

    run(main())


def test_what_cannot_be_done_says_why(repository, run):
    write_model(repository, "obedient", echo_with(run=OBEDIENT))
    write_model(repository, "bad", "x = 1\n")

    async def main():
        async with Runtime(repository, config=EXPLICIT) as runtime:
            for parameters, words in (
                ({"load": "nobody"}, "TritonModelException: failed to load 'nobody', failed to poll"),
                ({"load": "bad"}, "load failed for model 'bad': (.|\n)*has no class TritonPythonModel"),
                ({"load": "../bad"}, "path traversal"),
                ({"load": "obedient"}, "cannot load or unload itself"),
                ({"unload": "obedient"}, "cannot load or unload itself"),
                ({"load": "bad", "config": "{"}, "must be the JSON of a ModelConfig"),
                ({"unload": "nobody"}, "Request for unknown model: 'nobody' is not found"),
            ):
                with pytest.raises(ModelError, match=words):
                    await told(runtime, **parameters)
            assert await told(runtime, ready="obedient") == 1

    run(main())


def test_only_where_clients_may_too(repository, run):
    write_model(repository, "obedient", echo_with(run=OBEDIENT))

    async def main():
        async with Runtime(repository) as runtime:
            with pytest.raises(ModelError, match="explicit model load / unload is not allowed if polling is enabled"):
                await told(runtime, load="other")
            assert await told(runtime, ready="obedient") == 1

    run(main())


def test_not_while_it_is_loaded(repository, run):
    write_model(repository, "hasty", echo_with(initialize="pb_utils.load_model('other')"))

    async def main():
        async with Runtime(repository) as runtime:
            assert "in `execute`, not while it is loaded" in runtime.model("hasty").reason

    run(main())


def test_several_instances_ask_at_once(repository, run):
    yaml = "backend: python\ninstances: 2\n"
    write_model(repository, "obedient", echo_with(run=OBEDIENT), yaml=yaml)
    for number in range(4):
        write_model(repository, f"other{number}", ECHO)

    async def main():
        async with Runtime(repository, config=EXPLICIT) as runtime:
            asked = [told(runtime, load=f"other{n}", ready=f"other{n}", thread=True) for n in range(4)]
            assert await asyncio.gather(*asked) == [1] * 4

    run(main())
