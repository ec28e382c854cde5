"""Which of many items is due next: a heap whose dead entries are recognised when they surface.

Most items end long before their deadline. Without sweeping, a heap would keep all of them until it passes; so the
dead are swept out when they outnumber the living, which keeps every operation amortised O(log n).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final, Generic, TypeVar

_SWEEP_SLACK: Final = 64  # dead entries that are never worth a sweep

DueT = TypeVar("DueT")


class DeadlineHeap(Generic[DueT]):
    """Items by deadline. Pure: `now` is an argument.

    Args:
        is_alive: whether the item that was pushed with this sequence number still matters.
    """

    __slots__ = ("_alive", "_heap", "_is_alive")

    def __init__(self, is_alive: Callable[[DueT, int], bool]) -> None:
        self._is_alive = is_alive
        self._heap: list[tuple[float, int, DueT]] = []
        self._alive = 0

    def __len__(self) -> int:
        """How many entries are kept, the dead among them."""
        return len(self._heap)

    def push(self, deadline: float, sequence: int, item: DueT) -> None:
        """Adds a living item. `sequence` must be unique: it orders equal deadlines."""
        self._alive += 1
        heapq.heappush(self._heap, (deadline, sequence, item))

    def forget_one(self) -> None:
        """Says that one pushed item is dead now."""
        self._alive -= 1
        if len(self._heap) > 2 * self._alive + _SWEEP_SLACK:
            self._heap = [entry for entry in self._heap if self._is_alive(entry[2], entry[1])]
            heapq.heapify(self._heap)

    def next_deadline(self) -> float | None:
        """The earliest deadline of a living item, or None."""
        heap = self._heap
        while heap and not self._is_alive(heap[0][2], heap[0][1]):
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def pop_due(self, now: float) -> DueT | None:
        """Takes out a living item whose deadline is not after `now`; None when there is none.

        The caller then makes it dead and calls `forget_one`.
        """
        while self._heap and self._heap[0][0] <= now:
            _, sequence, item = heapq.heappop(self._heap)
            if self._is_alive(item, sequence):
                return item
        return None
