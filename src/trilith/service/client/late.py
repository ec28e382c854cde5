"""A call of a client that does not know yet what its server offers: whether the answer is one value or a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import Any


class LateCall(Awaitable[Any]):
    """Awaited where the method answers with a value, iterated where it streams. Nothing is sent before.

    Args:
        find: asks what there is, and calls it: what is to be awaited or iterated.
    """

    def __init__(self, find: Callable[[], Awaitable[Any]]) -> None:
        self._find = find

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._value().__await__()

    async def _value(self) -> Any:
        return await (await self._find())

    async def __aiter__(self) -> AsyncIterator[Any]:
        items = await self._find()
        try:
            async for item in items:
                yield item
        finally:
            await items.aclose()
