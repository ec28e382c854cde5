"""A call with items on its way through a host."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from trilith.core.timeline import FIRST_ITEM, LAST_ITEM
from trilith.errors import DeadlineExceeded
from trilith.service.call import ServiceCall
from trilith.service.codecs.native import Buffer


class ItemPort(Protocol):
    """Where the items of a call go and come from: a `trilith.net.transport.CallStream`, or a test's.

    All of it on the loop's thread. `on_writable` is set by who sends, and called when `writable` became true.
    """

    on_writable: Callable[[], None] | None

    @property
    def writable(self) -> bool:
        """Whether an item may be sent."""
        ...

    def send(self, buffers: Sequence[Buffer], meta: bytes = b"") -> bool:
        """Sends one; whether another may follow now. The buffers are the caller's again when this returns."""
        ...

    def receive(self, on_item: Callable[[Any], None], on_end: Callable[[], None]) -> None:
        """Lets the caller's items come: `meta`, `buffers` and `size_bytes` are theirs."""
        ...

    def took(self, size_bytes: int) -> None:
        """One of that size was used up."""
        ...


class StreamServiceCall(ServiceCall, eq=False, kw_only=True):
    """One call of a streaming method.

    Attributes:
        port: its items.
        limit_s: the method's time limit: to the first item, and between two, either way.
        waits_since: the instant from which on it waits for the method, or for its caller's next item; infinity while
            it waits for its caller to take one.
        awaits_caller: whether the method waits for its caller's next item.
        first_item_at, last_item_at: instants of the method's items, 0.0 before.
        progress: how many items there were, either way.
    """

    port: ItemPort
    limit_s: float = math.inf
    waits_since: float = math.inf
    awaits_caller: bool = False
    first_item_at: float = 0.0
    last_item_at: float = 0.0
    progress: int = 0

    def due_at(self, now: float) -> float | None:
        """The instant at which its time is over, if nothing happens until then."""
        between = self.limit_s + (now if self.waits_since == math.inf else self.waits_since)
        whole = self.context.deadline
        return between if whole is None or between < whole else whole

    def is_over(self) -> bool:
        """Whether nobody waits for items any more: a method, since it changes while a thread looks at it."""
        return self.done

    def waits(self, *, for_caller: bool = False) -> None:
        """Its time runs from now on."""
        if self.awaits_caller:  # what it waited for is here
            self.progress += 1
        self.waits_since = time.monotonic()
        self.awaits_caller = for_caller

    def rests(self) -> None:
        """Its time does not run."""
        self.waits_since = math.inf

    def sent_item(self) -> None:
        """An item is on its way; the time to the next one runs."""
        now = self.waits_since = self.last_item_at = time.monotonic()
        self.progress += 1
        if not self.first_item_at:
            self.first_item_at = now

    def overdue(self, where: str) -> DeadlineExceeded:
        """Why its time is over. `where`: `Ocr.read`."""
        whole = self.context.deadline
        if whole is not None and time.monotonic() >= whole:
            return DeadlineExceeded(
                f"{where} was not done when the time that its caller gave it was over (trilith-timeout-ms, or the limit"
                " of the call that it was made for)"
            )
        who = "its caller sent it no item" if self.awaits_caller else "it gave no item"
        return DeadlineExceeded(
            f"{where}: {who} for {self.limit_s:g} s. The limit is timeout_s of @trilith.api or @trilith.service, which"
            " for a stream is that between two items"
        )

    def stamp_items(self) -> None:
        """Enters its items into its timeline."""
        if self.first_item_at:
            self.context.timeline.mark(FIRST_ITEM, self.first_item_at)
            self.context.timeline.mark(LAST_ITEM, self.last_item_at)
