"""Takes the compression off request bodies: a few at once, off the loop, and never more than memory is set aside for.

Rule: what a body became is held until its request is over, so it counts until then.
"""

from __future__ import annotations

import asyncio
from typing import Final

from trilith.errors import QueueFull
from trilith.wire.oip_compression import decompressed

_AT_ONCE: Final = 2
_HELD_BODIES: Final = 8
_OFF_LOOP_BYTES: Final = 4096


class Inflation:
    """What all compressed bodies of one front share.

    Args:
        max_body_bytes: the most that one may become. Eight times as much may be held.
    """

    def __init__(self, max_body_bytes: int) -> None:
        self._max_body_bytes = max_body_bytes
        self._gate = asyncio.Semaphore(_AT_ONCE)
        self._held_bytes = 0

    async def inflate(self, body: bytes | memoryview, coding: bytes) -> bytes:
        """The body without its coding; `release` it when its request is over.

        Raises:
            QueueFull: too much is held already.
            InvalidInput: it is not of that coding, or (`PayloadTooLarge`) becomes too long.
        """
        async with self._gate:
            if self._held_bytes >= _HELD_BODIES * self._max_body_bytes:
                raise QueueFull(
                    f"compressed requests in flight hold {self._held_bytes} bytes; try again, or send the body as it is"
                )
            if len(body) < _OFF_LOOP_BYTES:  # even a bomb of this size is a few milliseconds
                inflated = decompressed(body, coding, self._max_body_bytes)
            else:
                inflated = await asyncio.to_thread(decompressed, body, coding, self._max_body_bytes)
        self._held_bytes += len(inflated)
        return inflated

    def release(self, size_bytes: int) -> None:
        """Says that so much is not held any more."""
        self._held_bytes -= size_bytes
