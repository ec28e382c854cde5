"""Batched calls behind middleware: which batches teach the pause, and that no timer spins."""

import asyncio

import pytest

import trilith
from trilith.core.context import Context
from trilith.core.timeline import Timeline
from trilith.errors import Draining
from trilith.runtime import CallQueue
from trilith.service.call import PLAIN_RESULT, ServiceCall
from trilith.service.mounts.joined_calls import JoinedCalls
from trilith.service.spec import spec_of
from trilith.wire.calls import CallMeta


def method(**batch):
    @trilith.service
    class Reader:
        @trilith.api(batch=trilith.Batch(**batch))
        def read(self, xs: list[int]) -> list[int]:
            return xs

    return spec_of(Reader).methods["read"]


class Host:
    """Takes batches up, and ends them when it is told to."""

    def __init__(self, *, stopped=False):
        self.stopped = stopped
        self.batches = []
        self.aborted = []
        self.begun = asyncio.Event()

    def handle_batch(self, calls):
        self.batches.append(calls)
        self.begun.set()
        for call in calls:
            if self.stopped:
                call.finish(Draining("it is stopping"))
            else:
                call.working = True
                call.abort = self.aborted.append

    def end(self, calls):
        for call in calls:
            call.finish(PLAIN_RESULT)
            call.working = False
            call.on_end()


def call():
    context = Context(request_id="r1", timeline=Timeline("service", 2))
    return ServiceCall(CallMeta("Reader", "read", "", "r1"), (), context, lambda outcome, buffers: None)


@pytest.fixture
def taught(monkeypatch):
    """For each batch that was over, whether an instant was said."""
    said, over = [], CallQueue.over

    def spy(queue, batch, answered_at=None):
        said.append(answered_at is not None)
        over(queue, batch, answered_at)

    monkeypatch.setattr(CallQueue, "over", spy)
    return said


def test_only_a_batch_that_ran_to_its_end_says_what_batches_take(taught):
    async def main():
        for host, expected in ((Host(), True), (Host(stopped=True), False)):
            calls, joined = [call(), call()], JoinedCalls(method(max_size=4), host.handle_batch)
            for each in calls:
                joined.handle(each)
            await asyncio.sleep(0)
            if not host.stopped:
                calls[0].cancel()  # one that went away changes nothing
                host.end(calls)
            assert taught == [expected]
            assert len(host.batches) == 1
            assert all(each.done and each.abort is None for each in calls)
            taught.clear()

    asyncio.run(main())


def test_a_batch_that_nobody_waits_for_says_nothing_and_its_end_frees_the_place(taught):
    async def main():
        host = Host()
        calls, joined = [call(), call()], JoinedCalls(method(max_size=4), host.handle_batch)
        for each in calls:
            joined.handle(each)
        await asyncio.sleep(0)
        for each in calls:
            each.cancel()
        assert host.aborted == calls  # the host is told
        joined.handle(call())
        await asyncio.sleep(0)
        assert len(host.batches) == 1
        host.end(calls)
        await asyncio.sleep(0)
        assert taught == [False]
        assert len(host.batches) == 2

    asyncio.run(main())


def test_no_timer_is_shorter_than_what_a_loop_can_tell_apart(monkeypatch):
    async def main():
        host, delays, loop = Host(), [], asyncio.get_running_loop()
        later = loop.call_later
        monkeypatch.setattr(loop, "call_later", lambda delay, *more: delays.append(delay) or later(delay, *more))
        JoinedCalls(method(max_size=4, max_wait_ms=0.3), host.handle_batch).handle(call())
        await host.begun.wait()
        assert delays
        assert min(delays) >= 0.001

    asyncio.run(main())
