"""The in-process queue of a batched method: joins, bounds, windows, halves, and nobody waits for ever."""

import asyncio
import contextvars
import threading
import time

import pytest

import trilith
from trilith.errors import Cancelled, QueueFull, ServiceError

WHO = contextvars.ContextVar("who", default="nobody")


class Recorder:
    """What the batched methods saw, and how they are held up."""

    def __init__(self):
        self.batches = []
        self.gate = asyncio.Event()
        self.begun = asyncio.Event()
        self.cancelled = False
        self.running = 0


def service(*, max_size=4, max_wait_ms=0.0, idempotent=False, max_waiting=1000, work=None):
    """A root whose dependency has `held` (waits for the gate) and `done` (does not)."""

    @trilith.service(max_waiting=max_waiting)
    class Inner:
        def __init__(self):
            self.recorder = Recorder()

        async def _work(self, xs, wait):
            recorder = self.recorder
            recorder.batches.append(xs)
            recorder.running += 1
            assert recorder.running == 1, "two batches at a time"
            recorder.begun.set()
            try:
                if wait:
                    await recorder.gate.wait()
                return xs if work is None else await work(xs)
            except asyncio.CancelledError:
                recorder.cancelled = True
                raise
            finally:
                recorder.running -= 1

        @trilith.api(batch=trilith.Batch(max_size=max_size, max_wait_ms=max_wait_ms), idempotent=idempotent)
        async def held(self, xs: list[int]) -> list[int]:
            return await self._work(xs, True)

        @trilith.api(batch=trilith.Batch(max_size=max_size, max_wait_ms=max_wait_ms), idempotent=idempotent)
        async def done(self, xs: list[int]) -> list[int]:
            return await self._work(xs, False)

        @trilith.api
        async def recorder_of(self) -> object:
            return self.recorder

    @trilith.service
    class Root:
        inner = trilith.depends(Inner)

        @trilith.api
        async def run(self) -> int:
            return 1

    return Root()


def start(calls):
    return [asyncio.ensure_future(call) for call in calls]


async def turns(count=8):
    for _ in range(count):
        await asyncio.sleep(0)


def run(main):
    return asyncio.run(asyncio.wait_for(main, 20))


def test_what_comes_while_a_batch_runs_is_the_next_one():
    async def main():
        root = service(max_size=3)
        recorder = await root.inner.recorder_of()
        first = start([root.inner.held(0)])
        await recorder.begun.wait()
        late = start(root.inner.held(x) for x in range(1, 6))
        await turns()
        assert recorder.batches == [[0]]
        recorder.gate.set()
        assert await asyncio.gather(*first, *late) == [0, 1, 2, 3, 4, 5]
        assert recorder.batches == [[0], [1, 2, 3], [4, 5]]

    run(main())


def test_a_full_batch_does_not_wait_for_its_window():
    async def main():
        root = service(max_size=2, max_wait_ms=3_600_000)
        recorder = await root.inner.recorder_of()
        assert await asyncio.gather(*(root.inner.done(x) for x in range(4))) == [0, 1, 2, 3]
        lonely = asyncio.ensure_future(root.inner.done(4))
        await turns()
        assert not lonely.done()
        assert await asyncio.gather(lonely, root.inner.done(5)) == [4, 5]
        assert recorder.batches == [[0, 1], [2, 3], [4, 5]]

    run(main())


def test_an_under_full_batch_leaves_when_its_window_closes():
    async def main():
        root = service(max_wait_ms=5)
        assert await root.inner.done(1) == 1
        assert await asyncio.gather(root.inner.done(2), root.inner.done(3)) == [2, 3]
        assert (await root.inner.recorder_of()).batches == [[1], [2, 3]]

    run(main())


def test_the_queue_is_bounded():
    async def main():
        root = service(max_size=2, max_waiting=3)
        recorder = await root.inner.recorder_of()
        running = start(root.inner.held(x) for x in range(2))
        await recorder.begun.wait()
        waiting = start(root.inner.held(x) for x in range(2, 5))
        await turns()
        with pytest.raises(QueueFull, match=r"3 calls of Inner.held wait already, which is its limit"):
            await root.inner.held(5)
        recorder.gate.set()
        assert await asyncio.gather(*running, *waiting) == [0, 1, 2, 3, 4]

    run(main())


def test_what_starts_at_once_does_not_count_as_waiting():
    async def main():
        root = service(max_size=2, max_waiting=1)
        results = await asyncio.gather(*(root.inner.done(x) for x in range(4)), return_exceptions=True)
        assert results[:3] == [0, 1, 2]
        assert isinstance(results[3], QueueFull)

    run(main())


async def _no_negatives(xs):
    if any(x < 0 for x in xs):
        raise ValueError("negative")
    return xs


def test_an_idempotent_method_is_tried_again_in_halves():
    async def main():
        root = service(max_size=8, idempotent=True, work=_no_negatives)
        results = await asyncio.gather(*(root.inner.done(x) for x in (1, 2, -3, 4, 5)), return_exceptions=True)
        assert [type(x) if isinstance(x, Exception) else x for x in results] == [1, 2, ValueError, 4, 5]
        assert [len(xs) for xs in (await root.inner.recorder_of()).batches] == [5, 2, 3, 1, 2]

    run(main())


def test_another_method_fails_as_a_whole():
    async def main():
        root = service(work=_no_negatives)
        results = await asyncio.gather(*(root.inner.done(x) for x in (1, -2)), return_exceptions=True)
        assert [type(x) for x in results] == [ValueError, ValueError]
        assert await root.inner.done(3) == 3

    run(main())


