"""Users' code that blocks has a thread of its own: many that wait for each other go on, and a hung one ends alone."""

import asyncio
import contextvars
import subprocess
import sys
import threading

import pytest

from trilith.service.own_thread import END, Steps, in_own_thread

MANY = 60  # more than any pool of asyncio's has


def test_many_that_wait_for_each_other():
    together = threading.Barrier(MANY)

    async def main():
        return await asyncio.gather(*(in_own_thread(lambda: together.wait(10), "x") for _ in range(MANY)))

    assert sorted(asyncio.run(main())) == list(range(MANY))


def test_iterators_that_wait_for_each_other():
    together = threading.Barrier(MANY)

    def items():
        yield 1
        together.wait(10)
        yield 2

    async def read():
        steps = Steps(items(), "x")
        found = []
        while (item := await steps.next()) is not END:
            found.append(item)
        return found

    async def main():
        return await asyncio.gather(*(read() for _ in range(MANY)))

    assert asyncio.run(main()) == [[1, 2]] * MANY


def test_what_it_raises_is_raised():
    def work():
        raise StopIteration("odd")

    with pytest.raises(RuntimeError, match="odd"):
        asyncio.run(in_own_thread(work, "x"))
    with pytest.raises(KeyError):
        asyncio.run(in_own_thread(lambda: {}["a"], "x"))


def test_it_sees_the_context_of_who_asked():
    name = contextvars.ContextVar("name")

    async def main():
        name.set("ann")
        steps = Steps((name.get() for _ in range(1)), "x")
        return await in_own_thread(name.get, "x"), await steps.next()

    assert asyncio.run(main()) == ("ann", "ann")


def test_a_generator_that_is_left_is_closed_and_other_iterators_are_not():
    closed = threading.Event()

    def items():
        try:
            yield 1
        finally:
            closed.set()

    class File:
        closed = False

        def __iter__(self):
            return self

        def __next__(self):
            return "line"

        def close(self):
            self.closed = True

    async def main(given):
        steps = Steps(given, "x")
        await steps.next()
        steps.leave()

    asyncio.run(main(items()))
    assert closed.wait(10)
    file = File()
    asyncio.run(main(file))
    assert not file.closed


def test_a_step_that_never_ends_does_not_keep_a_program():
    code = """
import asyncio, threading
from trilith.service.own_thread import Steps, in_own_thread

def items():
    yield 1
    threading.Event().wait()

async def main():
    steps = Steps(items(), "x")
    await steps.next()
    asyncio.ensure_future(steps.next())
    asyncio.ensure_future(in_own_thread(threading.Event().wait, "x"))
    await asyncio.sleep(0)
    steps.leave()

asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
