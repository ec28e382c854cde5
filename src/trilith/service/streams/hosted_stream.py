"""A call with items within one process: the method's side of it, and the caller's. All of it on one loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from trilith.errors import Bug, TrilithError
from trilith.service.call import Outcome, ServiceCall
from trilith.service.codecs.native import Buffer
from trilith.wire.calls import ResultMeta

_MOST_WAITING: Final = 16
_MOST_UNUSED_BYTES: Final = 1 << 20


class _Item(NamedTuple):
    """One that the caller sends, as the method's side takes it."""

    meta: bytes
    buffers: Sequence[Buffer]
    size_bytes: int


class HostedStream:
    """The items of one call, either way.

    Attributes:
        call: the call, once it is made: `cancel` takes it back.
        on_writable: set by the method's side, called when it may send again.
        said: what the method's first item had beside it: what the method has said of its answer; b"" for nothing.
    """

    def __init__(self) -> None:
        self.call: ServiceCall | None = None
        self.on_writable: Callable[[], None] | None = None
        self.said = b""
        self._waiting: deque[Sequence[Buffer]] = deque()
        self._arrived = asyncio.Event()
        self._outcome: tuple[Outcome, Sequence[Buffer]] | None = None
        self._given: deque[_Item] = deque()
        self._given_ended = False
        self._on_item: Callable[[Any], None] | None = None
        self._on_end: Callable[[], None] | None = None
        self._unused_bytes = 0
        self._used = asyncio.Event()

    # The method's side: a port

    @property
    def writable(self) -> bool:
        """Whether the method may send an item."""
        return len(self._waiting) < _MOST_WAITING

    def send(self, buffers: Sequence[Buffer], meta: bytes = b"") -> bool:
        """The method sends an item."""
        self.said = self.said or meta
        self._waiting.append([bytes(buffer) for buffer in buffers])
        self._arrived.set()
        return self.writable

    def receive(self, on_item: Callable[[Any], None], on_end: Callable[[], None]) -> None:
        """The method lets its caller's items come."""
        self._on_item, self._on_end = on_item, on_end
        while self._given:
            on_item(self._given.popleft())
        if self._given_ended:
            on_end()

    def took(self, size_bytes: int) -> None:
        """The method has used up an item."""
        self._unused_bytes -= size_bytes
        self._used.set()

    def finished(self, outcome: Outcome, buffers: Sequence[Buffer]) -> None:
        """The call is answered."""
        self._outcome = outcome, buffers
        self._arrived.set()
        self._used.set()

    # The caller's side

    async def item(self) -> Sequence[Buffer] | None:
        """The method's next item; None: there are no more. Raises TrilithError when the call failed."""
        while not self._waiting:
            if self._outcome is not None:
                if isinstance(self._outcome[0], TrilithError):
                    raise self._outcome[0]
                return None
            self._arrived.clear()
            await self._arrived.wait()
        full = not self.writable
        found = self._waiting.popleft()
        if full and self.on_writable is not None:
            self.on_writable()
        return found

    async def put(self, buffers: Sequence[Buffer], meta: bytes = b"") -> None:
        """Sends the method an item; returns when it wants another one, or none any more."""
        size_bytes = sum(memoryview(buffer).nbytes for buffer in buffers)
        self._unused_bytes += size_bytes
        item = _Item(meta, buffers, size_bytes)
        if self._on_item is None:
            self._given.append(item)
        else:
            self._on_item(item)
        while self._unused_bytes > _MOST_UNUSED_BYTES and self._outcome is None:
            self._used.clear()
            await self._used.wait()

    def end(self) -> None:
        """No more items go to the method."""
        self._given_ended = True
        if self._on_end is not None:
            self._on_end()

    def fail(self, error: BaseException) -> None:
        """The items that go to the method broke off."""
        found = error if isinstance(error, TrilithError) else Bug(f"the items of a call broke off: {error!r}")
        if self.call is not None:
            self.call.cancel(found)

    @property
    def answer(self) -> tuple[ResultMeta, Sequence[Buffer]]:
        """The answer's envelope and buffers, after the last item."""
        if self._outcome is None:
            raise Bug("a call was asked for its answer before it had one")
        outcome, buffers = self._outcome
        if isinstance(outcome, TrilithError):
            raise outcome
        return outcome, buffers

    def cancel(self) -> None:
        """Takes the call back, if it has not ended."""
        if self.call is not None:
            self.call.cancel()
