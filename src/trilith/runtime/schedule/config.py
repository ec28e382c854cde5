"""The numbers that a batcher obeys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trilith.core.plain_numbers import plain_number
from trilith.errors import InvalidConfig
from trilith.runtime.schedule.policy import LONGEST_S


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchingConfig:
    """Limits of one queue and of the batches that leave it. The numbers are upper bounds, never targets to wait for.

    Attributes:
        max_batch_size: most rows in a batch; 1 means that requests run alone.
        preferred_rows: sizes worth dispatching at once while a window is open; a batch is cut to the largest reached.
        max_wait_s: how long an under-full batch may be held for company; 0 dispatches whatever waits.
        max_queue_rows: most rows that wait.
        max_queue_size: most requests that wait; 0 leaves the bound to `max_queue_rows`.
        level_queue_size: most requests of one priority that wait; 0 for no such bound.
        level_queue_sizes: the same for single priorities, instead of `level_queue_size`.
        alone: each item leaves by itself, whatever its rows.

    Raises:
        InvalidConfig: a number is out of its range.
    """

    max_batch_size: int = 1
    preferred_rows: tuple[int, ...] = ()
    max_wait_s: float = 0.0
    max_queue_rows: int = 1024
    max_queue_size: int = 0
    level_queue_size: int = 0
    level_queue_sizes: Mapping[int, int] = field(default_factory=dict)
    alone: bool = False

    def __post_init__(self) -> None:
        if self.max_batch_size < 1:
            raise InvalidConfig(f"batching.max_batch_size: must be >= 1, got {self.max_batch_size}")
        if not 0.0 <= self.max_wait_s <= LONGEST_S:
            most = plain_number(LONGEST_S)
            raise InvalidConfig(f"batching.max_wait_s: must be from 0 to {most}, got {self.max_wait_s}")
        if self.max_queue_rows < self.max_batch_size:
            raise InvalidConfig(
                f"batching.max_queue_rows: must be at least max_batch_size ({self.max_batch_size}), or a full batch "
                f"could never wait; got {self.max_queue_rows}"
            )
        sizes = (self.max_queue_size, self.level_queue_size, *self.level_queue_sizes.values())
        if min(sizes) < 0:
            raise InvalidConfig(f"batching.max_queue_size: must be >= 0, got {min(sizes)}")
        wrong = [size for size in self.preferred_rows if not 1 <= size <= self.max_batch_size]
        if wrong:
            raise InvalidConfig(
                f"batching.preferred_rows: each must be between 1 and max_batch_size ({self.max_batch_size}), "
                f"got {wrong[0]}"
            )
