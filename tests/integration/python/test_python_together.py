"""Quick Python models: requests are sent ahead and answers leave together, and nobody pays for that."""

import asyncio

from python_models import ask, echo_with, write_model
from waiting import wait_until

from trilith.errors import ReplicaLost
from trilith.runtime import Runtime

PBTXT = 'backend: "python"\nmax_batch_size: 4\n'
# A request of -1 ends the process, -2 waits until it is let go; each execution is noted.
NOTED = """
with open(f"{__file__}.log", "a") as log:
    log.write(f"{x[0, 0]:g}\\n")
if x[0, 0] == -1:
    os._exit(7)
if x[0, 0] == -2:
    while not os.path.exists(f"{__file__}.go"):
        time.sleep(0.001)
return x
"""


def alone(source):
    return source.replace("config.set_dynamic_batching()", "pass")


async def warmed(runtime):
    """It is known to be quick afterwards."""
    for _ in range(4):
        await asyncio.gather(*(runtime.infer(ask("quick", 0)) for _ in range(32)))


async def outcomes(runtime, values):
    return await asyncio.gather(*(runtime.infer(ask("quick", value)) for value in values), return_exceptions=True)


def test_an_answer_never_waits_for_a_slow_request_behind_it(repository, run):
    folder = write_model(repository, "quick", alone(echo_with(run=NOTED)), pbtxt=PBTXT)
    go = folder / "1" / "model.py.go"

    async def main():
        async with Runtime(repository) as runtime:
            for _ in range(5):
                await warmed(runtime)
                slow = [asyncio.ensure_future(runtime.infer(ask("quick", 1))) for _ in range(6)]
                slow.append(asyncio.ensure_future(runtime.infer(ask("quick", -2))))
                behind = [asyncio.ensure_future(runtime.infer(ask("quick", 2))) for _ in range(6)]
                await asyncio.gather(*slow[:6])  # although the process is busy, and for ever if nobody reads them
                assert not slow[6].done()
                go.touch()
                await asyncio.gather(*slow, *behind)
                go.unlink()

    run(main())


def test_only_the_request_that_ends_the_process_is_lost(repository, run):
    write_model(repository, "quick", alone(echo_with(run=NOTED)), pbtxt=PBTXT)

    async def main():
        async with Runtime(repository) as runtime:
            await warmed(runtime)
            values = [*range(1, 20), -1, *range(20, 40)]
            found = await outcomes(runtime, values)
            lost = [value for value, each in zip(values, found, strict=True) if isinstance(each, ReplicaLost)]
            assert lost == [-1]
            answers = [each.outputs["y"].item() for each in found if not isinstance(each, ReplicaLost)]
            assert answers == [*range(1, 40)]

    run(main())


def test_what_must_not_run_twice_never_does(repository, run):
    yaml = "backend: python\npure: false\nbatching: false\nmax_batch_size: 4\n"
    folder = write_model(repository, "quick", alone(echo_with(run=NOTED)), yaml=yaml)

    async def main():
        async with Runtime(repository) as runtime:
            await warmed(runtime)
            found = await outcomes(runtime, [*range(1, 20), -1, *range(20, 40)])
            assert [type(each) for each in found].count(ReplicaLost) == 1

    run(main())
    log = folder / "1" / "model.py.log"
    wait_until(log.exists)
    executed = sorted(int(line) for line in log.read_text().split() if line != "0")
    assert executed == [-1, *range(1, 40)]
