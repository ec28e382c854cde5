"""Requests under way: batches, deadlines, cancellation, drains, counts. With twins instead of models."""

import asyncio
import gc
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import numpy as np
import pytest
from waiting import until

from trilith.core.context import Context
from trilith.core.request import InferRequest
from trilith.core.timeline import Timeline
from trilith.errors import (
    DeadlineExceeded,
    Draining,
    InvalidInput,
    ModelError,
    NoReadyReplica,
    QueueFull,
    QueueTimeout,
    UnknownReference,
)
from trilith.runtime import ModelFile, ModelSpec, ModelState, Runtime, RuntimeConfig
from trilith.runtime.backends.identity import IdentityBackend
from trilith.testing.backend_contract import BACKEND_CHECKS, ContractBroken
from trilith.testing.backends import EchoBackend, FlakyBackend, kind_of


def request(value=1.0, rows=1, width=2, **fields):
    return InferRequest(model="m", inputs={"x": np.full((rows, width), value, np.float32)}, **fields)


def within(seconds, clock):
    return Context(request_id="1", timeline=Timeline("gateway", 3), deadline=clock() + seconds)


@pytest.fixture
def serve(repository):
    """A runtime whose one model `m` is the backend given."""

    def serve_it(backend, yaml="max_batch_size: 8\n", **config):
        folder = repository / "m"
        (folder / "1").mkdir(parents=True, exist_ok=True)
        (folder / "model.yaml").write_text(f"backend: echo\n{yaml}")
        return Runtime(repository, config=RuntimeConfig(backends={"echo": kind_of(backend)}, **config))

    return serve_it


@pytest.mark.parametrize("policy", ["", "default_queue_policy { }"])
def test_a_queue_policy_may_ignore_the_timeouts_of_requests(repository, run, policy):
    (repository / "m").mkdir()
    (repository / "m" / "config.pbtxt").write_text(
        f"""
        backend: "identity" max_batch_size: 8 dynamic_batching {{ {policy} }}
        input {{ name: "x" dims: [ -1 ] }} output {{ name: "y" dims: [ -1 ] }}
        parameters {{ key: "execute_delay_ms" value {{ string_value: "30" }} }}
        """
    )

    async def main():
        async with Runtime(repository) as runtime:
            model = runtime.model("m")
            reported = model.config_proto().dynamic_batching
            assert reported.HasField("default_queue_policy") is bool(policy)  # what the file says
            assert not reported.default_queue_policy.allow_timeout_override
            first = asyncio.ensure_future(runtime.infer(request(width=3)))
            await until(lambda: runtime.statistics()[0].waiting.dispatched == 1)
            hasty = request(timeout_us=1000)
            if policy:
                assert (await runtime.infer(hasty)).outputs["y"].tolist() == [[1.0, 1.0]]
            else:
                with pytest.raises(QueueTimeout, match="Request timeout expired: it waited"):
                    await runtime.infer(hasty)
            await first

    run(main())


@pytest.mark.parametrize("inline", [False, True])
def test_what_waits_while_the_instance_is_busy_runs_together(serve, run, inline):
    backend = EchoBackend(inline=inline)

    async def main():
        async with serve(backend) as runtime:
            answers = await asyncio.gather(*(runtime.infer(request(value)) for value in range(20)))
            assert [answer.outputs["y"].tolist() for answer in answers] == [[[v, v]] for v in range(20)]
            assert len(backend.executed) < 20
            assert max(backend.executed) == 8

    run(main())
    assert (backend.loaded, backend.closed) == (1, 1)


def test_a_batch_is_topped_up_until_it_starts(serve, run):
    backend = EchoBackend()

    async def main():
        async with serve(backend) as runtime:
            with backend.held():
                first = asyncio.ensure_future(runtime.infer(request()))
                await until(lambda: backend.executed == [1])
                others = [asyncio.ensure_future(runtime.infer(request())) for _ in range(8)]
                await until(lambda: runtime.statistics()[0].waiting.waiting_items == 8)
            await asyncio.gather(first, *others)
            assert backend.executed == [1, 8]

    run(main())


def test_shapes_do_not_block_each_other(serve, run):
    backend = EchoBackend()

    async def main():
        async with serve(backend) as runtime:
            with backend.held():
                first = asyncio.ensure_future(runtime.infer(request()))
                await until(lambda: backend.executed == [1])
                others = [asyncio.ensure_future(runtime.infer(request(width=3 + at % 2))) for at in range(6)]
                await until(lambda: runtime.statistics()[0].waiting.waiting_items == 6)
            await asyncio.gather(first, *others)
            assert backend.executed == [1, 3, 3]

    run(main())


