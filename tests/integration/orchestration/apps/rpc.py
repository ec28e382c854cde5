"""A service with a `.proto` of its own, one that it depends on, and things that go wrong."""

import asyncio
import dataclasses
import os
import pathlib
import time
from collections.abc import AsyncIterator, Iterator

import trilith
from trilith import errors

MARKS = pathlib.Path(os.environ.get("RPC_MARKS", ""))


@trilith.service
class Shout:
    @trilith.api
    async def shout(self, word: str) -> str:
        return word.upper()


@dataclasses.dataclass
class Circumstances:
    request_id: str
    headers: dict[str, str]
    left_s: float


@trilith.service(proto="rpc.proto", rpc="calls.v1.Calls", timeout_s=20)
class Calls:
    shout = trilith.depends(Shout)

    @trilith.api
    async def echo(self, x: list[float]) -> list[float]:
        return x

    @trilith.api
    async def fail(self, word: str) -> str:
        if word == "secret":
            raise ValueError("secret")
        raise errors.error_from_code(word, f"it is {word}")

    @trilith.api
    async def sleep(self, seconds: float) -> str:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            if MARKS.name:
                MARKS.write_text("cancelled")  # noqa: ASYNC240  a few bytes
            raise
        return "slept"

    @trilith.api
    async def who(self, word: str) -> Circumstances:
        context = trilith.context()
        context.set_header("x-room", word)
        context.set_cookie("only", "http")
        return Circumstances(context.request_id, context.headers, context.remaining(time.monotonic()) or 0.0)

    @trilith.api
    async def ask(self, word: str) -> str:
        return await self.shout.shout(word)

    @trilith.api
    async def blob(self, size: int) -> bytes:
        return bytes(size)

    @trilith.api
    async def pid(self, word: str) -> int:
        if word == "die":
            os.kill(os.getpid(), 9)
        return os.getpid()


@trilith.service(proto="rpc.proto", rpc="calls.v1.Streams", timeout_s=20)
class Streams:
    @trilith.api
    async def count(self, size: int) -> AsyncIterator[int]:
        trilith.context().set_header("x-size", str(size))
        for number in range(size):
            yield number

    @trilith.api
    def count_in_thread(self, size: int) -> Iterator[int]:
        yield from range(size)

    @trilith.api
    async def total(self, sizes: AsyncIterator[int]) -> int:
        return sum([size async for size in sizes])

    @trilith.api
    def total_in_thread(self, sizes: Iterator[int]) -> int:
        return sum(sizes)

    @trilith.api
    async def talk(self, words: AsyncIterator[str]) -> AsyncIterator[str]:
        async for word in words:
            yield word.upper()

    @trilith.api
    async def Break(self, word: str) -> AsyncIterator[str]:
        if word == "first":
            raise errors.QueueFull("before the first item")
        yield "one"
        yield "two"
        raise errors.NotFound("midway")

    @trilith.api
    async def forever(self, size: int) -> AsyncIterator[bytes]:
        made = 0
        try:
            while True:
                yield bytes(size)
                made += 1
                MARKS.with_suffix(".made").write_text(str(made))
        finally:
            MARKS.with_suffix(".closed").write_text("closed")
