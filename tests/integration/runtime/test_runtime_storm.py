"""Everything at once, at random: every request ends exactly once, and the counts agree."""

import asyncio
import random
from collections import Counter

import numpy as np
import pytest
from waiting import until

from trilith.core.context import Context
from trilith.core.request import InferRequest, InferResponse
from trilith.core.timeline import Timeline
from trilith.errors import CapacityError, DeadlineExceeded, ModelError, TrilithError, UnknownModel
from trilith.runtime import Runtime, RuntimeConfig
from trilith.testing.backends import FlakyBackend, kind_of

CONFIGURATIONS = {
    "plain": "max_batch_size: 8\n",
    "window": "max_batch_size: 8\nbatching: {max_wait_ms: 0.5, preferred: [4]}\n",
    "alone": "max_batch_size: 8\nbatching: false\ninstances: 2\n",
    "two": "max_batch_size: 8\ninstances: 2\nqueue: {max_rows: 24}\n",
    "own": "max_batch_size: 4\ninstances: {count: 2, share_session: false}\nbatching: {max_wait_ms: 0.2}\n",
    "impure": "max_batch_size: 8\npure: false\n",
}


class Caller:
    """Sends requests at random and notes what becomes of each."""

    def __init__(self, runtime, seed):
        self.random = random.Random(seed)
        self.runtime = runtime
        self.answers = Counter()
        self.outcomes = Counter()
        self.taken_back = set()

    def send(self, number):
        rows, width = self.random.randint(1, 4), self.random.randint(1, 3)
        value = -1.0 if self.random.random() < 0.03 else float(number)
        request = InferRequest(
            model="m",
            inputs={"x": np.full((rows, width), value, np.float32)},
            id=str(number),
            priority=self.random.randint(0, 9),
        )
        try:
            ticket = self.runtime.submit(request, self.context(), lambda outcome: self.answered(number, value, outcome))
        except (CapacityError, DeadlineExceeded, UnknownModel) as error:
            self.outcomes[type(error)] += 1
            self.answers[number] += 1
            return
        if self.random.random() < 0.1:
            asyncio.get_running_loop().call_later(self.random.random() * 0.01, self.take_back, number, ticket)

    def context(self):
        if self.random.random() < 0.5:
            return None
        deadline = asyncio.get_running_loop().time() + self.random.choice([-0.001, 0.001, 0.005, 10.0])
        return Context(request_id="1", timeline=Timeline("gateway", 3), deadline=deadline)

    def take_back(self, number, ticket):
        if not ticket.done:
            ticket.cancel()
            self.taken_back.add(number)

    def answered(self, number, value, outcome):
        assert number not in self.taken_back
        self.answers[number] += 1
        self.outcomes[type(outcome)] += 1
        if isinstance(outcome, InferResponse):
            assert outcome.id == str(number)
            assert (outcome.outputs["y"] == value).all()
        else:
            assert isinstance(outcome, TrilithError)
            assert not isinstance(outcome, ModelError) or value == -1.0 or self.impure

    impure = False


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_every_request_ends_once(repository, run, name, inline):
    folder = repository / "m"
    (folder / "1").mkdir(parents=True)
    (folder / "model.yaml").write_text(f"backend: echo\n{CONFIGURATIONS[name]}")

    def make(_):
        backend = FlakyBackend(lambda batch: bool((batch.inputs["x"] == -1.0).any()))
        backend.inline = inline
        return backend

    async def main():
        wrong = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: wrong.append(context))
        async with Runtime(repository, config=RuntimeConfig(backends={"echo": kind_of(make)})) as runtime:
            caller = Caller(runtime, f"{name} {inline}")
            caller.impure = name == "impure"
            reload = None
            for number in range(1500):
                caller.send(number)
                if caller.random.random() < 0.1:
                    await asyncio.sleep(caller.random.choice([0, 0, 0.001]))
                if number == 700:
                    reload = asyncio.ensure_future(runtime.load("m"))
            await reload
            await until(lambda: len(caller.answers) + len(caller.taken_back) >= 1500)
            (statistics,) = runtime.statistics()
            assert set(caller.answers.values()) == {1}
            assert not caller.taken_back & set(caller.answers)
            assert caller.outcomes[InferResponse] > 200
        assert not wrong
        waiting = statistics.waiting
        gone = waiting.dispatched + waiting.cancelled + waiting.expired + waiting.cleared
        assert waiting.added == gone + waiting.waiting_items
        assert statistics.inference_count == sum(
            batch.batch_size * batch.compute_infer.count for batch in statistics.batches
        )

    run(main())