@pytest.mark.parametrize("inline", [False, True])
def test_a_window_waits_for_company_and_no_longer(serve, run, inline):
    backend = EchoBackend(inline=inline)

    async def main():
        async with serve(backend, "max_batch_size: 2\nbatching: {max_wait_ms: 60}\n") as runtime:
            await asyncio.gather(runtime.infer(request()), runtime.infer(request()))
            assert backend.executed == [2]
            loop = asyncio.get_running_loop()
            began = loop.time()
            await runtime.infer(request())
            assert loop.time() - began > 0.05
            assert backend.executed == [2, 1]

    run(main())


def test_a_model_without_joining_runs_each_alone(serve, run):
    backend = EchoBackend()

    async def main():
        async with serve(backend, "max_batch_size: 8\nbatching: false\n") as runtime:
            await asyncio.gather(*(runtime.infer(request(rows=2)) for _ in range(6)))
            assert backend.executed == [2] * 6

    run(main())


def test_a_deadline_ends_the_waiting_and_the_running(serve, run):
    backend = EchoBackend()

    async def main():
        now = asyncio.get_running_loop().time
        async with serve(backend) as runtime:
            with backend.held():
                running = asyncio.ensure_future(runtime.infer(request(), within(0.2, now)))
                await until(lambda: backend.executed == [1])
                with pytest.raises(DeadlineExceeded, match="Request timeout expired"):
                    await runtime.infer(request(), within(0.02, now))
                with pytest.raises(DeadlineExceeded):
                    await running
                with pytest.raises(QueueTimeout):
                    await runtime.infer(request(timeout_us=1000))
            with pytest.raises(DeadlineExceeded):
                await runtime.infer(request(), within(-1.0, now))
            await runtime.infer(request())
            assert backend.executed == [1, 1]
            (statistics,) = runtime.statistics()
            assert (statistics.expired, statistics.fail.count, statistics.success.count) == (4, 4, 1)
            assert statistics.waiting.expired == 2
            assert (statistics.running, statistics.waiting.waiting_items) == (0, 0)

    run(main())


def test_a_model_s_own_time_limit(serve, run):
    backend = EchoBackend()

    async def main():
        async with serve(backend, "max_batch_size: 8\ntimeout_ms: 20\n") as runtime:
            with backend.held(), pytest.raises(DeadlineExceeded):
                await runtime.infer(request())

    run(main())


def test_who_goes_away_is_not_run(serve, run):
    backend = EchoBackend()

    async def main():
        async with serve(backend) as runtime:
            answers = []
            with backend.held():
                running = runtime.submit(request(), None, answers.append)
                await until(lambda: backend.executed == [1])
                waiting = [runtime.submit(request(), None, answers.append) for _ in range(3)]
                waiting[0].cancel()
                waiting[0].cancel()
                running.cancel()
                task = asyncio.ensure_future(runtime.infer(request()))
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await until(lambda: len(answers) == 2)
            running.cancel()
            assert backend.executed == [1, 2]
            (statistics,) = runtime.statistics()
            assert (statistics.cancelled, statistics.success.count, statistics.fail.count) == (3, 2, 0)
            assert statistics.compute_infer.count == statistics.queue.count == 2

    run(main())


def test_the_queue_is_bounded(serve, run):
    backend = EchoBackend()

    async def main():
        async with serve(backend, "max_batch_size: 2\nqueue: {max_rows: 3}\n") as runtime:
            with backend.held():
                tasks = [asyncio.ensure_future(runtime.infer(request()))]
                await until(lambda: backend.executed == [1])
                tasks += [asyncio.ensure_future(runtime.infer(request())) for _ in range(3)]
                await asyncio.sleep(0)
                with pytest.raises(QueueFull, match="Exceeds maximum queue size: model 'm' has 3 rows"):
                    await runtime.infer(request())
            await asyncio.gather(*tasks)

    run(main())


def test_priorities(serve, run):
    backend = EchoBackend()

    async def main():
        order = []

        async def ask(value, priority):
            await runtime.infer(request(value, priority=priority))
            order.append(value)

        async with serve(backend, "max_batch_size: 1\n") as runtime:
            with backend.held():
                tasks = [asyncio.ensure_future(ask(0, 0))]
                await until(lambda: backend.executed == [1])
                tasks += [asyncio.ensure_future(ask(v, p)) for v, p in ((1, 0), (2, 9), (3, 1), (4, 99))]
                await asyncio.sleep(0)
            await asyncio.gather(*tasks)
        assert order == [0, 3, 1, 4, 2]

    run(main())


