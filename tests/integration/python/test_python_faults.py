"""Processes of Python models that die, hang, fall silent and cannot be started again."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from python_models import ask, echo_with, write_model
from waiting import until, wait_until

from trilith.core.backoff import StartBackoff
from trilith.core.context import Context
from trilith.core.forks import EXIT_STATUS
from trilith.core.timeline import Timeline
from trilith.errors import DeadlineExceeded, NoReadyReplica, ReplicaLost
from trilith.runtime import Runtime

# A request of -1 ends the process, -2 hangs, -3 tells its process id, -4 stops the process as a whole.
MOODS = """
mood = int(x[0, 0])
if mood == -1:
    print("last words of the model", file=sys.stderr)
    os._exit(7)
if mood == -2:
    open(f"{__file__}.hangs", "w").close()
    threading.Event().wait()
if mood == -3:
    return np.array([[os.getpid()]], np.float32)
if mood == -4:
    os.kill(os.getpid(), signal.SIGSTOP)
return x
"""


def with_limit(seconds):
    return Context(request_id="r", timeline=Timeline("test", 3), deadline=time.monotonic() + seconds)


def test_an_exit_is_noticed_answered_and_mended(repository, run, caplog):
    write_model(repository, "moody", echo_with(run=MOODS))

    async def main():
        async with Runtime(repository) as runtime:
            handle = runtime.model("moody")
            await runtime.infer(ask("moody", 1))
            with pytest.raises(ReplicaLost, match=r"Stub process 'moody_0_0' is not healthy: worker died: exit code 7"):
                await runtime.infer(ask("moody", -1))
            assert not handle.ready
            assert not runtime.ready
            assert handle.state == "UNAVAILABLE"
            assert "last words of the model" in handle.reason
            assert "last words" not in handle.public_reason
            # What comes now waits for the new process.
            assert (await runtime.infer(ask("moody", 2))).outputs["y"].tolist() == [[2]]
            assert handle.ready
            assert runtime.ready
            assert handle.reason == ""
            statistics = runtime.statistics()[0]
            assert dict(statistics.restarts) == {"died": 1}
            assert statistics.alive == 1

    run(main())
    assert any("worker died: exit code 7; it is being restarted" in record.message for record in caplog.records)


def test_the_other_instance_goes_on(repository, run):
    write_model(repository, "moody", echo_with(run=MOODS), yaml="backend: python\ninstances: 2\n")

    async def main():
        async with Runtime(repository) as runtime:
            await until(lambda: runtime.statistics()[0].alive == 2)
            with pytest.raises(ReplicaLost):
                await runtime.infer(ask("moody", -1))
            assert runtime.model("moody").ready
            assert runtime.statistics()[0].alive == 1
            answers = await asyncio.gather(*(runtime.infer(ask("moody", n)) for n in range(1, 30)))
            assert [answer.outputs["y"][0, 0] for answer in answers] == list(range(1, 30))
            await until(lambda: runtime.statistics()[0].alive == 2)

    run(main())


def test_only_what_was_in_flight_is_lost(repository, run):
    pbtxt = 'backend: "python"\nmax_batch_size: 4\n'
    write_model(repository, "moody", echo_with(run=MOODS).replace("config.set_dynamic_batching()", "pass"), pbtxt=pbtxt)

    async def main():
        async with Runtime(repository) as runtime:
            asked = [runtime.infer(ask("moody", value)) for value in (-1, 1, 2, 3)]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            assert isinstance(answers[0], ReplicaLost)
            assert [answer.outputs["y"].tolist() for answer in answers[1:]] == [[[1]], [[2]], [[3]]]

    run(main())


def test_a_killed_process_names_its_signal(repository, run):
    write_model(repository, "moody", echo_with(run=MOODS))

    async def main():
        async with Runtime(repository) as runtime:
            pid = int((await runtime.infer(ask("moody", -3))).outputs["y"][0, 0])
            os.kill(pid, signal.SIGKILL)
            await until(lambda: not runtime.model("moody").ready or runtime.statistics()[0].restarts)
            await until(lambda: runtime.model("moody").ready)
            successor = int((await runtime.infer(ask("moody", -3))).outputs["y"][0, 0])
            assert successor != pid
            hanging = asyncio.ensure_future(runtime.infer(ask("moody", -2)))
            await until((repository / "moody" / "1" / "model.py.hangs").exists)
            os.kill(successor, signal.SIGKILL)
            with pytest.raises(ReplicaLost, match=r"worker died: signal 9 \(SIGKILL\)"):
                await hanging

    run(main())


def test_a_hang_is_answered_in_time_and_what_nobody_awaits_is_ended(repository, run):
    write_model(
        repository,
        "moody",
        echo_with(run=MOODS),
        yaml="backend: python\nparameters: {abandoned_timeout_ms: 300}\n",
    )

    async def main():
        async with Runtime(repository) as runtime:
            with pytest.raises(DeadlineExceeded):
                await runtime.infer(ask("moody", -2), with_limit(0.2))
            assert (await runtime.infer(ask("moody", 5))).outputs["y"].tolist() == [[5]]
            assert dict(runtime.statistics()[0].restarts) == {"abandoned": 1}

    run(main())


def test_a_silent_process_is_replaced(repository, run):
    write_model(
        repository, "moody", echo_with(run=MOODS), yaml="backend: python\nparameters: {silent_timeout_ms: 2500}\n"
    )

    async def main():
        async with Runtime(repository) as runtime:
            with pytest.raises(ReplicaLost, match=r"worker was killed: it gave no sign of life for 2\.5 s"):
                await runtime.infer(ask("moody", -4))
            assert (await runtime.infer(ask("moody", 5))).outputs["y"].tolist() == [[5]]
            assert dict(runtime.statistics()[0].restarts) == {"silent": 1}

    run(main())


def test_a_model_that_cannot_be_started_again_serves_when_it_can(repository, run, tmp_path, monkeypatch):
    mark = tmp_path / "mark"
    initialize = f"""
    if os.path.exists({str(mark)!r}):
        raise RuntimeError("the licence has run out")
    """
    write_model(repository, "moody", echo_with(run=MOODS, initialize=initialize))
    monkeypatch.setattr(StartBackoff.__init__, "__kwdefaults__", QUICK)

    async def main():
        async with Runtime(repository) as runtime:
            mark.write_text("")
            with pytest.raises(ReplicaLost):
                await runtime.infer(ask("moody", -1))
            # It waits for a new process until that has failed too often.
            with pytest.raises(
                NoReadyReplica, match=r"could not be started 2 times in a row(.|\n)*the licence has run"
            ):
                await runtime.infer(ask("moody", 1))
            with pytest.raises(NoReadyReplica, match="is tried again in"):
                await runtime.infer(ask("moody", 1))
            assert not runtime.model("moody").ready
            assert not runtime.model("moody").recovering
            mark.unlink()
            await until(lambda: runtime.model("moody").ready)
            assert (await runtime.infer(ask("moody", 4))).outputs["y"].tolist() == [[4]]
            await runtime.load("moody")
            assert (await runtime.infer(ask("moody", 5))).outputs["y"].tolist() == [[5]]

    run(main())


QUICK = {
    **StartBackoff.__init__.__kwdefaults__,
    "first_s": 0.01,
    "most_s": 0.02,
    "most_failing_s": 1.0,
    "attempts": 2,
}


def test_a_model_sees_that_its_caller_went_away(repository, run, tmp_path):
    witness = tmp_path / "witness"
    body = f"""
    if x[0, 0] == 1:
        while not request.is_cancelled():
            time.sleep(0.005)
        open({str(witness)!r}, "w").write("seen")
    return x
    """
    write_model(repository, "patient", echo_with(run=body))

    async def main():
        async with Runtime(repository) as runtime:
            waiting = asyncio.ensure_future(runtime.infer(ask("patient", 1)))
            await until(lambda: runtime.statistics()[0].running == 1)
            waiting.cancel()
            assert (await runtime.infer(ask("patient", 2))).outputs["y"].tolist() == [[2]]
            assert witness.read_text() == "seen"

    run(main())


def test_what_a_model_leaves_running_does_not_hide_its_end(repository, run):
    """A process of the model's own holds all that it inherited open; the end is seen all the same."""
    body = """
    if x[0, 0] == -1:
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        os._exit(9)
    return x
    """
    write_model(repository, "forking", echo_with(run=body))

    async def main():
        async with Runtime(repository) as runtime:
            async with asyncio.timeout(10):
                with pytest.raises(ReplicaLost, match="exit code 9"):
                    await runtime.infer(ask("forking", -1))
                assert (await runtime.infer(ask("forking", 2))).outputs["y"].tolist() == [[2]]

    run(main())


