"""A call with items that a service in a worker makes: its end, for a coroutine that reads and one that sends.

Rule 1: one reader and one sender at a time.
Rule 2: an item counts as taken when its reader has it: who reads slowly holds who makes the items.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from trilith.errors import Bug, TrilithError
from trilith.net.transport import Buffer, CallStream, Item, Peer, Reply, Window
from trilith.wire.calls import FLAG_STREAM, ResultMeta, unpack_result


class LinkStream:
    """One call over the connection to the gateway."""

    def __init__(self, peer: Peer, meta: bytes, buffers: Sequence[Buffer], deadline: float | None) -> None:
        self._peer = peer
        self._items: deque[Item] = deque()
        self._reply: Reply | None = None
        self._failure: BaseException | None = None
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._stream: CallStream = peer.open(
            meta, buffers, self._on_reply, self._on_item, window=Window(), deadline=deadline, flags=FLAG_STREAM
        )
        self._stream.on_writable = self._room.set

    async def item(self) -> Sequence[Buffer] | None:
        """The next item of the method; None: there are no more.

        Raises:
            TrilithError: the call failed.
        """
        while not self._items:
            if self._failure is not None:
                raise self._failure
            if self._reply is not None:
                if not self._reply.ok:
                    raise self._reply.error()
                return None
            self._changed.clear()
            await self._changed.wait()
        item = self._items.popleft()
        self._stream.took(item.size_bytes)
        return item.buffers

    async def put(self, buffers: Sequence[Buffer]) -> None:
        """Sends an item when the method wants one; after the end of the call nothing happens."""
        while not self._stream.writable and not self._stream.closed:
            self._room.clear()
            await self._room.wait()
        self._stream.send(buffers)

    def end(self) -> None:
        """No more items go to the method."""
        self._stream.end()

    def fail(self, error: BaseException) -> None:
        """The items that go to the method broke off."""
        if self._reply is None:
            self._failure = error
            self.cancel()
            self._changed.set()

    @property
    def answer(self) -> tuple[ResultMeta, Sequence[Buffer]]:
        """The answer, after the last item.

        Raises:
            Bug: it is not here.
        """
        if self._reply is None:
            raise Bug("the answer of a stream was asked for before its end")
        return unpack_result(self._reply.meta), self._reply.buffers

    def cancel(self) -> None:
        """Takes the call back, if it has not ended."""
        self._peer.cancel(self._stream.call_id)
        self._room.set()

    def lost(self, error: TrilithError) -> None:
        """The connection has ended."""
        if self._reply is None and self._failure is None:
            self._failure = error
            self._changed.set()
            self._room.set()

    def _on_item(self, item: Item) -> None:
        self._items.append(item)
        self._changed.set()

    def _on_reply(self, reply: Reply) -> None:
        self._reply = reply
        self._changed.set()
        self._room.set()