def test_one_bad_request_fails_alone(serve, run):
    backend = FlakyBackend(lambda batch: bool((batch.inputs["x"] == 13).any()))

    async def main():
        async with serve(backend) as runtime:
            with backend.held():
                first = asyncio.ensure_future(runtime.infer(request()))
                await until(lambda: backend.executed == [1])
                tasks = [asyncio.ensure_future(runtime.infer(request(v))) for v in (1, 2, 13, 4)]
                await asyncio.sleep(0)
            answers = await asyncio.gather(first, *tasks, return_exceptions=True)
            assert [isinstance(answer, ModelError) for answer in answers] == [False, False, False, True, False]
            (statistics,) = runtime.statistics()
            assert (statistics.retries, statistics.fail.count, statistics.success.count) == (1, 1, 4)

    run(main())


def test_statistics_add_up(serve, run):
    backend = EchoBackend()

    async def main():
        async with serve(backend) as runtime:
            await asyncio.gather(*(runtime.infer(request(rows=1 + at % 3)) for at in range(30)))
            with pytest.raises(InvalidInput):
                await runtime.infer(request(rows=9))
            (statistics,) = runtime.statistics("m")
            rows = sum(1 + at % 3 for at in range(30))
            assert statistics.inference_count == rows == sum(backend.executed)
            assert statistics.execution_count == len(backend.executed)
            assert sum(batch.compute_infer.count for batch in statistics.batches) == len(backend.executed)
            assert [batch.batch_size for batch in statistics.batches] == sorted(set(backend.executed))
            parts = (statistics.queue, statistics.compute_input, statistics.compute_infer, statistics.compute_output)
            assert all(part.count == statistics.success.count == 30 for part in parts)
            assert sum(part.ns for part in parts) <= statistics.success.ns
            assert statistics.last_inference_ms > 0

    run(main())


@pytest.mark.parametrize("share", ["true", "false"])
def test_instances_run_at_once(serve, run, share):
    made = []

    def make(_):
        made.append(EchoBackend())
        return made[-1]

    async def main():
        async with serve(make, f"max_batch_size: 1\ninstances: {{count: 3, share_session: {share}}}\n") as runtime:
            for backend in made:
                backend._open.clear()
            tasks = [asyncio.ensure_future(runtime.infer(request())) for _ in range(3)]
            await until(lambda: sum(len(backend.executed) for backend in made) == 3)
            for backend in made:
                backend._open.set()
            await asyncio.gather(*tasks)
        assert [backend.most_at_once for backend in made] == ([3] if share == "true" else [1, 1, 1])
        assert all(backend.closed == 1 for backend in made)

    run(main())


def test_unload_and_reload_finish_what_is_in_flight(serve, run):
    made = []

    def make(_):
        made.append(EchoBackend())
        return made[-1]

    async def main():
        async with serve(make, "max_batch_size: 1\n") as runtime:
            with made[0].held():
                tasks = [asyncio.ensure_future(runtime.infer(request(at))) for at in range(3)]
                await until(lambda: made[0].executed == [1])
                old = runtime.model("m")
                reload = asyncio.ensure_future(runtime.load("m"))
                await until(lambda: runtime.model("m") is not old)
                await runtime.infer(request())
                assert not any(task.done() for task in tasks)
            await asyncio.gather(*tasks, reload)
            assert (len(made[0].executed), made[0].closed, made[1].executed) == (3, 1, [1])
            with made[1].held():
                task = asyncio.ensure_future(runtime.infer(request()))
                await until(lambda: made[1].executed == [1, 1])
                unload = asyncio.ensure_future(runtime.unload("m"))
                await until(lambda: runtime.model("m").state is ModelState.UNLOADING)
                with pytest.raises(NoReadyReplica, match="not at ready state"):
                    await runtime.infer(request())
            await task
            await unload
            assert made[1].closed == 1

    run(main())


def test_who_asks_while_it_is_being_entered_is_told_that_it_starts(serve, run):
    async def main():
        runtime = serve(EchoBackend())
        entering = asyncio.ensure_future(runtime.__aenter__())
        await asyncio.sleep(0)
        # No turn of the loop between these and the first: entering does not go on meanwhile.
        with pytest.raises(NoReadyReplica, match="is starting"):
            runtime.model("m")
        for ask in (runtime.infer(request()), runtime.load("m")):
            with pytest.raises(NoReadyReplica, match="is starting"):
                await ask
        await entering
        assert (await runtime.infer(request())).outputs["y"].tolist() == [[1.0, 1.0]]
        await runtime.__aexit__(None, None, None)

    run(main())


def test_leaving_drains_first(serve, run):
    backend = EchoBackend()

    async def main():
        async with serve(backend, "max_batch_size: 1\n") as runtime:
            tasks = [asyncio.ensure_future(runtime.infer(request())) for _ in range(9)]
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        with pytest.raises(Draining, match="not running"):
            await runtime.infer(request())
        assert not runtime.ready

    run(main())
    assert len(backend.executed) == 9


