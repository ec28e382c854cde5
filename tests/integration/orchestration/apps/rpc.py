"""A service with a `.proto` of its own, one that it depends on, and things that go wrong."""

import asyncio
import dataclasses
import os
import pathlib
import time

import trilith
from trilith import errors


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


@trilith.service(proto="rpc.proto", timeout_s=20)
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
        marks = pathlib.Path(os.environ.get("RPC_MARKS", ""))
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            if marks.name:
                marks.write_text("cancelled")  # noqa: ASYNC240  a few bytes
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
