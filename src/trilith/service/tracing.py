"""The circumstances of the call that a method works for, and whether its timeline is wanted."""

from __future__ import annotations

import contextvars
from typing import Final

from trilith.core.context import Context, current_context
from trilith.core.timeline import Timeline

tracing: Final[contextvars.ContextVar[bool]] = contextvars.ContextVar("trilith_tracing", default=False)
"""Whether calls made from here must bring their timelines back."""


def context() -> Context:
    """The context of the call that this task or thread works for: request id, deadline, headers, timeline.

    Outside any call (a unit test that calls a method by hand) it is an empty one.
    """
    found = current_context.get()
    if found is None:
        found = Context(request_id="", timeline=Timeline("service", 2))
        current_context.set(found)
    return found


def enter(found: Context, trace: bool) -> None:
    """Makes it the context of this task (or of this copied context)."""
    current_context.set(found)
    if trace:
        tracing.set(True)