def test_leaving_fails_what_cannot_finish_in_time(serve, run, caplog):
    backend = EchoBackend()

    async def main():
        with backend.held():
            async with serve(backend, "max_batch_size: 1\n", drain_timeout_s=0.05) as runtime:
                tasks = [asyncio.ensure_future(runtime.infer(request())) for _ in range(2)]
                await until(lambda: backend.executed == [1])
            with pytest.raises(Draining):
                await tasks[1]
            assert not tasks[0].done()
            tasks[0].cancel()
        assert "still runs and was left behind" in caplog.text
        await until(lambda: not any(thread.name.startswith("trilith m") for thread in threading.enumerate()))

    run(main())


def test_what_loads_while_the_runtime_stops_is_closed(serve, run):
    class SlowToLoad(EchoBackend):
        def load(self):
            self._open.wait()
            return super().load()

    made = []

    def make(_):
        made.append(SlowToLoad())
        made[-1]._open.clear()
        return made[-1]

    async def main():
        runtime = serve(make, load_at_start=())
        await runtime.__aenter__()
        load = asyncio.ensure_future(runtime.load("m"))
        await until(lambda: made)
        leave = asyncio.ensure_future(runtime.__aexit__(None, None, None))
        await until(lambda: not runtime._keeper.open)
        made[0]._open.set()
        with pytest.raises(Draining, match="stopped while the model was loading"):
            await load
        await leave
        assert made[0].closed == 1

    run(main())


def test_a_callback_that_raises_harms_no_other(serve, run):
    backend = EchoBackend()

    def explode(_):
        raise ValueError("the caller's bug")

    async def main():
        reported = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
        async with serve(backend) as runtime:
            runtime.submit(request(), None, explode)
            await runtime.infer(request())
        assert [str(error) for error in reported] == ["the caller's bug"]

    run(main())


@pytest.mark.parametrize("seconds", [None, 60.0])
def test_nothing_keeps_a_request_alive(serve, run, seconds):
    class Marked(InferRequest):
        __slots__ = ("__weakref__",)

    async def main():
        async with serve(EchoBackend()) as runtime:
            sent = Marked(model="m", inputs=request().inputs)
            gone = weakref.ref(sent)
            await runtime.infer(sent, None if seconds is None else within(seconds, time.monotonic))
            del sent
            await runtime.infer(request())
            await until(lambda: gc.collect() >= 0 and gone() is None)

    run(main())


def test_a_folder_that_is_none(tmp_path, run):
    async def main():
        async with Runtime(tmp_path / "nope"):
            pass

    with pytest.raises(UnknownReference, match="is not a folder"):
        run(main())


def test_a_name_in_two_repositories_is_neither(tmp_path, run, caplog):
    for root in ("a", "b"):
        (tmp_path / root / "m").mkdir(parents=True)

    async def main():
        async with Runtime(tmp_path / "a", tmp_path / "b") as runtime:
            assert "more than one repository" in runtime.model("m").reason

    run(main())
    assert "more than one repository" in caplog.text


PROGRAM = """
    import asyncio, pathlib, sys
    from trilith.runtime import Runtime
    root = pathlib.Path(sys.argv[1])
    (root / "m").mkdir()
    (root / "m" / "model.yaml").write_text("backend: identity\\nparameters: {execute_delay_ms: 0.01}")
    async def main():
        runtime = Runtime(root)
        await runtime.__aenter__()
        print("up", flush=True)
        if sys.argv[2] == "forget":
            return
        try:
            await asyncio.sleep(60)
        finally:
            await runtime.__aexit__(None, None, None)
            print("down", flush=True)
    asyncio.run(main())
"""


def program(tmp_path, how):
    code = textwrap.dedent(PROGRAM)
    return subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), how], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_ctrl_c_stops_in_order(tmp_path):
    with program(tmp_path, "sleep") as process:
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=20)
    assert out == "down\n"
    assert errors.strip().endswith("KeyboardInterrupt")
    assert "Exception in thread" not in errors


def test_a_program_that_forgets_to_close_still_ends(tmp_path):
    with program(tmp_path, "forget") as process:
        out, errors = process.communicate(timeout=20)
    assert (process.returncode, out, errors) == (0, "up\n", "")


@pytest.mark.parametrize("check", BACKEND_CHECKS, ids=lambda check: check.__name__)
def test_the_twins_keep_the_contract(check):
    check(EchoBackend)
    check(lambda: FlakyBackend(lambda _: False))
    check(lambda: IdentityBackend(ModelFile(model="m", version=1, path=None, spec=ModelSpec(name="m"))))


def test_the_contract_notices():
    class Dependent(EchoBackend):
        def run(self, batch):
            return [array - array.mean() for array in super().run(batch)]

    broken = []
    for check in BACKEND_CHECKS:
        try:
            check(Dependent)
        except ContractBroken:
            broken.append(check.__name__)
    assert broken == ["rows_are_independent"]
