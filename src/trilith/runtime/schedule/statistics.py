"""What a queue has seen, in numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatistics:
    """A snapshot. Counts never decrease; `added == dispatched + cancelled + expired + cleared + waiting_items`.

    Attributes:
        waiting_items: requests that wait now.
        waiting_rows: their rows.
        lanes: different shapes that wait now.
        added: requests accepted.
        refused: requests refused, because the queue was full or draining.
        dispatched: requests that left in a batch.
        batches: batches formed.
        cancelled: requests taken back while they waited.
        expired: requests whose deadline passed while they waited.
        cleared: requests thrown out by `clear`.
        delayed: requests that waited too long and went behind the others of their priority.
    """

    waiting_items: int
    waiting_rows: int
    lanes: int
    added: int
    refused: int
    dispatched: int
    batches: int
    cancelled: int
    expired: int
    cleared: int
    delayed: int = 0
