"""Who waits for a websocket: one for messages, any number for room to send."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from trilith.net.http1.waiting import Listener

_Waiter = asyncio.Future[None] | Listener


class WebSocketWaiters:
    """Futures and callbacks. Whom they lead to is let go at the end (`over`)."""

    __slots__ = ("_loop", "_reader", "_writers")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._reader: _Waiter | None = None
        self._writers: list[_Waiter] = []

    async def for_message(self) -> None:
        """Returns when a message or the end may be here."""
        waiter = self._reader = self._loop.create_future()
        try:
            await waiter
        finally:
            self._reader = None

    def when_message(self, callback: Callable[[], None]) -> None:
        """Calls back whenever messages came, and at the end."""
        self._reader = Listener(callback)

    def tell_message(self) -> None:
        """Messages came."""
        waiter = self._reader
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def for_room(self) -> None:
        """Returns when there is room, or at the end."""
        waiter = self._loop.create_future()
        self._writers.append(waiter)
        await waiter

    def when_room(self, callback: Callable[[], None]) -> None:
        """Calls back once, then."""
        self._writers.append(Listener(callback))

    def tell_room(self) -> None:
        """There is room."""
        waiting, self._writers = self._writers, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def over(self) -> None:
        """Tells everybody for the last time."""
        self.tell_message()
        if isinstance(self._reader, Listener):
            self._reader = None
        self.tell_room()
