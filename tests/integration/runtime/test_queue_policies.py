"""Queue policies in a runtime that runs: prompt expiry, the delayed lane, bounds and ordered answers."""

import asyncio

import numpy as np
import pytest

from trilith.core.request import InferRequest
from trilith.errors import ModelError, QueueFull, QueueTimeout
from trilith.runtime import Runtime, RuntimeConfig
from trilith.testing.backends import EchoBackend, FlakyBackend, kind_of


def request(value=1.0, width=2, **fields):
    return InferRequest(model="m", inputs={"x": np.full((1, width), value, np.float32)}, **fields)


async def until(condition):
    while not condition():  # noqa: ASYNC110 - what it waits for happens in a thread that knows no event
        await asyncio.sleep(0.001)


@pytest.fixture
def serve(repository):
    def serve_it(backend, yaml):
        folder = repository / "m"
        (folder / "1").mkdir(parents=True)
        (folder / "model.yaml").write_text(f"backend: echo\n{yaml}")
        return Runtime(repository, config=RuntimeConfig(backends={"echo": kind_of(backend)}))

    return serve_it


class Kept:
    """Requests that were submitted, and the order in which their answers came."""

    def __init__(self, runtime):
        self.runtime = runtime
        self.came = []

    def submit(self, name, **fields):
        return self.runtime.submit(request(**fields), None, lambda outcome: self.came.append((name, outcome)))

    def names(self):
        return [name for name, _ in self.came]


def test_who_waited_too_long_is_answered_while_the_model_runs_and_the_running_is_let_run(serve, run):
    backend = EchoBackend()

    async def main():
        async with serve(backend, "max_batch_size: 8\nqueue: {timeout_ms: 30}\n") as runtime:
            with backend.held():
                running = asyncio.ensure_future(runtime.infer(request()))
                await until(lambda: backend.executed == [1])
                with pytest.raises(QueueTimeout, match="Request timeout expired"):
                    await runtime.infer(request(timeout_us=1000))
                with pytest.raises(QueueTimeout, match=r"Request timeout expired: it waited .* for model 'm'"):
                    await runtime.infer(request())
                assert not running.done()
            assert (await running).outputs["y"].tolist() == [[1.0, 1.0]], "its limit is one of waiting"
            (statistics,) = runtime.statistics()
            assert (statistics.expired, statistics.waiting.expired, statistics.success.count) == (2, 2, 1)

    run(main())


def test_a_delayed_request_is_served_behind_the_others(serve, run):
    backend = EchoBackend()
    yaml = "max_batch_size: 1\nqueue: {timeout_ms: 60000, timeout_action: delay}\n"

    async def main():
        async with serve(backend, yaml) as runtime:
            kept = Kept(runtime)
            with backend.held():
                kept.submit("running", priority=1)
                await until(lambda: backend.executed == [1])
                kept.submit("late", timeout_us=1000)
                late_at = asyncio.get_running_loop().time() + 0.002
                await until(lambda: asyncio.get_running_loop().time() > late_at)
                kept.submit("timely")
                kept.submit("urgent", priority=1)
                kept.submit("unimportant", priority=9)
            await until(lambda: len(kept.came) == 5)
            assert kept.names() == ["running", "urgent", "timely", "late", "unimportant"]
            assert runtime.statistics()[0].waiting.delayed == 1

    run(main())


@pytest.mark.parametrize(
    "yaml", ["batching: false\nqueue: {max_size: 2}\n", "max_batch_size: 0\nqueue: {max_size: 2}\n"]
)
def test_the_queue_of_a_model_that_does_not_batch_is_bounded(serve, run, yaml):
    backend = EchoBackend()

    async def main():
        async with serve(backend, yaml) as runtime:
            kept = Kept(runtime)
            with backend.held():
                kept.submit(0)
                await until(lambda: len(backend.executed) == 1)
                kept.submit(1)
                kept.submit(2)
                with pytest.raises(QueueFull, match="Exceeds maximum queue size"):
                    kept.submit(3)
            await until(lambda: len(kept.came) == 3)

    run(main())


def fails_on_13(batch):
    return bool((batch.inputs["x"] == 13).any())


class Turning(FlakyBackend):
    """Runs batches of three columns only when it is let."""

    def __init__(self):
        super().__init__(fails_on_13)
        self.slow = EchoBackend()

    def before_answer(self, batch):
        if batch.inputs["x"].shape[1] == 3:
            self.slow.run(batch)
        super().before_answer(batch)


@pytest.mark.parametrize("ordered", [True, False])
def test_answers_keep_the_order_of_their_requests(serve, run, ordered):
    backend = Turning()
    yaml = f"max_batch_size: 1\ninstances: 2\nbatching: {{preserve_ordering: {str(ordered).lower()}}}\n"

    async def main():
        async with serve(backend, yaml) as runtime:
            kept = Kept(runtime)
            with backend.slow.held():
                kept.submit("slow", width=3)
                await until(lambda: backend.slow.executed == [1])
                kept.submit("quick")
                kept.submit("broken", value=13.0)
                gone = kept.submit("gone")
                await until(lambda: len(backend.executed) == 4)
                kept.submit("last")
                await until(lambda: len(backend.executed) == 5)
                await until(lambda: ordered or len(kept.came) == 4)
                gone.cancel()
                assert kept.names() == ([] if ordered else ["quick", "broken", "gone", "last"])
            await until(lambda: len(kept.came) == (4 if ordered else 5))
            assert ordered is (kept.names() == ["slow", "quick", "broken", "last"])
            assert isinstance(dict(kept.came)["broken"], ModelError)
            (statistics,) = runtime.statistics()
            assert (statistics.success.count, statistics.fail.count) == ((3, 1) if ordered else (4, 1))

    run(main())


def test_who_expires_holds_up_no_answer(serve, run):
    backend = Turning()
    yaml = "max_batch_size: 1\ninstances: 2\nbatching: {preserve_ordering: true}\ntimeout_ms: 100\n"

    async def main():
        async with serve(backend, yaml) as runtime:
            kept = Kept(runtime)
            with backend.slow.held():
                kept.submit("slow", width=3)
                await until(lambda: backend.slow.executed == [1])
                await until(lambda: kept.names() == ["slow"])
                kept.submit("quick")
                await until(lambda: kept.names() == ["slow", "quick"])

    run(main())
