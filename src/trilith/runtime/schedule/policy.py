"""What happens to a request that waits too long, or beside too many. Values only."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from trilith.core.plain_numbers import plain_number
from trilith.errors import InvalidConfig

LONGEST_S: Final = 365 * 86_400.0
"""The longest that anything may be told to wait, in seconds: a year. Timers hold no number that one can write."""


class TimeoutAction(enum.StrEnum):
    """What becomes of a request whose time in the queue ran out; the words are Triton's."""

    REJECT = "REJECT"
    DELAY = "DELAY"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePolicy:
    """How the requests of one priority wait; Triton's `ModelQueuePolicy`.

    Attributes:
        timeout_s: how long a request may wait, in seconds; None for as long as it takes.
        timeout_action: REJECT answers it with an error at that instant; DELAY lets it wait on, behind all others of its
            priority.
        allow_timeout_override: whether a request may shorten `timeout_s` by one of its own. It can never lengthen it.
        max_queue_size: most requests of one priority that wait; 0 for no such bound.
    """

    timeout_s: float | None = None
    timeout_action: TimeoutAction = TimeoutAction.REJECT
    allow_timeout_override: bool = True
    max_queue_size: int = 0

    def __post_init__(self) -> None:
        if self.timeout_s is not None and not 0.0 < self.timeout_s <= LONGEST_S:
            most = plain_number(LONGEST_S)
            raise InvalidConfig(f"queue policy: timeout: must be > 0 and <= {most} s, got {self.timeout_s} s")
        if self.max_queue_size < 0:
            raise InvalidConfig(f"queue policy: max_queue_size: must be >= 0, got {self.max_queue_size}")

    def waits_at_most(self, asked_us: int) -> float | None:
        """How long a request may wait that asks for `asked_us` (microseconds, 0 for nothing), in seconds or None."""
        if asked_us <= 0 or not self.allow_timeout_override:
            return self.timeout_s
        asked_s = asked_us / 1e6
        return asked_s if self.timeout_s is None else min(asked_s, self.timeout_s)
