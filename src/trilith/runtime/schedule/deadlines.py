"""Which of many items is due next: a heap of instants, beside a table of the items that still matter.

Rule 1: an item that is forgotten is let go at once, whatever it holds; only its instant stays for a while.
Rule 2: most items end long before their deadline. The instants of the forgotten are swept out when they outnumber those
    of the others, which keeps every operation amortised O(log n).
"""

from __future__ import annotations

import heapq
from typing import Final, Generic, TypeVar

_SWEEP_SLACK: Final = 64  # instants of forgotten items that are never worth a sweep

DueT = TypeVar("DueT")


class DeadlineHeap(Generic[DueT]):
    """Items by deadline. Pure: `now` is an argument."""

    __slots__ = ("_heap", "_items")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []
        self._items: dict[int, DueT] = {}

    def __len__(self) -> int:
        """How many instants are kept, those of the forgotten among them."""
        return len(self._heap)

    def push(self, deadline: float, sequence: int, item: DueT) -> None:
        """Adds an item. `sequence` is its name here, used once, and orders equal deadlines."""
        self._items[sequence] = item
        heapq.heappush(self._heap, (deadline, sequence))

    def forget(self, sequence: int) -> None:
        """The item of that name does not matter any more. What is not here is ignored."""
        self._items.pop(sequence, None)
        if len(self._heap) > 2 * len(self._items) + _SWEEP_SLACK:
            self._heap = [entry for entry in self._heap if entry[1] in self._items]
            heapq.heapify(self._heap)

    def next_deadline(self) -> float | None:
        """The earliest deadline of an item, or None."""
        heap = self._heap
        while heap and heap[0][1] not in self._items:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def pop_due(self, now: float) -> DueT | None:
        """Takes out the item whose deadline is the earliest, if that is not after `now`; None when there is none."""
        while self._heap and self._heap[0][0] <= now:
            _, sequence = heapq.heappop(self._heap)
            item = self._items.pop(sequence, None)
            if item is not None:
                return item
        return None
