"""Waiting for what has no event here: it happens in a thread, a process or at the other end of a connection."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

_LIMIT_S = 15.0
_POLL_S = 0.002
_QUIET_S = 0.1


async def until(condition: Callable[[], object]) -> None:
    """Returns when the condition holds."""
    async with asyncio.timeout(_LIMIT_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(_POLL_S)


async def settled(count: Callable[[], int]) -> int:
    """A count that has begun to grow and then stayed the same for a while: how far something came before it stopped."""
    await until(count)
    seen, since = count(), time.monotonic()
    async with asyncio.timeout(_LIMIT_S):
        while time.monotonic() - since < _QUIET_S:
            await asyncio.sleep(_POLL_S)
            if count() != seen:
                seen, since = count(), time.monotonic()
    return seen


def wait_until(condition: Callable[[], object]) -> None:
    """`until` for a thread without a loop."""
    ends_at = time.monotonic() + _LIMIT_S
    while not condition():
        assert time.monotonic() < ends_at, "what the test waits for did not happen"
        time.sleep(_POLL_S)
