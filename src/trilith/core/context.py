"""What travels beside the values of a call: who asks, until when, and where the time goes."""

from __future__ import annotations

import contextvars
from typing import Final

import msgspec

from trilith.core.timeline import Timeline


class Context(msgspec.Struct, eq=False, kw_only=True):  # a Struct is made in a third of the time: one a call
    """The circumstances of one call. Created at the edge, handed down, never shared between calls.

    Attributes:
        request_id: text that appears in answers, errors and logs.
        deadline: absolute instant in seconds on the machine's monotonic clock, or None for no limit.
        timeline: stamps of this call; calls made on its behalf hang under it as children.
        headers: the caller's request headers that services may read; keys in lower case.
    """

    request_id: str
    timeline: Timeline
    deadline: float | None = None
    headers: dict[str, str] = {}

    def remaining(self, now: float) -> float | None:
        """Seconds left until the deadline (negative when it passed), or None when there is none."""
        return None if self.deadline is None else self.deadline - now


current_context: Final[contextvars.ContextVar[Context | None]] = contextvars.ContextVar(
    "trilith_current_context", default=None
)
"""The context of the call that this task or thread works for; None outside any call."""
