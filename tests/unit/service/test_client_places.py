"""Places of a client: as many as there are, in threads and on loops, in the order of those who wait."""

from __future__ import annotations

import asyncio
import threading

import pytest

from trilith.errors import DeadlineExceeded, InvalidConfig
from trilith.service.client.heads import checked_headers
from trilith.service.client.places import Places


def test_those_who_wait_on_a_loop_come_in_their_order_and_one_that_leaves_is_passed_over():
    async def main():
        places = Places("http://x", 1)
        await places.take_on_loop(None)
        came = []

        async def use(name):
            await places.take_on_loop(None)
            came.append(name)
            places.free()

        tasks = [asyncio.create_task(use(name)) for name in "abcd"]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.sleep(0)
        places.free()
        await asyncio.gather(*tasks, return_exceptions=True)
        await places.take_on_loop(0.001)  # it is free again
        return came

    assert asyncio.run(main()) == ["a", "c", "d"]


def test_one_that_leaves_when_its_turn_has_come_gives_it_back():
    async def main():
        places = Places("http://x", 1)
        await places.take_on_loop(None)
        waiting = asyncio.create_task(places.take_on_loop(None))
        await asyncio.sleep(0)
        places.free()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await places.take_on_loop(1)

    asyncio.run(main())


def test_there_is_a_limit_in_threads_and_on_loops():
    places = Places("http://x", 1)
    with places.held(None):
        with pytest.raises(DeadlineExceeded, match="no connection to http://x was free"):
            places.take(0.001)
        with pytest.raises(DeadlineExceeded, match="no connection to http://x was free"):
            asyncio.run(places.take_on_loop(0.001))
    with places.held(0.001):
        pass


def test_threads_share_them():
    places, lock, under_way, most = Places("http://x", 2), threading.Lock(), [0], [0]

    def use():
        for _ in range(50):
            with places.held(20):
                with lock:
                    under_way[0] += 1
                    most[0] = max(most[0], under_way[0])
                with lock:
                    under_way[0] -= 1

    threads = [threading.Thread(target=use) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert 1 <= most[0] <= 2
    assert under_way == [0]


@pytest.mark.parametrize(
    "headers", [{"x": "a\r\ny: b"}, {"x y": "a"}, {"content-length": "3"}, {"x": 1}, ["x"], "x: y"]
)
def test_headers_that_http_does_not_allow_are_refused_by_every_client(headers):
    import trilith
    from trilith.service.client import hosted_methods, remote_methods

    @trilith.service
    class Small:
        @trilith.api
        def one(self) -> int:
            return 1

    url = "http://127.0.0.1:1"
    makes = (
        lambda: checked_headers(headers),
        lambda: trilith.client(url, headers=headers),
        lambda: trilith.client(url, headers=headers, asynchronous=True),
        lambda: trilith.client(url, headers=headers, websockets=True),
        lambda: remote_methods(url, headers=headers),
        lambda: hosted_methods(Small, headers=headers),
    )
    for make in makes:
        with pytest.raises(InvalidConfig, match="headers: "):
            make()
