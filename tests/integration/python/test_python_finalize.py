"""A Python model finalizes if its `initialize` has returned, and only then, however it ends."""

import asyncio
from pathlib import Path

import pytest
from python_models import ask, echo_with, write_model
from waiting import until

from trilith.errors import Conflict, SetupError
from trilith.runtime import ControlMode, Runtime, RuntimeConfig

WARM = (
    'model_warmup { name: "w" batch_size: 1 inputs '
    '{ key: "x" value { data_type: TYPE_FP32 dims: [1] zero_data: true } } }'
)
EXPLICIT = RuntimeConfig(mode=ControlMode.EXPLICIT)


@pytest.fixture
def marks(tmp_path):
    """A folder for files that a model makes at `initialize` and at `finalize`, named by its instance."""
    found = tmp_path / "marks"
    found.mkdir()
    return found


def marking(marks, *, initialize="", finalize="", **more):
    """An echo that notes how far it came."""
    note = f"open({str(marks)!r} + '/' + self.name + '.%s', 'w').close()"
    first = "self.name = args['model_instance_name']"
    return echo_with(
        initialize="\n".join([first, note % "begun", initialize, note % "initialized"]),
        finalize="\n".join([finalize, note % "finalized"]),
        **more,
    )


def named(marks, suffix):
    return {path.stem for path in marks.glob(f"*.{suffix}")}


def test_one_whose_warm_up_fails(repository, run, marks):
    source = marking(marks, run="raise ValueError('cold')")
    write_model(repository, "cold", source, pbtxt=f'backend: "python" {WARM}')

    async def main():
        async with Runtime(repository, config=EXPLICIT) as runtime:
            with pytest.raises(SetupError, match="cold"):
                await runtime.load("cold")

    run(main())
    assert named(marks, "initialized") == named(marks, "finalized") != set()


def test_one_that_is_warmed_up_when_it_is_unloaded(repository, run, marks):
    hold = f"while not os.path.exists({str(marks / 'go')!r}):\n    time.sleep(0.01)\nreturn x"
    write_model(repository, "slow", marking(marks, run=hold), pbtxt=f'backend: "python" {WARM}')

    async def main():
        async with Runtime(repository, config=EXPLICIT) as runtime:
            load = asyncio.ensure_future(runtime.load("slow"))
            await until(lambda: named(marks, "initialized"))
            unload = asyncio.ensure_future(runtime.unload("slow"))
            with pytest.raises(Conflict):
                await load
            (marks / "go").touch()
            await unload
            await until(lambda: runtime.load_statistics().left_behind == 0)

    run(main())
    assert named(marks, "initialized") == named(marks, "finalized") != set()


def test_those_of_its_instances_that_were_initialized(repository, run, marks):
    """The others are ended in the middle of it: nobody wants them any more."""
    hang = "if self.name.endswith(('1', '3')):\n    threading.Event().wait()"
    pbtxt = 'backend: "python" instance_group { kind: KIND_CPU count: 5 }'
    write_model(repository, "some", marking(marks, initialize=hang), pbtxt=pbtxt)

    async def main():
        async with Runtime(repository, config=EXPLICIT) as runtime:
            load = asyncio.ensure_future(runtime.load("some"))
            await until(lambda: len(named(marks, "begun")) == 5 and len(named(marks, "initialized")) == 3)
            await runtime.unload("some")
            with pytest.raises(Conflict):
                await load
            await until(lambda: runtime.load_statistics().left_behind == 0)

    run(main())
    assert named(marks, "finalized") == named(marks, "initialized") == {"some_0_0", "some_0_2", "some_0_4"}


def test_one_that_executes_when_it_is_told_to_end(repository, run, marks):
    """Its connection ends while answers are on their way, and what wakes its loop meanwhile wakes it to go on."""
    until_told = """
        told = threading.Event()

        def watch():
            while not request.is_cancelled():
                time.sleep(0.001)
            told.set()

        threading.Thread(target=watch, daemon=True).start()
        open(os.environ["EXECUTES"], "w").close()
        told.wait()
        return x
    """
    write_model(repository, "busy", marking(marks, run=until_told))

    async def main():
        config = RuntimeConfig(mode=ControlMode.EXPLICIT, drain_timeout_s=0.0)
        async with Runtime(repository, config=config) as runtime:
            await runtime.load("busy")
            answers = [asyncio.ensure_future(runtime.infer(ask("busy", 1))) for _ in range(3)]
            await until(Path(marks / "executes").exists)
        await asyncio.gather(*answers, return_exceptions=True)
        await until(lambda: named(marks, "finalized"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EXECUTES", str(marks / "executes"))
        run(main())
    assert named(marks, "initialized") == named(marks, "finalized") == {"busy_0_0"}


def test_an_end_of_file_of_its_own_is_a_failure_as_any_other(repository, run, marks):
    write_model(repository, "reads", marking(marks, initialize="raise EOFError('its file is too short')"))

    async def main():
        async with Runtime(repository, config=EXPLICIT) as runtime:
            with pytest.raises(SetupError, match="EOFError: its file is too short"):
                await runtime.load("reads")

    run(main())
    assert named(marks, "finalized") == set()
