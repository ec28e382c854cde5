"""A service that streams at a given rate."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import trilith


@trilith.service
class Ticks:
    @trilith.api
    async def ticks(self, per_s: float, size: int = 100) -> AsyncIterator[dict[str, str | int]]:
        """Items at a rate, without an end; what its reader is behind with is made up for."""
        text, begun, number = "x" * size, time.monotonic(), 0
        while True:
            yield {"number": number, "text": text}
            number += 1
            ahead_s = begun + number / per_s - time.monotonic()
            if ahead_s > 0.001:
                await asyncio.sleep(ahead_s)
