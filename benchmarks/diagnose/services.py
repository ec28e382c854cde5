"""Services that each have one known bottleneck. `DIAGNOSE_VALUE` is what was changed; without it each is as it is bad.

What can wait instead of compute does wait: a wait takes as long on a busy machine as on a quiet one.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import trilith

VALUE = os.environ.get("DIAGNOSE_VALUE", "")
NUMBER = int(VALUE) if VALUE.isdecimal() else 0


@trilith.service
class WindowTooLong:
    @trilith.api(batch=trilith.Batch(max_size=64, max_wait_ms=0 if VALUE else 60))
    def run(self, x: list[float]) -> list[float]:
        time.sleep(0.010)
        return x


@trilith.service(threads=4, replicas=NUMBER or 1)
class HeldByTheLock:
    @trilith.api
    def run(self, x: float) -> float:
        """Pre-processing in pure Python."""
        for _ in range(60_000):
            x = (x * 31 + 7) % 1000
        return x


@trilith.service(threads=4)
class LargeJson:
    @trilith.api
    def run(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        time.sleep(0.002)
        return x


if VALUE:

    @trilith.service(threads=NUMBER or 8)
    class BlockingAsync:
        @trilith.api
        def run(self, x: float) -> float:
            time.sleep(0.020)
            return x

else:

    @trilith.service  # type: ignore[no-redef]
    class BlockingAsync:
        @trilith.api
        async def run(self, x: float) -> float:
            time.sleep(0.020)  # noqa: ASYNC251  the mistake that this service is about
            return x


@trilith.service
class Child:
    @trilith.api
    async def run(self, x: float) -> float:
        await asyncio.sleep(0.015)
        return x


@trilith.service
class SerialCalls:
    child = trilith.depends(Child)

    @trilith.api
    async def run(self, x: float) -> float:
        if VALUE:
            return sum(await asyncio.gather(*(self.child.run(x) for _ in range(4))))
        return sum([await self.child.run(x) for _ in range(4)])


@trilith.service(threads=1, replicas=2)
class HotReplica:
    def __init__(self) -> None:
        self.seconds = 0.015
        if not VALUE:
            try:
                Path(os.environ["DIAGNOSE_FOLDER"], "hot").touch(exist_ok=False)
                self.seconds = 0.090
            except FileExistsError:
                self.seconds = 0.015

    @trilith.api
    def run(self, x: float) -> float:
        time.sleep(self.seconds)
        return x


@trilith.service(threads=1, replicas=NUMBER or 1)
class TooFewReplicas:
    @trilith.api
    def run(self, x: float) -> float:
        time.sleep(0.020)
        return x


@trilith.service
class Room:
    @trilith.api
    async def run(self, x: float) -> float:
        await asyncio.sleep(0.020)
        return x
