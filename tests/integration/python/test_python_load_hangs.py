"""Python models that hang before they serve: their processes are killed."""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from python_models import ask, echo_with, write_model
from waiting import until

from trilith.errors import Conflict, ReplicaLost, SetupError
from trilith.runtime import ControlMode, Runtime, RuntimeConfig

HANG = "open({pid!r}, 'w').write(str(os.getpid()))\nthreading.Event().wait()"
WARM = (
    'model_warmup { name: "w" batch_size: 1 inputs '
    '{ key: "x" value { data_type: TYPE_FP32 dims: [1] zero_data: true } } }'
)


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize(("method", "doing"), [("initialize", "loading"), ("run", "warming up")])
def test_its_process_is_killed_when_it_runs_past_its_time(repository, run, tmp_path, method, doing):
    witness = tmp_path / "pid"
    source = echo_with(**{method: HANG.format(pid=str(witness))})
    write_model(repository, "hangs", source, pbtxt=f'backend: "python" {WARM}')
    write_model(repository, "fine", echo_with())

    async def main():
        config = RuntimeConfig(mode=ControlMode.EXPLICIT, load_timeout_s=5.0, load_threads=1)
        async with Runtime(repository, config=config) as runtime:
            with pytest.raises(SetupError, match=f"model 'hangs' version 1: gave up {doing} after 5"):
                await runtime.load("hangs")
            await until(lambda: gone(int(witness.read_text())) and runtime.load_statistics().left_behind == 0)
            await runtime.load("fine")
            assert (await runtime.infer(ask("fine", 1))).outputs["y"].tolist() == [[1]]

    run(main())


def test_its_process_is_killed_when_it_is_unloaded_meanwhile(repository, run, tmp_path):
    witness = tmp_path / "pid"
    write_model(repository, "hangs", echo_with(initialize=HANG.format(pid=str(witness))))

    async def main():
        async with Runtime(repository, config=RuntimeConfig(mode=ControlMode.EXPLICIT)) as runtime:
            load = asyncio.ensure_future(runtime.load("hangs"))
            await until(lambda: witness.exists() and witness.read_text())
            await runtime.unload("hangs")
            with pytest.raises(Conflict, match="unloaded while it was loading"):
                await load
            await until(lambda: gone(int(witness.read_text())) and runtime.load_statistics().left_behind == 0)

    run(main())


def test_its_process_is_killed_when_it_hangs_while_it_is_started_again(repository, run, tmp_path):
    witness = tmp_path / "second"
    hangs_once = f"""
        if os.path.exists({str(witness)!r}) and not open({str(witness)!r}).read():
            {HANG.format(pid=str(witness)).splitlines()[0]}
            threading.Event().wait()
    """
    dies = "if x[0, 0] < 0:\n    os._exit(1)\nreturn x"
    yaml = "backend: python\nload_timeout_ms: 5000\n"
    write_model(repository, "hangs", echo_with(initialize=hangs_once, run=dies), yaml=yaml)

    async def main():
        async with Runtime(repository) as runtime:
            await runtime.infer(ask("hangs", 1))
            witness.touch()
            with pytest.raises(ReplicaLost):
                await runtime.infer(ask("hangs", -1))
            # It waits for the second start, which is killed, and for the third, which is not.
            assert (await runtime.infer(ask("hangs", 2))).outputs["y"].tolist() == [[2]]
            assert gone(int(witness.read_text()))
            assert dict(runtime.statistics()[0].restarts) == {"died": 1, "overdue": 1}

    run(main())


def test_it_is_started_again_though_every_thread_of_the_loop_hangs(repository, run):
    write_model(repository, "dies", echo_with(run="if x[0, 0] < 0:\n    os._exit(1)\nreturn x"))

    async def main():
        go = threading.Event()
        loop = asyncio.get_running_loop()
        async with Runtime(repository) as runtime:
            pool = ThreadPoolExecutor(1)
            loop.set_default_executor(pool)
            hangs = loop.run_in_executor(None, go.wait)
            try:
                with pytest.raises(ReplicaLost):
                    await runtime.infer(ask("dies", -1))
                async with asyncio.timeout(20):
                    assert (await runtime.infer(ask("dies", 2))).outputs["y"].tolist() == [[2]]
                assert not hangs.done()
            finally:
                go.set()
            await hangs

    run(main())


def test_a_system_without_a_thread_for_it_is_tried_again(repository, run, monkeypatch):
    write_model(repository, "dies", echo_with(run="if x[0, 0] < 0:\n    os._exit(1)\nreturn x"))
    start, refused = threading.Thread.start, []

    def refuse_once(thread):
        if thread.name.startswith("trilith start") and not refused:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    async def main():
        async with Runtime(repository) as runtime:
            monkeypatch.setattr(threading.Thread, "start", refuse_once)
            with pytest.raises(ReplicaLost):
                await runtime.infer(ask("dies", -1))
            assert (await runtime.infer(ask("dies", 2))).outputs["y"].tolist() == [[2]]
            assert len(refused) == 1

    run(main())


def test_its_process_is_gone_with_the_runtime_though_nobody_waited_for_the_unload(repository, run, tmp_path):
    began, go = tmp_path / "began", tmp_path / "go"
    wait = f"open({str(began)!r}, 'w').close()\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.01)\nreturn x"
    write_model(repository, "busy", echo_with(run=wait))

    async def main():
        async with Runtime(repository) as runtime:
            [pid] = runtime.processes("busy", "1")
            answer = asyncio.ensure_future(runtime.infer(ask("busy", 1)))
            await until(began.exists)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(runtime.unload("busy"), 0.2)
            assert not gone(pid)
            go.touch()
        assert gone(pid)
        assert (await answer).outputs["y"].tolist() == [[1]]

    run(main())
