"""The threads that load: what begins in them, and what never does."""

import asyncio
import threading

import pytest

from trilith.core.clock import MonotonicClock
from trilith.errors import Draining, SetupError
from trilith.runtime.attempt import Attempt
from trilith.runtime.load_threads import LoadThreads

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

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    asyncio.run(main())
