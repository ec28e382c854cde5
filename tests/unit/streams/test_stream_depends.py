"""Streams between services in one process, and through a caller of another one."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

import trilith
from trilith.errors import InvalidInput
from trilith.service import InProcessResolver, ServiceHost, StreamServiceCall, spec_of
from trilith.service.bridge import background
from trilith.service.remote import RemoteServiceCaller
from trilith.service.streams.bridge import BlockingItems, from_loop, in_one_thread
from trilith.testing.streams import MemoryStream
from trilith.wire.calls import CallMeta


@trilith.service
class Source:
    def __init__(self) -> None:
        self.events: list[str] = []
        self.threads: set[int] = set()

    @trilith.api
    async def up_to(self, n: int) -> AsyncIterator[int]:
        try:
            for number in range(n):
                yield number
        finally:
            self.events.append("closed")

    @trilith.api
    def plain(self, n: int) -> Iterator[int]:
        try:
            for number in range(n):
                self.threads.add(threading.get_ident())
                yield number
        finally:
            self.threads.add(threading.get_ident())
            self.events.append("closed")

    @trilith.api
    async def fails(self) -> AsyncIterator[int]:
        yield 1
        raise InvalidInput("no more")

    @trilith.api
    async def total(self, numbers: AsyncIterator[int], start: int = 0) -> int:
        async for number in numbers:
            start += number
        return start

    @trilith.api
    def plain_total(self, numbers: Iterator[int]) -> int:
        return sum(numbers)

    @trilith.api
    def doubled(self, numbers: Iterator[int]) -> Iterator[int]:
        for number in numbers:
            yield 2 * number


@trilith.service
class Front:
    source = trilith.depends(Source)

    @trilith.api
    async def first(self, method: str, n: int, count: int) -> list[int]:
        found = []
        async for number in getattr(self.source, method)(n):
            found.append(number)
            if len(found) == count:
                break
        return found

    @trilith.api
    def first_plainly(self, method: str, n: int, count: int) -> list[int]:
        found = []
        items = getattr(self.source, method)(n)
        for number in items:
            found.append(number)
            if len(found) == count:
                break
        items.close()
        return found

    @trilith.api
    async def chained(self, n: int) -> AsyncIterator[int]:
        async for number in self.source.doubled(self.source.up_to(n)):
            yield number

    @trilith.api
    async def totals(self) -> list[int]:
        return [
            await self.source.total([1, 2], start=3),
            await self.source.total(self.source.up_to(4)),
            await self.source.plain_total(iter([1, 2])),
            await self.source.plain_total(self.source.up_to(4)),
        ]

    @trilith.api
    def plain_totals(self) -> list[int]:
        return [
            self.source.total([1, 2], start=3),
            self.source.total(self.source.plain(4)),
            self.source.plain_total(iter([1, 2])),
            self.source.plain_total(self.source.up_to(4)),
        ]


def source_of(front):
    return front.source._caller._instance


async def settled(front):
    for _ in range(2000):
        gc.collect()
        if source_of(front).events:
            return source_of(front)
        await asyncio.sleep(0.001)
    raise AssertionError("the generator was not closed")


@pytest.mark.parametrize("method", ["up_to", "plain"])
@pytest.mark.parametrize(("n", "count"), [(3, 10), (10**9, 2)])
def test_a_dependency_streams_on_a_loop(method, n, count):
    async def main():
        front = Front()
        assert await front.first(method, n, count) == list(range(min(n, count)))
        source = await settled(front)
        assert source.events == ["closed"]
        assert len(source.threads) <= 1

    asyncio.run(main())


@pytest.mark.parametrize("method", ["up_to", "plain"])
@pytest.mark.parametrize(("n", "count"), [(3, 10), (10**9, 2)])
def test_a_dependency_streams_in_a_thread(method, n, count):
    front = Front()
    assert front.first_plainly(method, n, count) == list(range(min(n, count)))
    assert source_of(front).events == ["closed"]


def test_streams_of_either_kind_are_taken_by_either():
    async def main():
        front = Front()
        assert [number async for number in front.chained(4)] == [0, 2, 4, 6]
        assert await front.totals() == [6, 6, 3, 6]

    asyncio.run(main())
    assert Front().plain_totals() == [6, 6, 3, 6]


def test_a_failure_reaches_who_reads():
    async def main():
        found = Front().source.fails()
        assert await anext(found) == 1
        with pytest.raises(InvalidInput, match="no more"):
            await anext(found)

    asyncio.run(main())


def test_what_is_no_stream_is_refused():
    with pytest.raises(TypeError, match="given as an iterable"):
        Front().source.total(3)


def test_a_plain_generator_runs_in_one_thread_whoever_leaves_it():
    threads = set()

    def numbers():
        try:
            for number in range(1000):
                threads.add(threading.get_ident())
                yield number
        finally:
            threads.add(threading.get_ident())

    async def main():
        items = in_one_thread(numbers)
        assert [await anext(items) for _ in range(3)] == [0, 1, 2]
        await items.aclose()
        assert len(threads) == 1
        assert [number async for number in in_one_thread(numbers)] == list(range(1000))

    asyncio.run(main())


class Wire:
    """An `ItemStream` to a host in this process: what a worker's connection is, without one."""

    def __init__(self, host, meta, buffers, context):
        self.port = MemoryStream()
        self._answered = asyncio.get_running_loop().create_future()
        self._answered.add_done_callback(lambda done: done.cancelled() or done.exception())

        def done(outcome, results):
            if isinstance(outcome, BaseException):
                self._answered.set_exception(outcome)
            else:
                self._answered.set_result((outcome, results))

        self.call = StreamServiceCall(meta, buffers, context, done, port=self.port)
        self._failure = None
        host.handle(self.call)

    async def item(self):
        while not self.port.sent:
            if self._failure is not None:
                raise self._failure
            if self._answered.done():
                self._answered.result()
                if not self.port.sent:
                    return None
            await asyncio.sleep(0.001)
        [body] = self.port.take()
        return [body]

    async def put(self, buffers):
        self.port.give(b"".join(bytes(buffer) for buffer in buffers))

    def end(self):
        self.port.end()

    def fail(self, error):
        self._failure = error
        self.cancel()

    @property
    def answer(self):
        return self._answered.result()

    def cancel(self):
        self.call.cancel()


