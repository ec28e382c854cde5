"""Instances that live elsewhere: what they take, when, and what becomes of it when they die. No process."""

import asyncio
import time

import numpy as np
import pytest

from trilith.core.tensor import DataType, TensorSpec
from trilith.errors import Bug, NoReadyReplica, NotFound, ReplicaLost
from trilith.runtime import BackendKind, InferRequest, ModelSignature, Runtime, RuntimeConfig
from trilith.runtime.backends.port import Answered, LifeReport, Outcome, RequestBackend
from trilith.runtime.queue import ModelQueue

X = TensorSpec(name="x", datatype=DataType.FP32, shape=(-1, 1))
Y = TensorSpec(name="y", datatype=DataType.FP32, shape=(-1, 1))


class Remote(RequestBackend):
    """Holds what it is given until the test answers."""

    has_room = True

    def __init__(self, file):
        self.spec = file.spec
        self.held = []
        self.closed = 0

    def load(self):
        return ModelSignature(inputs=(X,), outputs=(Y,))

    def completed(self):
        return self.spec

    def attach(self, loop, offer, on_life):
        self.on_life = on_life
        on_life(LifeReport(alive=True))

    def begin(self, batch, on_done):
        self.held.append((batch, on_done))

    def close(self):
        self.closed += 1

    def answer(self, *, took_s=0.0, error=None):
        batch, on_done = self.held.pop(0)
        now = time.monotonic()
        answers = [error or Answered({"y": inputs["x"] * 2}) for inputs in batch.inputs]
        on_done(Outcome(answers, now - took_s, now))

    def give_back(self, report=None):
        """Dies before it began what it has."""
        self.on_life(report or LifeReport(alive=False, reason="it died"))
        held, self.held = self.held, []
        for _, on_done in held:
            on_done(Outcome([], 0.0, 0.0, begun=False))

    def rows(self):
        return [[float(inputs["x"][0, 0]) for inputs in batch.inputs] for batch, _ in self.held]


def serving(tmp_path, check, *, yaml="max_batch_size: 2\nbatching: {adaptive: false}\n", drain_timeout_s=30.0):
    """Runs `check(runtime, remotes)` with a model of remote instances."""
    made = []

    def create(file):
        made.append(Remote(file))
        return made[-1]

    async def main():
        config = RuntimeConfig(backends={"remote": BackendKind(create=create)}, drain_timeout_s=drain_timeout_s)
        async with Runtime(tmp_path, config=config) as runtime, asyncio.timeout(20):
            await turn()
            await check(runtime, made)

    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "model.yaml").write_text(f"backend: remote\n{yaml}")
    asyncio.run(main())
    assert all(remote.closed == 1 for remote in made)


async def turn():
    """Lets the loop do what is due."""
    for _ in range(5):
        await asyncio.sleep(0)


def ask(runtime, value):
    request = InferRequest(model="m", inputs={"x": np.array([[value]], np.float32)})
    return asyncio.ensure_future(runtime.infer(request))


def test_what_comes_while_one_runs_becomes_the_next_batch(tmp_path):
    async def check(runtime, remotes):
        [remote] = remotes
        asked = [ask(runtime, value) for value in range(4)]
        await turn()
        assert remote.rows() == [[0.0, 1.0]]
        remote.answer(took_s=1.0)
        await turn()
        assert remote.rows() == [[2.0, 3.0]]
        remote.answer(took_s=1.0)
        assert [answer.outputs["y"].tolist() for answer in await asyncio.gather(*asked)] == [[[0]], [[2]], [[4]], [[6]]]

    serving(tmp_path, check)


def test_a_quick_model_gets_the_next_batch_ahead(tmp_path):
    async def check(runtime, remotes):
        [remote] = remotes
        asked = [ask(runtime, value) for value in range(8)]
        await turn()
        assert remote.rows() == [[0.0, 1.0]]  # not known to be quick yet
        remote.answer()
        await turn()
        assert remote.rows() == [[2.0, 3.0], [4.0, 5.0]]
        remote.answer(took_s=1.0)
        await turn()
        assert remote.rows() == [[4.0, 5.0]]  # it is not quick any more
        remote.has_room = False
        remote.answer()
        await turn()
        assert remote.rows() == [[6.0, 7.0]]
        remote.answer()
        await asyncio.gather(*asked)

    serving(tmp_path, check)


def test_nothing_goes_ahead_past_an_instance_that_idles(tmp_path):
    async def check(runtime, remotes):
        first = ask(runtime, 1)
        await turn()
        [busy] = [remote for remote in remotes if remote.held]
        busy.answer()
        await first
        asked = [ask(runtime, 2), ask(runtime, 3)]
        await turn()
        assert sorted(row for remote in remotes for row in remote.rows()) == [[2.0], [3.0]]
        assert all(len(remote.held) == 1 for remote in remotes)
        for remote in remotes:
            remote.answer()
        await asyncio.gather(*asked)

    serving(tmp_path, check, yaml="max_batch_size: 2\ninstances: 2\nbatching: false\n")


