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
        enqueued_at: instant at which it was added; set by the batcher.
    """

    __slots__ = ("_lane", "_ripe", "_sequence", "deadline", "enqueued_at", "priority", "rows", "shape")

    def __init__(
        self, *, rows: int = 1, shape: Hashable = None, priority: int = 0, deadline: float | None = None
    ) -> None:
        self.rows = rows
        self.shape = shape
        self.priority = priority
        self.deadline = deadline
        self.enqueued_at = 0.0
        self._lane: Lane[Waiting] | None = None
        self._ripe = False
        self._sequence = 0


ItemT = TypeVar("ItemT", bound=Waiting)


class Lane(Generic[ItemT]):
    """The waiting items of one shape: first in, first out, within each priority.

    Ordered dictionaries serve as queues because any item must be removable in O(1).

    Attributes:
        shape: the shape of all its items.
        queues: items by priority.
        priorities: the keys of `queues`, smallest first.
        rows: sum over all items.
        ripe: how many items have waited out the window.
    """

    __slots__ = ("priorities", "queues", "ripe", "rows", "shape")

    def __init__(self, shape: Hashable) -> None:
        self.shape = shape
        self.queues: dict[int, OrderedDict[ItemT, None]] = {}
        self.priorities: list[int] = []
        self.rows = 0
        self.ripe = 0

    def add(self, item: ItemT) -> None:
        """Appends to the queue of the item's priority."""
        queue = self.queues.get(item.priority)
        if queue is None:
            queue = self.queues[item.priority] = OrderedDict()
            self.priorities.append(item.priority)
            self.priorities.sort()
        queue[item] = None
        self.rows += item.rows

    def remove(self, item: ItemT) -> None:
        """Takes out one item, wherever it stands."""
        queue = self.queues[item.priority]
        del queue[item]
        self.rows -= item.rows
        if item._ripe:
            self.ripe -= 1
        if not queue:
            del self.queues[item.priority]
            self.priorities.remove(item.priority)

    def head(self) -> ItemT | None:
        """The item that goes next: the oldest of the smallest priority."""
        if not self.priorities:
            return None
        return next(iter(self.queues[self.priorities[0]]))
