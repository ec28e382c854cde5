"""A service whose methods stream, and one that it streams from."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import trilith
from trilith.errors import InvalidInput


def die_once(marker: str) -> None:
    if not Path(marker).exists():
        Path(marker).mkdir()
        os.kill(os.getpid(), signal.SIGKILL)


@trilith.service
class Numbers:
    def __init__(self) -> None:
        self.closed = 0

    @trilith.api
    async def up_to(self, n: int) -> AsyncIterator[int]:
        try:
            for number in range(n):
                yield number
                await asyncio.sleep(0)
        finally:
            self.closed += 1

    @trilith.api
    async def total(self, numbers: AsyncIterator[int], start: int = 0) -> int:
        async for number in numbers:
            start += number
        return start

    @trilith.api
    def halves(self, numbers: Iterator[int]) -> Iterator[float]:
        for number in numbers:
            yield number / 2

    @trilith.api
    async def failing(self, after: int) -> AsyncIterator[int]:
        for number in range(after):
            yield number
        raise InvalidInput("refused")

    @trilith.api
    async def closings(self) -> int:
        return self.closed


@trilith.service(threads=8, concurrency=64)
class Streams:
    numbers = trilith.depends(Numbers)

    def __init__(self) -> None:
        self.made = 0
        self.closed = 0

    @trilith.api
    async def count(self, n: int, size: int = 0) -> AsyncIterator[str]:
        try:
            for number in range(n):
                self.made += 1
                yield f"{number}" + "x" * size
                await asyncio.sleep(0)
        finally:
            self.closed += 1

    @trilith.api
    def plain(self, n: int) -> Iterator[int]:
        try:
            yield from range(n)
        finally:
            self.closed += 1

    @trilith.api
    async def chunks(self, n: int, size: int) -> AsyncIterator[bytes]:
        for number in range(n):
            yield bytes([number % 256]) * size

    @trilith.api
    async def fails(self, after: int) -> AsyncIterator[str]:
        for number in range(after):
            yield str(number)
        raise InvalidInput("it broke")

    @trilith.api
    async def dies(self, after: int) -> AsyncIterator[int]:
        for number in range(after):
            yield number
            await asyncio.sleep(0.01)
        yield os.getpid()
        await asyncio.sleep(60)

    @trilith.api(timeout_s=0.3)
    async def silent(self) -> AsyncIterator[int]:
        yield 1
        await asyncio.sleep(60)

    @trilith.api(timeout_s=0.3)
    def blocked(self) -> Iterator[int]:
        yield 1
        time.sleep(1.0)
        self.closed += 1
        yield 2

    @trilith.api
    async def slow(self, wait_s: float) -> AsyncIterator[int]:
        yield 1
        await asyncio.sleep(wait_s)
        yield 2

    @trilith.api
    async def doubled(self, numbers: AsyncIterator[int], by: int = 2) -> AsyncIterator[int]:
        async for number in numbers:
            yield by * number

    @trilith.api
    def total(self, numbers: Iterator[int]) -> int:
        return sum(numbers)

    @trilith.api
    async def sizes(self, parts: AsyncIterator[bytes]) -> int:
        return sum([len(part) async for part in parts])

    @trilith.api
    async def first_of(self, parts: AsyncIterator[bytes], wait_s: float) -> AsyncIterator[int]:
        async for part in parts:
            yield len(part)
            await asyncio.sleep(wait_s)

    @trilith.api
    async def relayed(self, n: int, stop: int = -1) -> AsyncIterator[int]:
        async for number in self.numbers.up_to(n):
            if number == stop:
                return
            yield number

    @trilith.api
    async def relayed_failure(self, after: int) -> AsyncIterator[int]:
        async for number in self.numbers.failing(after):
            yield number

    @trilith.api(idempotent=True)
    async def again(self, marker: str) -> AsyncIterator[int]:
        die_once(marker)
        yield 1

    @trilith.api
    async def never_again(self, marker: str) -> AsyncIterator[int]:
        die_once(marker)
        yield 1

    @trilith.api
    def relayed_plainly(self, n: int) -> Iterator[float]:
        yield from self.numbers.halves(iter(range(n)))

    @trilith.api
    async def totalled(self, n: int) -> int:
        return await self.numbers.total((number for number in range(n)), start=1)

    @trilith.api
    async def closings(self) -> list[int]:
        return [self.made, self.closed, await self.numbers.closings()]
