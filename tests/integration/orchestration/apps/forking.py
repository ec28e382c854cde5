"""Methods that fork, in each way that goes wrong or is meant to work."""

import asyncio
import multiprocessing
import os
import time

import trilith


def square(number, answers):
    answers.put(number * number)


@trilith.service(concurrency=8)
class Forking:
    @trilith.api
    async def returns(self, number: int) -> int:
        child = os.fork()
        return number if child == 0 else child

    @trilith.api
    async def raises(self, number: int) -> int:
        child = os.fork()
        if child == 0:
            raise ValueError(number)
        return child

    @trilith.api
    async def awaits(self, number: int) -> int:
        child = os.fork()
        if child == 0:
            await asyncio.sleep(0.001)
        return number if child == 0 else child

    @trilith.api
    def returns_in_thread(self, number: int) -> int:
        child = os.fork()
        return number if child == 0 else child

    @trilith.api
    def raises_in_thread(self, number: int) -> int:
        child = os.fork()
        if child == 0:
            raise SystemExit(number)
        return child

    @trilith.api
    def with_multiprocessing(self, number: int) -> int:
        context = multiprocessing.get_context("fork")
        answers = context.Queue()
        worker = context.Process(target=square, args=(number, answers))
        worker.start()
        answer = answers.get(timeout=20)
        worker.join(20)
        assert worker.exitcode == 0
        return answer

    @trilith.api
    def ends_a_child(self, start: str) -> int:
        child = multiprocessing.get_context(start).Process(target=time.sleep, args=(60,))
        child.start()
        child.terminate()
        child.join(20)
        return child.exitcode

    @trilith.api
    def exit_status(self, child: int) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    @trilith.api
    async def echo(self, number: int) -> int:
        await asyncio.sleep(0.001)
        return number
