"""The way to the client: bytes that were handed over, whether they move, and who waits for room."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from trilith.net.http1.statistics import HttpCounters
from trilith.net.http1.waiting import Listener
from trilith.net.http2_stalls import least_bytes

Buffer = bytes | bytearray | memoryview

_JOIN_BYTES: Final = 16 << 10  # below it, one copied buffer is cheaper than two


class Outbound:
    """Writes to one transport.

    Attributes:
        paused: the client reads too slowly: more than `write_buffer_bytes` wait for it.
    """

    __slots__ = ("_counters", "_flushed_at", "_flushed_bytes", "_sent_bytes", "_transport", "_waiter", "paused")

    def __init__(self, transport: asyncio.Transport, counters: HttpCounters, *, now: float) -> None:
        self._transport = transport
        self._counters = counters
        self._waiter: asyncio.Future[None] | Listener | None = None
        self._sent_bytes = 0
        self._flushed_bytes = 0
        self._flushed_at = now
        self.paused = False

    def write(self, head: bytes, body: Buffer = b"") -> None:
        """Sends `head` and then `body`; a long body is not copied. Does nothing once the transport is closing."""
        if self._transport.is_closing():
            return  # a write has failed, and the loss of the connection is about to be told
        size = len(head) + len(body)
        self._sent_bytes += size
        self._counters.bytes_sent += size
        if not body:
            self._transport.write(head)
        elif size < _JOIN_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))

    def resume(self) -> None:
        """There is room again."""
        self.paused = False
        self.release()

    def release(self) -> None:
        """Wakes who waits for room."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def room(self) -> None:
        """Waits until there is room, or `release`."""
        waiter = self._waiter = asyncio.get_running_loop().create_future()
        await waiter

    def when_room(self, callback: Callable[[], None]) -> None:
        """Calls back once, when there is room, or at `release`."""
        self._waiter = Listener(callback)

    @property
    def unsent(self) -> bool:
        """Whether bytes still wait for the client."""
        return self._transport.get_write_buffer_size() > 0

    @property
    def unsent_bytes(self) -> int:
        """How many bytes wait for the client."""
        return self._transport.get_write_buffer_size()

    def is_moving(self, now: float, timeout_s: float) -> bool:
        """Whether nothing waits, or enough left within the last `timeout_s` seconds. To be asked regularly."""
        waiting = self._transport.get_write_buffer_size()
        flushed = self._sent_bytes - waiting
        if not waiting or flushed - self._flushed_bytes >= least_bytes(waiting, timeout_s):
            self._flushed_bytes = flushed
            self._flushed_at = now
            return True
        return now - self._flushed_at <= timeout_s
