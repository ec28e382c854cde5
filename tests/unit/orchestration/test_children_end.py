"""The processes of a server end in order, and all of them within a second of the time that requests get."""

import asyncio

import pytest

from trilith.orchestration.engine import control
from trilith.orchestration.engine.children import Children
from trilith.orchestration.reconcile import Limits


class Child:
    """Ends after `takes_s`, or when it is killed; keeps what it was told and the time that it was given."""

    def __init__(self, log, name, takes_s):
        self.log, self.name, self.takes_s = log, name, takes_s
        self.channel, self.alive = self, True

    def send(self, message):
        assert isinstance(message, control.Stop)
        self.log.append((self.name, message.timeout_s))

    def kill(self):
        self.takes_s = 0.0

    async def end_within(self, limit_s):
        await asyncio.sleep(min(self.takes_s, limit_s))


class Loop(asyncio.SelectorEventLoop):
    """Its time goes to the next timer at once."""

    def __init__(self):
        super().__init__()
        self.now = 0.0

    def time(self):
        return self.now

    def _run_once(self):
        if not self._ready and self._scheduled:
            self.now = max(self.now, self._scheduled[0].when())
        super()._run_once()


def end(limits, *, gateway_s, worker_s, starting=()):
    log = []
    with asyncio.Runner(loop_factory=Loop) as runner:

        async def main():
            children = Children(limits)
            children.gateway = Child(log, "gateway", gateway_s)
            children.workers = {number: Child(log, f"worker {number}", worker_s) for number in (1, 2)}
            await children.end(starting)
            return asyncio.get_running_loop().time()

        return runner.run(main()), log


@pytest.mark.parametrize("drain_s", [0.0, 0.3, 3.0, 30.0])
@pytest.mark.parametrize("gateway_s", [0.0, 0.2, 3.1, 1000.0])
@pytest.mark.parametrize("worker_s", [0.0, 1000.0])
def test_all_have_ended_a_second_after_the_drain(drain_s, gateway_s, worker_s):
    took_s, log = end(Limits(drain_s=drain_s, stop_s=5.0), gateway_s=gateway_s, worker_s=worker_s)
    assert took_s <= drain_s + 1.0001
    assert [name for name, _ in log] == ["gateway", "worker 1", "worker 2"]
    assert log[0][1] == drain_s
    assert 0.25 <= log[1][1] <= 5.0


def test_workers_have_their_time_when_the_drain_leaves_it():
    took_s, log = end(Limits(drain_s=30.0, stop_s=5.0), gateway_s=2.0, worker_s=1000.0)
    assert took_s == pytest.approx(2.0 + 5.0 + 1.0)
    assert log[1] == ("worker 1", 5.0)


def test_those_that_start_are_not_waited_for():
    took_s, _ = end(Limits(drain_s=30.0, stop_s=5.0), gateway_s=2.0, worker_s=1000.0, starting={1, 2})
    assert took_s == pytest.approx(2.0)
