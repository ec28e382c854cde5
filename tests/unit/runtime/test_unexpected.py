"""Mistakes of ours in an instance's loop, injected: what it holds is answered, and it goes on."""

import asyncio

import numpy as np
import pytest

from trilith.errors import Bug
from trilith.runtime import InferRequest, Runtime, RuntimeConfig
from trilith.runtime.execution import Execution
from trilith.runtime.outbox import Outbox
from trilith.runtime.queue import ModelQueue
from trilith.runtime.settlement import Settlement
from trilith.runtime.statistics import StatisticsCollector
from trilith.testing.backends import EchoBackend, kind_of


def once(monkeypatch, where, name):
    """The method raises the first time that it is called."""
    whole, calls = getattr(where, name), []

    def harmed(*args, **named):
        calls.append(1)
        if len(calls) == 1:
            raise ZeroDivisionError("a mistake")
        return whole(*args, **named)

    monkeypatch.setattr(where, name, harmed)


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize(
    ("where", "name"),
    [
        (Execution, "run"),
        (Settlement, "_finish_succeeded"),
        (StatisticsCollector, "succeeded"),
        ("batcher", "next_batch"),
    ],
)
def test_every_request_is_answered_and_the_next_one_served(tmp_path, monkeypatch, caplog, inline, where, name):
    backend = EchoBackend(inline=inline)

    def ask(runtime, value):
        return runtime.infer(InferRequest(model="m", inputs={"x": np.array([[value]], np.float32)}))

    async def main():
        config = RuntimeConfig(backends={"echo": kind_of(backend)})
        async with Runtime(tmp_path, config=config) as runtime, asyncio.timeout(20):
            await ask(runtime, 0)
            if where == "batcher":
                break_the_batcher(monkeypatch)
            else:
                once(monkeypatch, where, name)
            found = await asyncio.gather(*(ask(runtime, value) for value in range(3)), return_exceptions=True)
            assert any(isinstance(answer, Bug) for answer in found) or name == "succeeded"
            assert (await ask(runtime, 7)).outputs["y"].tolist() == [[7]]
            assert runtime.statistics()[0].running == 0

    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "model.yaml").write_text("backend: echo\nmax_batch_size: 4\nbatching: {adaptive: false}\n")
    asyncio.run(main())
    assert "failed unexpectedly" in caplog.text


def break_the_batcher(monkeypatch):
    """The next attempt to take a batch fails while a request waits."""
    whole, harmed = ModelQueue.take, []

    def take(self, instance):
        if not harmed and self.statistics().waiting_items:
            harmed.append(1)
            raise ZeroDivisionError("a mistake")
        return whole(self, instance)

    monkeypatch.setattr(ModelQueue, "take", take)


def test_a_call_that_raises_does_not_keep_those_behind_it(caplog):
    async def main():
        outbox, delivered = Outbox(asyncio.get_running_loop()), []
        outbox.post(lambda: delivered.append(1 // 0))
        outbox.post(lambda: delivered.append(2))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert delivered == [2]

    asyncio.run(main())
    assert "ZeroDivisionError" in caplog.text