def test_the_process_dies_with_the_server(repository, tmp_path):
    write_model(repository, "moody", echo_with(run=MOODS))
    program = f"""
import asyncio, os, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from python_models import ask
from trilith.runtime import Runtime
async def main():
    async with Runtime({str(repository)!r}) as runtime:
        print(int((await runtime.infer(ask("moody", -3))).outputs["y"][0, 0]), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=40, check=False)
    pid = int(done.stdout)
    wait_until(lambda: not _runs(pid))


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_child_of_a_model_that_comes_back_ends_there(repository, run):
    """It would answer the request a second time, in the middle of its parent's frames."""
    body = """
    child = os.fork()
    if child == 0 and x[0, 0] == 1:
        raise ValueError("in the child")
    return np.full_like(x, -1 if child == 0 else os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    write_model(repository, "forking", echo_with(run=body))

    async def main():
        async with Runtime(repository) as runtime:
            for number in (1, 2, 3):
                answer = await runtime.infer(ask("forking", number))
                assert answer.outputs["y"].tolist() == [[EXIT_STATUS]]

    run(main())


def test_children_of_a_model_end_by_signals(repository, run):
    """The model's process does not; what it runs or forks is like any other program."""
    body = """
    import multiprocessing, subprocess
    context = multiprocessing.get_context("fork" if x[0, 0] == 1 else "spawn")
    child = context.Process(target=time.sleep, args=(60,))
    child.start()
    child.terminate()
    child.join()
    program = subprocess.Popen(["sleep", "60"])
    program.terminate()
    return np.array([[child.exitcode, program.wait()]], np.float32)
    """
    write_model(repository, "parent", echo_with(run=body))

    async def main():
        async with Runtime(repository) as runtime:
            for number in (1, 2):
                answer = await runtime.infer(ask("parent", number))
                assert answer.outputs["y"].tolist() == [[-signal.SIGTERM, -signal.SIGTERM]]

    run(main())
