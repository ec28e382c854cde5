"""The threads that load: what begins in them, and what never does."""

import asyncio
import threading

import pytest

from trilith.core.clock import MonotonicClock
from trilith.errors import Draining, SetupError
from trilith.runtime.attempt import Attempt
from trilith.runtime.load_threads import LoadStatistics, LoadThreads

MANY = 8


class Works:
    """Notes what begins; waits until it is given up or let go."""

    def __init__(self):
        self.begun = []
        self.go = threading.Event()

    def of(self, number):
        def work(run):
            self.begun.append(number)
            assert self.go.wait(10)
            return number

        return work


def begin(threads, works, count=MANY):
    return [threads.begin(works.of(at), what=f"load {at}", timeout_s=None) for at in range(count)]


async def outcomes(jobs):
    return await asyncio.gather(*(job.wait() for job in jobs), return_exceptions=True)


def test_nothing_begins_after_the_end():
    async def main():
        threads, works = LoadThreads(1, MonotonicClock(), asyncio.get_running_loop()), Works()
        jobs = begin(threads, works)
        closing = asyncio.ensure_future(threads.close(10))
        assert all(isinstance(each, Draining) for each in await outcomes(jobs))
        assert [job.begun for job in jobs] == [True] + [False] * (MANY - 1)
        with pytest.raises(Draining):
            threads.begin(works.of(MANY), what="one more", timeout_s=None)
        works.go.set()
        await closing
        assert works.begun == [0]

    asyncio.run(main())


def test_what_is_shut_ends_what_it_began():
    async def main():
        threads, works = LoadThreads(2, MonotonicClock(), asyncio.get_running_loop()), Works()
        jobs = begin(threads, works)
        threads.shut()
        works.go.set()
        results = await outcomes(jobs)
        assert results[:2] == [0, 1]
        assert all(isinstance(each, Draining) for each in results[2:])
        await threads.close(10)
        assert sorted(works.begun) == [0, 1]

    asyncio.run(main())


def test_an_attempt_that_is_given_up_begins_nothing_more():
    async def main():
        threads, works = LoadThreads(1, MonotonicClock(), asyncio.get_running_loop()), Works()
        attempt = Attempt(0, "a", 0.0)
        runs = [
            asyncio.ensure_future(attempt.run(threads, works.of(at), what=f"version {at}", timeout_s=None))
            for at in range(MANY)
        ]
        await asyncio.sleep(0)
        assert threads.statistics().waiting == MANY - 1
        attempt.give_up(SetupError("nobody wants it"))
        assert threads.statistics().running == threads.statistics().waiting == 0
        assert all(isinstance(each, SetupError) for each in await asyncio.gather(*runs, return_exceptions=True))
        works.go.set()
        await threads.close(10)
        assert works.begun == [0]

    asyncio.run(main())


def refuse(thread):
    raise RuntimeError("can't start new thread")


def test_a_system_without_threads_fails_the_load_and_not_the_others(monkeypatch):
    async def main():
        threads, works = LoadThreads(1, MonotonicClock(), asyncio.get_running_loop()), Works()
        works.go.set()
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            jobs = begin(threads, works, 1)
        jobs += begin(threads, works, 1)
        failed, done = await outcomes(jobs)
        assert str(failed) == "load 0: it cannot begin: can't start new thread"
        assert done == 0
        await threads.close(10)

    asyncio.run(main())


@pytest.mark.parametrize("at_once", [True, False])
def test_what_could_not_begin_may_be_given_up(monkeypatch, at_once):
    """An attempt gives up all that it ever began, when it is unloaded while it tries again."""

    async def main():
        threads, works = LoadThreads(1, MonotonicClock(), asyncio.get_running_loop()), Works()
        works.go.set()
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            [job] = begin(threads, works, 1)
        if not at_once:
            await outcomes([job])
        job.give_up(SetupError("it was unloaded"))
        says = "it was unloaded" if at_once else "it cannot begin"
        with pytest.raises(SetupError, match=says):
            await job.wait()
        assert await outcomes(begin(threads, works, 1)) == [0]
        assert threads.statistics() == LoadStatistics()
        await threads.close(10)

    asyncio.run(main())


def test_what_nobody_wants_is_freed_as_soon_as_there_is_a_thread_for_it(monkeypatch):
    async def main():
        threads, freed = LoadThreads(1, MonotonicClock(), asyncio.get_running_loop()), threading.Event()
        tried = asyncio.Event()
        job = threads.begin(lambda run: 5, what="a", timeout_s=None, discard=lambda _: freed.set())
        job.thread.join(10)  # it has ended, and the loop does not know yet
        job.give_up(SetupError("nobody wants it"))

        def refuse_once(thread):
            patch.undo()
            tried.set()
            refuse(thread)

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse_once)
            await tried.wait()
        assert await asyncio.to_thread(freed.wait, 10)
        await threads.close(10)

    asyncio.run(main())
