"""Answers in the order in which their requests came. Pure: it holds outcomes back, and says which may go.

Rule 1: the order is kept within a priority. A request that may overtake others is not made to wait for their answers.
Rule 2: who leaves (taken back, expired) holds up nobody.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")
OutcomeT = TypeVar("OutcomeT")


class ArrivalOrder(Generic[ItemT, OutcomeT]):
    """Holds outcomes until those of all earlier items of the same priority are out. Each step is amortised O(1)."""

    __slots__ = ("_held", "_open")

    def __init__(self) -> None:
        self._open: dict[int, OrderedDict[ItemT, None]] = {}
        self._held: dict[ItemT, OutcomeT] = {}

    def __len__(self) -> int:
        """How many items have come and not gone."""
        return sum(map(len, self._open.values()))

    def enter(self, item: ItemT, priority: int) -> None:
        """Notes that `item` came."""
        self._open.setdefault(priority, OrderedDict())[item] = None

    def finish(self, item: ItemT, priority: int, outcome: OutcomeT) -> list[tuple[ItemT, OutcomeT]]:
        """Notes what became of `item`, and gives what may go now, in order. An item that left is not given."""
        if item not in self._open.get(priority, ()):
            return []
        self._held[item] = outcome
        return self._released(priority)

    def leave(self, item: ItemT, priority: int) -> list[tuple[ItemT, OutcomeT]]:
        """Forgets `item`, and gives what it held up."""
        queue = self._open.get(priority)
        if queue is None or item not in queue:
            return []
        del queue[item]
        self._held.pop(item, None)
        return self._released(priority)

    def _released(self, priority: int) -> list[tuple[ItemT, OutcomeT]]:
        queue = self._open[priority]
        released: list[tuple[ItemT, OutcomeT]] = []
        while queue:
            item = next(iter(queue))
            if item not in self._held:
                break
            del queue[item]
            released.append((item, self._held.pop(item)))
        if not queue:
            del self._open[priority]
        return released
