"""A call with items on its way through the gateway: what a front of any protocol makes of a streaming method.

    call = StreamCall(route, meta, buffers, received_at=..., whole_at=..., sink=sink, trace=False)
    router.submit(call)                 then, on the loop's thread and without a task:

    sink.item(call, item)               an item of the method; the sink says `call.passed(item.size_bytes)` when it has
                                        passed it on, and gets no more than the window before that
    sink.answer(call, meta, buffers)    the end of the method's items: of one that only takes items, its result
    sink.fail(call, error)              the failure, before the first item or midway. Nothing follows either of the two
    sink.writable(call)                 `call.writable` became true: the method wants items

    call.send([buffer], meta)           an item to the method, while `call.writable`. `meta`: b"", or the item's own
                                        content type, where it is another than the call's
    call.end()                          no more of them
    router.cancel(call)                 the caller is gone

The call's `meta` says by its content type how the items that go in are written, and by the header `accept` how those
that come out are: see `trilith.service.streams.formats`.

Rule 1: from its first item, either way, a call is never sent again: `repeatable`.
Rule 2: its method's time limit is one between items, either way. The replica keeps it; here it holds until the call is
    sent, and as a second look.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from trilith.core.timeline import FIRST_ITEM, LAST_ITEM, Timeline
from trilith.errors import TrilithError
from trilith.net.transport import Buffer, CallStream, Item, Peer, Reply, Window
from trilith.orchestration.deployments import MethodRoute
from trilith.orchestration.engine.calls import PendingCall, nested_timeline
from trilith.wire.calls import FLAG_STREAM

_SECOND_LOOK_S: Final = 2.0  # the replica says it first, if it can say anything
_WINDOW: Final = Window()


class ItemCounts:
    """How many items the calls of one method had so far: those of the method, and those that it was sent."""

    __slots__ = ("given", "taken")

    def __init__(self) -> None:
        self.given = self.taken = 0


class StreamSink(Protocol):
    """Where the items and the answer of a call go."""

    def item(self, call: StreamCall, item: Item) -> None:
        """Delivers one item of the method."""
        ...

    def writable(self, call: StreamCall) -> None:
        """The method wants items."""
        ...

    def answer(self, call: PendingCall, meta: bytes, buffers: Sequence[Buffer]) -> None:
        """Delivers the end of the items, or the result of a method that only takes some."""
        ...

    def fail(self, call: PendingCall, error: TrilithError) -> None:
        """Delivers an error."""
        ...


class ItemGate:
    """Lets the items of a call pass as its client takes them: one for which it had no room counts when it has again."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[int] = []

    def __bool__(self) -> bool:
        """Whether items wait for room."""
        return bool(self._waiting)

    def wrote(
        self, call: StreamCall, size_bytes: int, *, roomy: bool, when_writable: Callable[[Callable[[], None]], None]
    ) -> None:
        """Notes that an item was written.

        Args:
            call: whose.
            size_bytes: of the item, as its window counts it.
            roomy: whether the client has room for more.
            when_writable: asks to be called back once it has.
        """
        waiting = self._waiting
        if roomy and not waiting:
            call.passed(size_bytes)
            return
        if not waiting:
            when_writable(lambda: self._resumed(call))
        waiting.append(size_bytes)

    def clear(self) -> None:
        """Forgets what waits: the call is over."""
        self._waiting = []

    def _resumed(self, call: StreamCall) -> None:
        waiting, self._waiting = self._waiting, []
        for size_bytes in waiting:
            call.passed(size_bytes)