def test_a_dead_instance_takes_nothing_and_the_other_does(tmp_path):
    async def check(runtime, remotes):
        dead, living = remotes
        dead.on_life(LifeReport(alive=False, reason="died"))
        assert runtime.model("m").ready
        asked = [ask(runtime, value) for value in range(3)]
        for _ in asked:
            await turn()
            if living.held:
                living.answer()
        await asyncio.gather(*asked)
        assert dead.held == []

    serving(tmp_path, check, yaml="max_batch_size: 1\ninstances: 2\n")


def test_readiness_follows_the_last_instance(tmp_path):
    async def check(runtime, remotes):
        [remote] = remotes
        handle = runtime.model("m")
        remote.on_life(LifeReport(alive=False, reason="it died of something", restarts={"died": 1}))
        assert not handle.ready
        assert handle.recovering
        assert handle.reason == "it died of something"
        assert not runtime.ready
        waiting = ask(runtime, 1)
        await turn()
        assert not waiting.done()
        remote.on_life(LifeReport(alive=True, restarts={"died": 1}))
        assert handle.ready
        assert handle.reason == ""
        await turn()
        remote.answer()
        await waiting
        assert runtime.statistics()[0].restarts == {"died": 1}

    serving(tmp_path, check)


def test_what_waits_fails_when_no_instance_will_ever_come_back(tmp_path):
    async def check(runtime, remotes):
        [remote] = remotes
        remote.on_life(LifeReport(alive=False, reason="it died"))
        waiting = ask(runtime, 1)
        await turn()
        remote.on_life(LifeReport(alive=False, over=True, reason="it is given up"))
        with pytest.raises(NoReadyReplica, match="it is given up"):
            await waiting
        with pytest.raises(NoReadyReplica, match="it is given up"):
            await ask(runtime, 1)
        assert not runtime.model("m").recovering
        await runtime.load("m")
        assert runtime.model("m").ready
        assert len(remotes) == 2

    serving(tmp_path, check)


def test_each_request_ends_by_itself_and_is_counted(tmp_path):
    async def check(runtime, remotes):
        [remote] = remotes
        asked = [ask(runtime, 1), ask(runtime, 2)]
        await turn()
        batch, on_done = remote.held.pop(0)
        now = time.monotonic()
        on_done(Outcome([NotFound("not here"), Answered({"y": batch.inputs[1]["x"]}, {"p": 1})], now, now))
        with pytest.raises(NotFound, match="not here"):
            await asked[0]
        assert (await asked[1]).parameters == {"p": 1}
        found = runtime.statistics()[0]
        assert (found.success.count, found.fail.count, found.execution_count) == (1, 1, 1)
        assert found.running == 0

    serving(tmp_path, check)


def test_what_was_not_begun_goes_to_another_instance(tmp_path):
    async def check(runtime, remotes):
        first, second = remotes
        asked = [ask(runtime, value) for value in range(3)]
        await turn()
        dead, living = (first, second) if first.rows() == [[0.0]] else (second, first)
        dead.give_back()
        await turn()
        assert living.rows() == [[1.0]]  # it is busy still
        living.answer(took_s=1.0)
        await turn()
        assert living.rows() == [[0.0]]  # before what has waited since
        living.answer(took_s=1.0)
        await turn()
        assert living.rows() == [[2.0]]
        living.answer(took_s=1.0)
        assert [answer.outputs["y"].tolist() for answer in await asyncio.gather(*asked)] == [[[0]], [[2]], [[4]]]

    serving(tmp_path, check, yaml="max_batch_size: 1\ninstances: 2\n")


def test_an_instance_that_idles_takes_what_another_did_not_begin(tmp_path):
    async def check(runtime, remotes):
        asked = ask(runtime, 1)
        await turn()
        [dead] = [remote for remote in remotes if remote.held]
        [idle] = [remote for remote in remotes if not remote.held]
        dead.give_back()
        await turn()
        assert idle.rows() == [[1.0]]
        another = ask(runtime, 2)  # the idle one must be known to be busy
        await turn()
        idle.answer(took_s=1.0)
        await turn()
        idle.answer(took_s=1.0)
        await asyncio.gather(asked, another)

    serving(tmp_path, check, yaml="max_batch_size: 1\ninstances: 2\n")


def test_what_was_not_begun_waits_for_the_same_instance_and_not_for_ever(tmp_path):
    async def check(runtime, remotes):
        [remote] = remotes
        asked = ask(runtime, 1)
        for _ in range(3):
            await turn()
            assert remote.rows() == [[1.0]]
            remote.give_back()
            await turn()
            assert not asked.done()
            assert remote.rows() == []
            remote.on_life(LifeReport(alive=True))
        await turn()
        remote.give_back()
        with pytest.raises(ReplicaLost, match="it died"):
            await asked
        remote.on_life(LifeReport(alive=True))
        assert runtime.statistics()[0].running == 0

    serving(tmp_path, check)


