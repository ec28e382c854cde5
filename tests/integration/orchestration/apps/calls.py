"""Services that the tests of the local engine serve."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import trilith
from trilith.errors import InvalidInput, QueueFull


class HouseRule(InvalidInput):
    """A user's own kind of wrong input."""

    code = "house_rule"


@trilith.service(replicas=2)
class Doubler:
    @trilith.api(batch=trilith.Batch(max_size=8), idempotent=True)
    async def double(self, values: list[float]) -> list[float]:
        await asyncio.sleep(0.01)
        return [ValueError("thirteen is refused") if value == 13.0 else 2 * value for value in values]


@trilith.service
class Calls:
    """Everything that can go right or wrong, one method each."""

    doubler = trilith.depends(Doubler)

    @trilith.api
    async def echo(self, x: list[float]) -> list[float]:
        return x

    @trilith.api
    async def doubled(self, x: list[float]) -> list[float]:
        return list(await asyncio.gather(*(self.doubler.double(value) for value in x)))

    @trilith.api
    def doubled_in_thread(self, x: float) -> float:
        return self.doubler.double(x)

    @trilith.api
    async def process_id(self) -> int:
        return os.getpid()

    @trilith.api(idempotent=True)
    async def slow(self, seconds: float) -> int:
        await asyncio.sleep(seconds)
        return os.getpid()

    @trilith.api
    async def slow_once(self, seconds: float) -> int:
        await asyncio.sleep(seconds)
        return os.getpid()

    @trilith.api(timeout_s=0.3)
    async def never(self) -> int:
        await asyncio.Event().wait()
        return 0

    @trilith.api(timeout_s=0.3)
    def blocked_thread(self, seconds: float) -> int:
        time.sleep(seconds)
        return 1

    @trilith.api
    async def leaves_a_mark(self, path: str, seconds: float) -> int:
        """Writes `cancelled` into a file when it is cancelled."""
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            Path(path).write_text("cancelled")  # noqa: ASYNC240  a few bytes, and the test looks for them
            raise
        return 0

    @trilith.api
    async def raises(self) -> int:
        raise ValueError("a secret of the house")

    @trilith.api
    async def full(self) -> int:
        raise QueueFull("the house is full", retry_after_s=17.0)

    @trilith.api
    async def own_error(self) -> int:
        raise HouseRule("no shoes inside")

    @trilith.api
    async def dies(self) -> int:
        os._exit(7)

    @trilith.api
    async def size(self, body: bytes, /) -> int:
        return len(body)

    @trilith.api
    async def blob(self, size: int) -> bytes:
        return b"x" * size
