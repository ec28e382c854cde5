"""What calls on an event loop give, as far as `await` and `async for` may be mistaken for each other."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator
from typing import Any, NoReturn


class Items(AsyncGenerator[Any, None]):
    """The items of a stream; who awaits them is told how they are taken."""

    def __init__(self, method: str, items: AsyncGenerator[Any, None]) -> None:
        self._method = method
        self._items = items

    def __aiter__(self) -> AsyncGenerator[Any, None]:  # the items themselves: nothing stands between them and a loop
        return self._items

    def __anext__(self) -> Coroutine[Any, Any, Any]:
        return self._items.__anext__()

    def asend(self, value: None) -> Coroutine[Any, Any, Any]:
        """As of any generator."""
        return self._items.asend(value)

    def athrow(self, *error: Any) -> Coroutine[Any, Any, Any]:
        """As of any generator."""
        return self._items.athrow(*error)

    def aclose(self) -> Coroutine[Any, Any, None]:
        """Ends the call."""
        return self._items.aclose()

    def __await__(self) -> NoReturn:
        raise TypeError(f"{self._method} streams: take its items by `async for item in client.{self._method}(...)`")


class LateCall(Awaitable[Any]):
    """A call of a client that does not know yet what its server offers: whether it answers with a value or a stream.

    Awaited where the method answers with a value, iterated where it streams. Nothing is sent before.

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
