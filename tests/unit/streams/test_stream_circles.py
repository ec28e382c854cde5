"""What is made for a stream is freed when it has ended, however it ended: nothing waits for the collector."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator

import pytest

import trilith
from memory_circles import no_circles
from trilith.errors import Cancelled, TrilithError
from trilith.net.transport import Window


@trilith.service
class Streams:
    @trilith.api
    async def count(self, n: int) -> AsyncIterator[int]:
        for number in range(n):
            yield number

    @trilith.api
    def plain(self, n: int) -> Iterator[int]:
        yield from range(n)

    @trilith.api
    async def doubled(self, numbers: AsyncIterator[int]) -> AsyncIterator[int]:
        async for number in numbers:
            yield 2 * number

    @trilith.api
    def plainly_doubled(self, numbers: Iterator[int]) -> Iterator[int]:
        for number in numbers:
            yield 2 * number


async def failure(answer):
    try:
        await answer
    except TrilithError as error:
        return error


@pytest.mark.parametrize("method", ["count", "plain", "doubled", "plainly_doubled"])
@pytest.mark.parametrize("way", ["ended", "cancelled"])
def test_nothing_of_a_call_waits_for_the_collector(stream, method, way):
    taken = method.endswith("doubled")

    async def once(hosted):
        n = 3 if way != "cancelled" else 10**9
        body = json.dumps({"n": n}).encode()
        call = hosted.start(method, body, "application/jsonl" if taken else "application/json", window=Window(items=2))
        if taken:
            call.port.give(b"1\n2\n3\n")
        if taken and way != "cancelled":
            call.port.end()
        if way == "cancelled":
            await call.items(1)
            call.call.cancel()
        else:
            await call.rest()
        await hosted.idle()
        call.port.on_writable = None  # as a connection's stream has it when it is closed
        call.port._on_item = call.port._on_end = None
        error = await failure(call.answer)
        assert isinstance(error, {"ended": type(None), "cancelled": Cancelled}[way])
        if error is not None:
            error.__traceback__ = None  # its frames know the call, and the call knows the test's future

    async def scenario(hosted):
        await once(hosted)  # what is made once is made
        with no_circles():
            await once(hosted)
            await asyncio.sleep(0)

    stream(Streams, scenario)