def test_calls_to_another_process_carry_items_both_ways():
    async def main():
        host = ServiceHost(Source, InProcessResolver(home=asyncio.get_running_loop()))
        await host.start()
        metas: list[CallMeta] = []

        async def opened(meta, buffers, context):
            metas.append(meta)
            return Wire(host, meta, buffers, context)

        async def unary(meta, buffers, context):
            raise AssertionError("every method here has items")

        caller = RemoteServiceCaller(spec_of(Source), unary, opened)
        assert [number async for number in caller.stream("up_to", (3,), {})] == [0, 1, 2]
        assert await caller.call("total", (iter([1, 2]),), {"start": 5}) == 8
        assert [number async for number in caller.stream("doubled", (), {"numbers": [1, 2]})] == [2, 4]
        with pytest.raises(InvalidInput, match="no more"):
            assert [number async for number in caller.stream("fails", (), {})]

        def broken():
            yield 1
            raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            await caller.call("plain_total", (broken(),), {})
        with pytest.raises(InvalidInput, match="item 2"):
            await caller.call("total", ([1, "two"],), {})
        with pytest.raises(TypeError, match="missing a required argument"):
            await caller.call("total", (), {})
        items = caller.stream("up_to", (10**9,), {})
        assert await anext(items) == 0
        await items.aclose()
        while host.in_flight:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        assert isinstance(metas[0], CallMeta)
        await host.stop()

    asyncio.run(main())


def test_one_task_drives_an_iterator_for_a_thread():
    tasks = set()

    async def numbers():
        try:
            async with asyncio.timeout(60):  # which wants to be left in the task that entered it
                for number in range(1000):
                    tasks.add(asyncio.current_task())
                    yield number
        finally:
            tasks.add(asyncio.current_task())

    items = BlockingItems(numbers, background.loop())
    assert [next(items) for _ in range(40)] == list(range(40))
    items.close()
    assert len(tasks) == 1
    assert list(items) == []
    assert list(BlockingItems(numbers, background.loop())) == list(range(1000))


def test_an_iterator_that_fails_for_a_thread_raises_there():
    async def numbers():
        yield 1
        raise LookupError("mine")

    items = BlockingItems(numbers, background.loop())
    assert next(items) == 1
    with pytest.raises(LookupError, match="mine"):
        next(items)
    assert list(items) == []


def test_an_iterator_of_another_loop_is_read_on_this_one():
    async def numbers():
        for number in range(100):
            yield number

    async def main():
        assert [number async for number in from_loop(numbers, background.loop())] == list(range(100))

    asyncio.run(main())
