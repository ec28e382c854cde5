"""Streams through `trilith.client`, plain and async: items, failures, leaving early, items that go in."""

from __future__ import annotations

import asyncio
import inspect
import os
import queue
import signal

import pytest
from live_server import APPS

import trilith
from trilith.errors import DeadlineExceeded, InvalidInput, ReplicaLost


@pytest.fixture(scope="module")
def streams(serve_module):
    return serve_module(f"{APPS}/streaming.py:Streams")


@pytest.fixture
def client(streams):
    with trilith.client(f"http://127.0.0.1:{streams.http}") as found:
        yield found


def run_async(streams, scenario):
    async def main():
        async with (
            asyncio.timeout(20),
            trilith.client(f"http://127.0.0.1:{streams.http}", asynchronous=True) as found,
        ):
            return await scenario(found)

    return asyncio.run(main())


def test_items_come_as_an_iterator(client):
    assert list(client.count(n=3)) == ["0", "1", "2"]
    assert list(client.plain(n=0)) == []
    assert b"".join(client.chunks(n=3, size=100_000)) == b"\0" * 100_000 + b"\1" * 100_000 + b"\2" * 100_000
    assert next(client.count(n=10**9)) == "0"


def test_items_go_in_from_an_iterable(client):
    assert client.total(range(5)) == 10
    assert client.total(numbers=iter([1, 2])) == 3
    assert client.sizes([b"ab", b"c"]) == 3
    assert list(client.doubled([1, 2], by=5)) == [5, 10]


def test_help_shows_streams(client):
    assert str(inspect.signature(client.count)) == "(n: int, size: int = 0) -> Iterator[str]"
    assert str(inspect.signature(client.doubled)) == "(numbers: Iterable[int], by: int = 2) -> Iterator[int]"


def test_errors_are_raised_where_they_happen(client):
    found = client.fails(after=2)
    assert [next(found), next(found)] == ["0", "1"]
    with pytest.raises(InvalidInput, match="it broke"):
        next(found)
    with pytest.raises(InvalidInput, match="it broke"):
        list(client.fails(after=0))
    with pytest.raises(InvalidInput, match="item 2"):
        client.total([1, "two"])
    with pytest.raises(TypeError, match="unexpected keyword argument 'm'"):
        client.count(m=3)
    with pytest.raises(DeadlineExceeded, match=r"no item for 0\.3 s"):
        list(client.silent())
    found = client.with_timeout(0.3).slow(wait_s=60)
    assert next(found) == 1
    with pytest.raises(DeadlineExceeded):
        next(found)


def test_an_iterable_that_fails_ends_the_call(streams, client):
    def numbers():
        yield 1
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        client.total(numbers())
    streams.wait_until(lambda: b'trilith_service_in_flight{service="Streams"} 0' in streams.get("/metrics")[1])


def test_leaving_early_ends_the_work(streams, client):
    closings = client.closings()[1]
    for item in client.count(n=10**9):
        if item == "3":
            break
    streams.wait_until(lambda: client.closings()[1] == closings + 1)


def test_items_go_both_ways_at_once(streams, client):
    asked = queue.SimpleQueue()
    asked.put(1)
    found = client.doubled(iter(asked.get, None), by=3)
    for number in (1, 2, 3):
        assert next(found) == 3 * number
        asked.put(number + 1)
    found.close()
    asked.put(None)
    with pytest.raises(InvalidInput, match="item 1"):
        list(client.doubled(["x"]))
    with pytest.raises(InvalidInput, match="by"):
        list(client.doubled([1], by="x"))

    def broken():
        yield 1
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        list(client.doubled(broken()))
    assert len(list(client.doubled(range(20_000)))) == 20_000
    streams.wait_until(lambda: b'trilith_service_in_flight{service="Streams"} 0' in streams.get("/metrics")[1])

    async def scenario(found):
        asked = asyncio.Queue()

        async def numbers():
            while (number := await asked.get()) is not None:
                yield number

        asked.put_nowait(1)
        seen = []
        async for number in found.doubled(numbers()):
            seen.append(number)
            asked.put_nowait(number if number < 20 else None)
        return seen

    assert run_async(streams, scenario) == [2, 4, 8, 16, 32]


def test_async_clients(streams):
    async def scenario(found):
        assert [item async for item in found.count(n=3)] == ["0", "1", "2"]
        assert await found.total(range(5)) == 10

        async def numbers():
            yield 1
            await asyncio.sleep(0)
            yield 2

        assert [item async for item in found.doubled(numbers())] == [2, 4]
        seen = []
        with pytest.raises(InvalidInput, match="it broke"):
            await keep(found.fails(after=2), seen)
        assert seen == ["0", "1"]
        closings = (await found.closings())[1]
        async for item in found.count(n=10**9):
            if item == "3":
                break
        while (await found.closings())[1] == closings:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return [await asyncio.gather(*(total(found, n) for n in range(20)))]

    async def keep(items, seen):
        async for item in items:
            seen.append(item)

    async def total(found, n):
        return sum([item async for item in found.relayed(n=n)])

    assert run_async(streams, scenario) == [[n * (n - 1) // 2 for n in range(20)]]


def test_an_async_client_that_has_not_asked_yet(streams):
    async def main():
        found = trilith.client(f"http://127.0.0.1:{streams.http}", asynchronous=True)
        assert [item async for item in found.count(n=2)] == ["0", "1"]
        await found.close()
        found = trilith.client(f"http://127.0.0.1:{streams.http}", asynchronous=True)
        assert await found.total([1, 2]) == 3
        await found.close()

    asyncio.run(main())


def test_a_replica_that_dies_midway(serve):
    server = serve(f"{APPS}/streaming.py:Streams")
    with trilith.client(f"http://127.0.0.1:{server.http}") as client:
        found = client.dies(after=2)
        assert [next(found), next(found)] == [0, 1]
        os.kill(next(found), signal.SIGKILL)
        with pytest.raises(ReplicaLost, match="ended after 3 items"):
            next(found)