class StreamCall(PendingCall):
    """A request to a streaming method.

    Attributes:
        whole_at: the instant at which all of it must be over, infinity for none; `deadline` is when to look next.
        items_out, items_in: items of the method, and to it.
        first_item_at, last_item_at: instants of the method's, 0.0 before.
        on_open: called when a replica has the call; again when another one has it.
    """

    __slots__ = (
        "_counts",
        "_ended",
        "_heard_at",
        "_items",
        "_stream",
        "first_item_at",
        "items_in",
        "items_out",
        "last_item_at",
        "on_open",
        "whole_at",
    )

    def __init__(
        self,
        route: MethodRoute,
        meta: bytes,
        buffers: Sequence[Buffer],
        *,
        received_at: float,
        submitted_at: float,
        whole_at: float,
        sink: StreamSink,
        trace: bool,
        revision: int = 0,
    ) -> None:
        super().__init__(
            route,
            meta,
            buffers,
            received_at=received_at,
            submitted_at=submitted_at,
            deadline=min(whole_at, submitted_at + route.timeout_s),
            sink=sink,
            trace=trace,
            revision=revision,
        )
        self.whole_at = whole_at
        self._items = sink
        self._stream: CallStream | None = None
        self._counts: ItemCounts | None = None
        self._ended = False
        self._heard_at = submitted_at
        self.items_out = self.items_in = 0
        self.first_item_at = self.last_item_at = 0.0
        self.on_open: Callable[[], None] | None = None

    # For the front.

    @property
    def writable(self) -> bool:
        """Whether the method wants an item now."""
        return self._stream is not None and self._stream.writable

    def send(self, buffers: Sequence[Buffer], meta: bytes = b"") -> bool:
        """Passes an item to the method; whether another one may follow now.

        Raises:
            Bug: `writable` is false.
            PayloadTooLarge: it is over what a frame carries.
        """
        if self._stream is None or self._stream.closed:
            return False
        more = self._stream.send(buffers, meta)
        self.items_in += 1
        if self._counts is not None:
            self._counts.taken += 1
        self._heard_at = time.monotonic()
        return more

    def end(self) -> None:
        """No more items go to the method."""
        self._ended = True
        if self._stream is not None:
            self._stream.end()

    def passed(self, size_bytes: int) -> None:
        """An item of that size was passed on: another one may come for it."""
        if self._stream is not None:
            self._stream.took(size_bytes)
            self._heard_at = time.monotonic()

    # For the router.

    @property
    def limit_s(self) -> float:
        """The time limit that ends it: that of the whole call once it has passed, else the method's between items."""
        return self.whole_at - self.received_at if time.monotonic() >= self.whole_at else self.route.timeout_s

    @property
    def repeatable(self) -> bool:
        """Whether no item went either way yet."""
        return not (self.items_out or self.items_in)

    def open(self, peer: Peer, on_reply: Callable[[Reply], None], counts: ItemCounts) -> int:
        """Sends the call to a replica; its id there. `counts`: of its method.

        Raises:
            TrilithError: it cannot be sent.
        """
        whole_at = None if self.whole_at == math.inf else self.whole_at
        stream = peer.open(
            self.meta, self.buffers, on_reply, self._on_item, window=_WINDOW, deadline=whole_at, flags=FLAG_STREAM
        )
        self._stream = stream
        self._counts = counts
        self._heard_at = time.monotonic()
        if self._ended:
            stream.end()
        else:
            stream.on_writable = self._on_writable
        if self.on_open is not None:
            self.on_open()
        return stream.call_id

    def due_at(self, now: float) -> float:
        """When the call's time is over as far as is known now, at the earliest: until then nobody looks."""
        if self.link is None:  # it waits for a replica
            return min(self.whole_at, self.submitted_at + self.route.timeout_s)
        caller_is_slow = self._stream is not None and self._stream.held_items
        heard_at = now if caller_is_slow else self._heard_at
        return min(self.whole_at, heard_at + self.route.timeout_s + _SECOND_LOOK_S)

    def timeline(self, nested: Timeline | None) -> Timeline:
        """As of every call, with its first and last item."""
        timeline = super().timeline(nested)
        if self.items_out:
            timeline.mark(FIRST_ITEM, self.first_item_at)
            timeline.mark(LAST_ITEM, self.last_item_at)
            timeline.stamps.sort(key=lambda stamp: stamp[1])
        return timeline

    def took(self, reply: Reply) -> None:
        """As of every call. Its trace is the replica's too, whichever way the answer goes on."""
        super().took(reply)
        if self.span is not None and reply.ok:
            self.span.timeline = self.timeline(nested_timeline(reply.meta))

    def _on_item(self, item: Item) -> None:
        self._heard_at = self.last_item_at = time.monotonic()
        if not self.items_out:
            self.first_item_at = self.last_item_at
        self.items_out += 1
        if self._counts is not None:
            self._counts.given += 1
        if not self.settled:
            self._items.item(self, item)

    def _on_writable(self) -> None:
        if not self.settled:
            self._items.writable(self)