def test_a_waiting_caller_who_went_is_left_out():
    async def main():
        root = service()
        recorder = await root.inner.recorder_of()
        first = start([root.inner.held(0)])
        await recorder.begun.wait()
        late = start(root.inner.held(x) for x in range(1, 4))
        await turns()
        late[1].cancel()
        await turns()
        recorder.gate.set()
        await asyncio.gather(*first, *late, return_exceptions=True)
        assert recorder.batches == [[0], [1, 3]]

    run(main())


def test_a_batch_whose_callers_are_all_gone_is_cancelled_and_the_queue_goes_on():
    async def main():
        root = service(max_size=2)
        recorder = await root.inner.recorder_of()
        running = start(root.inner.held(x) for x in range(2))
        await recorder.begun.wait()
        late = start([root.inner.held(2)])
        await turns()
        running[0].cancel()
        await turns()
        assert not recorder.cancelled
        running[1].cancel()
        await turns()
        assert recorder.cancelled
        recorder.gate.set()
        assert await late[0] == 2
        assert recorder.batches == [[0, 1], [2]]

    run(main())


def test_callers_who_go_before_the_batch_starts_leave_the_queue_working():
    async def main():
        for turn in range(6):
            root = service()
            calls = start(root.inner.done(x) for x in range(2))
            await turns(turn)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            assert await root.inner.done(7) == 7

    run(main())


def test_a_stopped_batch_answers_everybody():
    async def main():
        root = service(max_size=1)
        recorder = await root.inner.recorder_of()
        calls = start(root.inner.held(x) for x in range(3))
        await recorder.begun.wait()
        mine = {asyncio.current_task(), *calls}
        [runner] = [task for task in asyncio.all_tasks() if task not in mine and "LocalBatches" in repr(task)]
        runner.cancel()  # what `asyncio.run` does to every task at its end
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(result) for result in results] == [Cancelled] * 3
        recorder.gate.set()
        assert await root.inner.held(4) == 4

    run(main())


def test_a_loop_may_end_in_the_midst():
    root = service(max_size=2)
    seen = []

    async def caller(x):
        try:
            await root.inner.held(x)
        except BaseException as error:
            seen.append(type(error))
            raise

    async def main():
        recorder = await root.inner.recorder_of()
        calls.extend(asyncio.ensure_future(caller(x)) for x in range(5))
        await recorder.begun.wait()

    calls = []
    run(main())
    assert len(seen) == 5
    assert set(seen) <= {asyncio.CancelledError, Cancelled}

    async def again():  # on another loop the same instance starts anew
        return await asyncio.gather(root.inner.done(1), root.inner.done(2))

    assert run(again()) == [1, 2]


def test_a_cancellation_of_the_methods_own_is_its_failure():
    async def escape(xs):
        if xs == [0]:
            raise asyncio.CancelledError
        return xs

    async def main():
        root = service(work=escape)
        with pytest.raises(ServiceError, match=r"Inner.done let a cancellation of its own escape"):
            await root.inner.done(0)
        assert await root.inner.done(1) == 1

    run(main())


def test_a_batch_sees_the_circumstances_of_its_oldest_call():
    seen = []

    async def look(xs):
        seen.append(WHO.get())
        return xs

    async def as_(who, root, x):
        WHO.set(who)
        return await root.inner.done(x)

    async def main():
        root = service(max_size=1, work=look)
        await asyncio.gather(as_("one", root, 1), as_("two", root, 2))

    run(main())
    assert seen == ["one", "two"]


def test_exceptions_that_no_future_can_hold_are_answered_too():
    @trilith.service
    class Inner:
        @trilith.api
        def plain(self) -> int:
            raise StopIteration(1)

        @trilith.api(batch=trilith.Batch())
        def joined(self, xs: list[int]) -> list[int]:
            raise StopIteration(1)

        @trilith.api(batch=trilith.Batch())
        async def listed(self, xs: list[int]) -> list[int]:
            return [StopIteration(x) for x in xs]

    @trilith.service
    class Root:
        inner = trilith.depends(Inner)

        @trilith.api
        async def run(self) -> int:
            return 1

    async def main():
        inner = Root().inner
        calls = [inner.plain(), inner.joined(1), inner.listed(1)]
        return await asyncio.gather(*calls, return_exceptions=True)

    assert [type(error) for error in run(main())] == [RuntimeError] * 3


def test_threads_and_a_loop_run_one_batch_at_a_time():
    overlaps = []

    @trilith.service
    class Inner:
        def __init__(self):
            self.busy = threading.Lock()

        @trilith.api(batch=trilith.Batch(max_size=2))
        def work(self, xs: list[int]) -> list[int]:
            if not self.busy.acquire(blocking=False):
                overlaps.append(xs)
                return xs
            time.sleep(0.001)
            self.busy.release()
            return xs

    @trilith.service
    class Root:
        inner = trilith.depends(Inner)

        @trilith.api
        def run(self, x: int) -> int:
            return self.inner.work(x)

    async def main():
        root = Root()
        from_threads = [asyncio.to_thread(root.run, x) for x in range(8)]
        from_the_loop = [root.inner.work(x) for x in range(8, 16)]
        return await asyncio.gather(*from_threads, *from_the_loop)

    assert run(main()) == list(range(16))
    assert overlaps == []