def test_what_nobody_waits_for_is_not_begun_again(tmp_path):
    async def check(runtime, remotes):
        [remote] = remotes
        asked = ask(runtime, 1)
        await turn()
        remote.give_back()
        asked.cancel()
        await turn()
        remote.on_life(LifeReport(alive=True))
        await turn()
        assert remote.rows() == []
        assert runtime.statistics()[0].running == 0
        again = ask(runtime, 2)
        await turn()
        remote.answer()
        await again

    serving(tmp_path, check)


def test_what_was_not_begun_fails_when_no_instance_will_come(tmp_path):
    async def check(runtime, remotes):
        [remote] = remotes
        asked = ask(runtime, 1)
        await turn()
        remote.give_back()
        remote.on_life(LifeReport(alive=False, over=True, reason="it is given up"))
        with pytest.raises(ReplicaLost, match="it is given up"):
            await asked

    serving(tmp_path, check)


def test_what_was_not_begun_ends_with_the_runtime(tmp_path):
    asked = []

    async def check(runtime, remotes):
        asked.append(ask(runtime, 1))
        await turn()
        remotes[0].give_back()

    serving(tmp_path, check, drain_timeout_s=0.05)
    assert isinstance(asked[0].exception(), ReplicaLost)


def test_a_request_may_leave_out_every_input(tmp_path):
    async def check(runtime, remotes):
        [remote] = remotes
        for _ in range(2):
            asked = asyncio.ensure_future(runtime.infer(InferRequest(model="m", inputs={})))
            await turn()
            [(batch, on_done)] = remote.held
            remote.held.clear()
            assert batch.inputs == [{}]
            on_done(Outcome([Answered({"y": np.zeros((1, 1), np.float32)})], 0.0, 0.0))
            assert (await asked).outputs["y"].tolist() == [[0]]

    serving(tmp_path, check, yaml="max_batch_size: 2\ninputs: [{name: x, datatype: FP32, dims: [1], optional: true}]\n")


@pytest.mark.parametrize("harm", ["begin", "begin after it was told", "answers", "told twice"])
def test_what_goes_wrong_around_a_backend_is_answered_and_the_instance_goes_on(tmp_path, harm, caplog):
    async def check(runtime, remotes):
        [remote] = remotes

        def begin(batch, on_done):
            if harm == "begin after it was told":
                asyncio.get_running_loop().call_soon(on_done, Outcome([ReplicaLost("lost")] * 2, 0.0, 0.0))
            if harm.startswith("begin"):
                raise ZeroDivisionError("a mistake")
            Remote.begin(remote, batch, on_done)

        remote.begin = begin
        asked = [ask(runtime, value) for value in range(2)]
        await turn()
        if harm == "answers":
            remote.held.pop()[1](Outcome([], 0.0, 0.0))
        elif harm == "told twice":
            _, on_done = remote.held.pop()
            for _ in range(2):
                on_done(Outcome([ReplicaLost("lost")] * 2, 0.0, 0.0))
        failures = await asyncio.gather(*asked, return_exceptions=True)
        wanted = ReplicaLost if harm in ("told twice", "begin after it was told") else Bug
        assert [type(failure) for failure in failures] == [wanted] * 2
        assert ("failed unexpectedly" in caplog.text) == (harm != "told twice")
        del remote.begin
        again = ask(runtime, 3)
        await turn()
        remote.answer()
        assert (await again).outputs["y"].tolist() == [[6]]
        assert runtime.statistics()[0].running == 0

    serving(tmp_path, check)


@pytest.mark.parametrize("name", ["take", "take_ahead"])
def test_a_queue_that_gives_an_error_instead_of_a_batch_does_not_end_the_instance(tmp_path, monkeypatch, caplog, name):
    async def check(runtime, remotes):
        [remote] = remotes
        first = ask(runtime, 1)
        await turn()
        whole, harmed = getattr(ModelQueue, name), []

        def take(queue, *args):
            if not harmed:
                harmed.append(1)
                raise ZeroDivisionError("a mistake")
            return whole(queue, *args)

        monkeypatch.setattr(ModelQueue, name, take)
        waiting = [ask(runtime, value) for value in range(4)]
        await turn()
        remote.answer()
        await first
        while not all(each.done() for each in waiting):
            await turn()
            if remote.held:
                remote.answer()
        failures = [each.exception() for each in waiting if each.exception() is not None]
        assert failures
        assert {type(failure) for failure in failures} == {Bug}
        again = ask(runtime, 3)
        while not again.done():
            await turn()
            if remote.held:
                remote.answer()
        await again

    serving(tmp_path, check)
    assert "failed unexpectedly" in caplog.text
