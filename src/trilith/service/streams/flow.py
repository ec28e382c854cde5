"""Items between a call and a method: for one that runs on the loop, and for one that runs in a thread.

Rule 1: what the caller does not take is not made: the method waits, on the loop or in its thread.
Rule 2: what the method does not ask for does not come: the caller's items are let in when it first asks.
Rule 3: a method in a thread meets the loop at two queues of a bounded length. There is no hop per item: one of the
    loop's turns carries all that lies in a queue.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final

from trilith.errors import Cancelled, TrilithError
from trilith.service.codecs.native import Buffer
from trilith.service.streams.call import StreamServiceCall
from trilith.service.streams.items import Feed, ItemDecoder, RawItem

_QUEUED_ITEMS: Final = 16
_QUEUED_BYTES: Final = 128 * 1024
_GONE: Final = "the caller has gone"


class Outlet:
    """Items of a method on the loop."""

    def __init__(self, call: StreamServiceCall) -> None:
        self._call = call
        self._room: asyncio.Event | None = None

    async def put(self, buffers: Sequence[Buffer], meta: bytes = b"") -> None:
        """Sends one; returns when another may follow."""
        call = self._call
        call.sent_item()
        if not call.port.send(buffers, meta):
            await self.room()

    async def room(self) -> None:
        """Returns when an item may be sent, or nobody waits for one any more."""
        call, port = self._call, self._call.port
        if self._room is None:
            self._room = asyncio.Event()
            port.on_writable = self._room.set
        call.rests()
        while not port.writable and not call.is_over():
            self._room.clear()
            await self._room.wait()
        call.waits()


class Inlet(AsyncIterator[Any]):
    """The caller's items, for a method on the loop."""

    def __init__(self, call: StreamServiceCall, decoder: ItemDecoder) -> None:
        self._call = call
        self._decoder = decoder
        self._feed = Feed(call.meta.content_type)
        self._came: deque[Any] = deque()
        self._raw: deque[RawItem] = deque()
        self._number = 0
        self._open = self._ended = False
        self._waiter: asyncio.Future[None] | None = None

    def __aiter__(self) -> Inlet:
        return self

    async def __anext__(self) -> Any:
        """The next item.

        Raises:
            InvalidInput: it is not what the signature says.
        """
        if not self._open:
            self._open = True
            self._call.port.receive(self._on_item, self._on_end)
        while not self._raw:
            if self._came:
                item = self._came.popleft()
                self._raw.extend(self._feed.push(item.meta, item.buffers))
                self._call.port.took(item.size_bytes)
            elif self._ended:
                self._raw.extend(self._feed.finish())
                if not self._raw:
                    self._call.waits()
                    raise StopAsyncIteration
            else:
                self._call.waits(for_caller=True)
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter
        self._call.waits()
        self._number += 1
        return self._decoder.decode(self._raw.popleft(), self._number)

    def _on_item(self, item: Any) -> None:
        self._came.append(item)
        self._wake()

    def _on_end(self) -> None:
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class ThreadOutlet:
    """Items of a method in a thread."""

    def __init__(self, call: StreamServiceCall, loop: asyncio.AbstractEventLoop) -> None:
        self._call = call
        self._loop = loop
        self._changed = threading.Condition()
        self._queue: deque[tuple[Sequence[Buffer], bytes]] = deque()
        self._queued_bytes = 0
        self._scheduled = False
        self._drained = asyncio.Event()
        self._failure: TrilithError | None = None
        call.port.on_writable = self._pass_on

    def put(self, buffers: Sequence[Buffer], meta: bytes = b"") -> bool:
        """Sends one, from the thread; waits until another may follow. False: nobody waits for them any more.

        Raises:
            TrilithError: one that was put before could not be sent.
        """
        own = [buffer if isinstance(buffer, bytes) else bytes(buffer) for buffer in buffers]
        call = self._call
        with self._changed:
            self._queue.append((own, meta))
            self._queued_bytes += sum(map(len, own))
            call.sent_item()
            if not self._scheduled:
                self._scheduled = True
                self._loop.call_soon_threadsafe(self._pass_on)
            while self._is_full() and not call.is_over():
                call.rests()
                self._changed.wait()
            call.waits()
        if self._failure is not None:
            raise self._failure
        return not call.is_over()

    def _is_full(self) -> bool:
        return len(self._queue) >= _QUEUED_ITEMS or self._queued_bytes >= _QUEUED_BYTES

    def _pass_on(self) -> None:
        """On the loop: sends what may be sent."""
        port = self._call.port
        with self._changed:
            self._scheduled = False
            while self._queue and port.writable:
                buffers, meta = self._queue.popleft()
                self._queued_bytes -= sum(map(len, buffers))
                try:
                    port.send(buffers, meta)
                except TrilithError as error:  # too large for a frame
                    self._failure = error
                    self._queue.clear()
                    self._queued_bytes = 0
            if not self._queue:
                self._drained.set()
            else:
                self._scheduled = True  # `on_writable` comes back for it
            self._changed.notify()

    async def drained(self) -> None:
        """On the loop: returns when all was sent, or nobody waits for it any more.

        Raises:
            TrilithError: one could not be sent.
        """
        while self._queue and not self._call.is_over():
            self._call.rests()
            self._drained.clear()
            self._pass_on()
            if self._queue:
                await self._drained.wait()
        if self._failure is not None:
            raise self._failure

    def wake(self) -> None:
        """On the loop: the call was given up; whoever waits looks again."""
        with self._changed:
            self._changed.notify_all()
        self._drained.set()


class ThreadInlet(Iterator[Any]):
    """The caller's items, for a method in a thread."""

    def __init__(self, call: StreamServiceCall, decoder: ItemDecoder, loop: asyncio.AbstractEventLoop) -> None:
        self._call = call
        self._decoder = decoder
        self._loop = loop
        self._feed = Feed(call.meta.content_type)
        self._changed = threading.Condition()
        self._came: deque[Any] = deque()
        self._raw: deque[RawItem] = deque()
        self._number = 0
        self._open = self._ended = False

    def __iter__(self) -> ThreadInlet:
        return self

    def __next__(self) -> Any:
        """The next item; waits for it.

        Raises:
            InvalidInput: it is not what the signature says.
            Cancelled: the caller has gone.
        """
        if not self._open:
            self._open = True
            self._loop.call_soon_threadsafe(self._receive)
        while not self._raw:
            with self._changed:
                self._call.waits(for_caller=True)
                while not (self._came or self._ended or self._call.is_over()):
                    self._changed.wait()
                if self._call.is_over():
                    raise _gone()
                came = list(self._came)
                self._came.clear()
            if came:
                for item in came:
                    self._raw.extend(self._feed.push(item.meta, item.buffers))
                self._loop.call_soon_threadsafe(self._took, [item.size_bytes for item in came])
            else:
                self._raw.extend(self._feed.finish())
                if not self._raw:
                    self._call.waits()
                    raise StopIteration
        self._call.waits()
        self._number += 1
        return self._decoder.decode(self._raw.popleft(), self._number)

    def _receive(self) -> None:
        self._call.port.receive(self._on_item, self._on_end)

    def _took(self, sizes: list[int]) -> None:
        for size_bytes in sizes:
            self._call.port.took(size_bytes)

    def _on_item(self, item: Any) -> None:
        with self._changed:
            self._came.append(item)
            self._changed.notify()

    def _on_end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify()

    def wake(self) -> None:
        """On the loop: the call was given up; whoever waits looks again."""
        with self._changed:
            self._changed.notify_all()


def _gone() -> TrilithError:
    return Cancelled(_GONE)
