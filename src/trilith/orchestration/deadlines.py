"""Deadlines of many calls, kept in buckets. Pure: `now` is an argument.

Rule: adding and removing are one dictionary operation each, since nearly every call is answered long before its
deadline. The price is granularity: a call expires up to `granularity_s` after its deadline, never before it.

The idea is the simple hashed timing wheel (G. Varghese and T. Lauck, 1987), with a dictionary for the wheel.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class DeadlineWheel(Generic[K]):
    """Which keys have passed their deadline."""

    def __init__(self, granularity_s: float = 0.02) -> None:
        self._granularity_s = granularity_s
        self._buckets: dict[int, dict[K, None]] = {}
        self._hand: int | None = None  # no bucket below this number holds anything

    def add(self, key: K, deadline: float) -> None:
        """Watches `key` until `deadline` (seconds)."""
        number = int(deadline / self._granularity_s)
        bucket = self._buckets.get(number)
        if bucket is None:
            self._buckets[number] = {key: None}
            if self._hand is None or number < self._hand:
                self._hand = number
        else:
            bucket[key] = None

    def discard(self, key: K, deadline: float) -> None:
        """Stops watching `key`; `deadline` is what it was added with. Unknown keys are ignored."""
        number = int(deadline / self._granularity_s)
        bucket = self._buckets.get(number)
        if bucket is not None:
            bucket.pop(key, None)
            if not bucket:
                del self._buckets[number]

    def expired(self, now: float) -> list[K]:
        """Removes and returns the keys whose deadline has passed, earliest bucket first."""
        if self._hand is None:
            return []
        current = int(now / self._granularity_s)
        if not self._buckets:
            self._hand = None
            return []
        if current - self._hand > len(self._buckets):
            due = sorted(number for number in self._buckets if number < current)
        else:
            due = [number for number in range(self._hand, current) if number in self._buckets]
        self._hand = max(self._hand, current)
        return [key for number in due for key in self._buckets.pop(number)]

    def next_at(self) -> float | None:
        """When `expired` has something to return at the earliest (seconds), or None: nothing is watched."""
        return None if not self._buckets else (min(self._buckets) + 1) * self._granularity_s

    def __len__(self) -> int:
        return sum(len(bucket) for bucket in self._buckets.values())
