"""Models that write to, and close, file descriptors that they did not open: they harm their own process alone."""

import asyncio

import numpy as np
import pytest
from python_models import ask, echo_with, write_model
from waiting import until

from trilith.errors import ReplicaLost
from trilith.runtime import InferRequest, Runtime

# -1 writes to small numbers and closes them, -2 writes to all, -3 closes all, -4 closes all and goes on for long,
# -5 writes to all shared memory, -6 closes what tells that it lives.
HARM = """
mood = int(x[0, 0])
every = sorted(int(name) for name in os.listdir("/proc/self/fd"))
def write(descriptors):
    for descriptor in descriptors:
        try:
            os.write(descriptor, b"garbage")
        except OSError:
            pass
if mood == -1:
    write(range(3, 21))
    os.closerange(3, 256)
if mood == -2:
    write(n for n in every if n > 2)
if mood in (-3, -4):
    os.closerange(3, 65536)
if mood == -4:
    time.sleep(30)
if mood == -5:
    for n in every:
        try:
            name = os.readlink(f"/proc/self/fd/{n}")
        except OSError:
            continue
        if "memfd:" in name:
            for at in range(0, 4096, 64):
                try:
                    os.pwrite(n, b"garbage!", at)
                except OSError:
                    pass
if mood == -6:
    os.close([n for n in every if n > 100 and os.readlink(f"/proc/self/fd/{n}").startswith("socket:")][1])
return x
"""


def test_small_numbers_are_not_met(repository, run):
    write_model(repository, "harmful", echo_with(run=HARM))

    async def main():
        async with Runtime(repository) as runtime:
            for value in (1, -1, 2, -1, 3):
                assert (await runtime.infer(ask("harmful", value))).outputs["y"].tolist() == [[value]]
            large = np.full((1, 1 << 20), -1, np.float32)
            answer = await runtime.infer(InferRequest(model="harmful", inputs={"x": large}))
            assert np.array_equal(answer.outputs["y"], large)
            assert dict(runtime.statistics()[0].restarts) == {}

    run(main())


@pytest.mark.parametrize("mood", [-2, -3, -4])
def test_a_broken_connection_costs_what_ran_and_nothing_else(repository, run, mood):
    """What runs gets one clear error; what comes at once, and what waited, is answered by the new process."""
    pbtxt = 'backend: "python"\nmax_batch_size: 4\n'
    source = echo_with(run=HARM).replace("config.set_dynamic_batching()", "pass")
    write_model(repository, "harmful", source, pbtxt=pbtxt)

    async def main():
        async with Runtime(repository) as runtime, asyncio.timeout(20):
            for _ in range(2):
                await runtime.infer(ask("harmful", 1))  # it is known to be quick: another is sent ahead
                asked = [asyncio.ensure_future(runtime.infer(ask("harmful", value))) for value in (mood, 1, 2)]
                with pytest.raises(ReplicaLost, match=r"Stub process 'harmful_0_0' is not healthy: worker "):
                    await asked[0]
                after = [runtime.infer(ask("harmful", value)) for value in range(3, 9)]
                answers = await asyncio.gather(*asked[1:], *after)
                assert [answer.outputs["y"].tolist() for answer in answers] == [[[value]] for value in range(1, 9)]

    run(main())


def test_who_cannot_tell_any_more_that_it_lives_is_replaced(repository, run):
    write_model(repository, "harmful", echo_with(run=HARM))

    async def main():
        async with Runtime(repository) as runtime, asyncio.timeout(20):
            await runtime.infer(ask("harmful", -6))
            await until(lambda: dict(runtime.statistics()[0].restarts) == {"died": 1})
            assert (await runtime.infer(ask("harmful", 2))).outputs["y"].tolist() == [[2]]

    run(main())


def test_the_other_instance_takes_what_comes_meanwhile(repository, run):
    write_model(repository, "harmful", echo_with(run=HARM), yaml="backend: python\ninstances: 2\n")

    async def main():
        async with Runtime(repository) as runtime, asyncio.timeout(20):
            await until(lambda: runtime.statistics()[0].alive == 2)
            with pytest.raises(ReplicaLost, match="does the model write to, or close, file descriptors"):
                await runtime.infer(ask("harmful", -2))
            assert runtime.model("harmful").ready
            for value in range(1, 30):
                assert (await runtime.infer(ask("harmful", value))).outputs["y"].tolist() == [[value]]
            await until(lambda: runtime.statistics()[0].alive == 2)

    run(main())


def test_shared_memory_cannot_be_written_to_by_its_descriptor(repository, run):
    write_model(repository, "harmful", echo_with(run=HARM))

    async def main():
        async with Runtime(repository) as runtime:
            large = np.full((1, 1 << 20), -5, np.float32)
            for _ in range(6):
                answer = await runtime.infer(InferRequest(model="harmful", inputs={"x": large}))
                assert np.array_equal(answer.outputs["y"], large)
                del answer
            assert dict(runtime.statistics()[0].restarts) == {}

    run(main())
