"""Models that have a say in whether they are ready."""

import asyncio
import os
import signal

import pytest
from python_models import ECHO, ask, echo_with, write_model
from waiting import until

from trilith.errors import ReplicaLost
from trilith.runtime import Runtime
from trilith.runtime.backends.python import backend

# What was asked last decides: 0 no, 1 yes, 2 it raises, 3 it hangs, 4 a number that is no bool; -1 execute hangs.
SAYING = """
self.mood = int(x[0, 0])
if self.mood == -1:
    time.sleep(60)
if self.mood == -3:
    return np.array([[os.getpid()]], np.float32)
return x
"""
READY = """
mood = getattr(self, "mood", 1)
if mood == 2:
    raise RuntimeError("it cannot say")
if mood == 3:
    time.sleep(60)
return 7 if mood == 4 else mood == 1 or mood < 0
"""


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_the_model_is_asked_and_its_word_counts(repository, run, monkeypatch, kind):
    monkeypatch.setattr(backend, "READY_TIMEOUT_S", 1.0)
    source = echo_with(run=SAYING, is_ready=READY).replace("def is_ready", f"{kind} is_ready")
    write_model(repository, "saying", source)

    async def main():
        async with Runtime(repository) as runtime:
            handle = runtime.model("saying")
            assert await handle.says_ready()
            for mood, expected in ((0, False), (1, True), (2, False), (4, True), (0, False)):
                await runtime.infer(ask("saying", mood))
                assert await asyncio.gather(*(handle.says_ready() for _ in range(3))) == [expected] * 3
                assert handle.ready  # requests may be sent all the same
            await runtime.infer(ask("saying", 3))
            assert not await handle.says_ready()
            assert not await handle.says_ready()  # the same question still hangs
            assert (await runtime.infer(ask("saying", 1))).outputs["y"].tolist() == [[1]]

    run(main())


def test_it_is_asked_while_it_executes_and_not_ready_when_it_died(repository, run):
    write_model(repository, "saying", echo_with(run=SAYING, is_ready=READY))

    async def main():
        async with Runtime(repository) as runtime:
            handle = runtime.model("saying")
            pid = int((await runtime.infer(ask("saying", -3))).outputs["y"][0, 0])
            hanging = asyncio.ensure_future(runtime.infer(ask("saying", -1)))
            await until(lambda: runtime.statistics()[0].running == 1)
            assert await handle.says_ready()
            os.kill(pid, signal.SIGSTOP)
            asked = asyncio.ensure_future(handle.says_ready())
            await asyncio.sleep(0)
            os.kill(pid, signal.SIGKILL)
            assert not await asked
            assert not await handle.says_ready()
            hanging.cancel()
            with pytest.raises((ReplicaLost, asyncio.CancelledError)):
                await hanging

    run(main())


def test_one_instance_that_is_ready_is_enough_and_most_models_have_no_say(repository, run):
    write_model(
        repository,
        "saying",
        echo_with(run=SAYING, is_ready="return self.instance.endswith('_1')", initialize=NAMED),
        yaml="backend: python\ninstances: 2\n",
    )
    write_model(repository, "silent", ECHO)

    async def main():
        async with Runtime(repository) as runtime:
            await until(lambda: runtime.statistics("saying")[0].alive == 2)
            assert await runtime.model("saying").says_ready()
            assert await runtime.model("silent").says_ready()
            assert runtime.model("silent").ask_ready is None

    run(main())


NAMED = "self.instance = args['model_instance_name']"
