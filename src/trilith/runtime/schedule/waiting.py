"""Something that waits for a batch, and the lane of those that may share one with it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar


class Waiting:
    """One item of a `DynamicBatcher`. Subclass it to carry what the batch will need: one object a request.

    Attributes:
        rows: how many rows of a batch it takes, at least 1.
        shape: items with equal shapes may share a batch.
        priority: smaller goes first.
        deadline: absolute instant in seconds after which it must not run, or None.
        delay_at: absolute instant in seconds from which it goes behind all others of its priority, or None.
        enqueued_at: instant at which it was added; set by the batcher.
    """

    __slots__ = (
        "_lane",
        "_rank",
        "_ripe",
        "_sequence",
        "deadline",
        "delay_at",
        "enqueued_at",
        "priority",
        "rows",
        "shape",
    )

    def __init__(
        self,
        *,
        rows: int = 1,
        shape: Hashable = None,
        priority: int = 0,
        deadline: float | None = None,
        delay_at: float | None = None,
    ) -> None:
        self.rows = rows
        self.shape = shape
        self.priority = priority
        self.deadline = deadline
        self.delay_at = delay_at
        self.enqueued_at = 0.0
        self._lane: Lane[Waiting] | None = None
        self._rank = 0  # twice the priority, and one more once it is delayed
        self._ripe = False
        self._sequence = 0


ItemT = TypeVar("ItemT", bound=Waiting)


class Lane(Generic[ItemT]):
    """The waiting items of one shape: first in, first out, within each priority; the delayed ones behind the others.

    Ordered dictionaries serve as queues because any item must be removable in O(1).

    Attributes:
        shape: the shape of all its items.
        queues: items by rank: those of a priority, then the delayed ones of that priority.
        ranks: the keys of `queues`, smallest first.
        rows: sum over all items.
        ripe: how many items have waited out the window.
    """

    __slots__ = ("queues", "ranks", "ripe", "rows", "shape")

    def __init__(self, shape: Hashable) -> None:
        self.shape = shape
        self.queues: dict[int, OrderedDict[ItemT, None]] = {}
        self.ranks: list[int] = []
        self.rows = 0
        self.ripe = 0

    def add(self, item: ItemT) -> None:
        """Appends to the queue of the item's rank."""
        queue = self.queues.get(item._rank)
        if queue is None:
            queue = self.queues[item._rank] = OrderedDict()
            self.ranks.append(item._rank)
            self.ranks.sort()
        queue[item] = None
        self.rows += item.rows
        if item._ripe:
            self.ripe += 1

    def remove(self, item: ItemT) -> None:
        """Takes out one item, wherever it stands."""
        queue = self.queues[item._rank]
        del queue[item]
        self.rows -= item.rows
        if item._ripe:
            self.ripe -= 1
        if not queue:
            del self.queues[item._rank]
            self.ranks.remove(item._rank)

    def head(self) -> ItemT | None:
        """The item that goes next: the oldest of the smallest rank."""
        if not self.ranks:
            return None
        return next(iter(self.queues[self.ranks[0]]))
