"""The circumstances of the call that a method works for, and whether its timeline is wanted."""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
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


class Nested:
    """A block that runs a call made on behalf of another in the same process, in a context as a process of its own has.

    Args:
        joined: the contexts of its calls, when they are several that are run together.
    """

    __slots__ = ("_context", "_token")

    def __init__(self, joined: Sequence[Context] = ()) -> None:
        self._context = nested(current_context.get())
        self._context.joined = tuple(joined)

    def __enter__(self) -> None:
        self._token = current_context.set(self._context)

    def __exit__(self, *error: object) -> None:
        current_context.reset(self._token)
        for each in self._context.items:
            if each.folder is not None:
                each.folder.remove()


def nested(outer: Context | None) -> Context:
    """That of a call that one in the context `outer` makes: neither what a client sent nor its answer is there."""
    if outer is None:
        return Context(request_id="", timeline=Timeline("service", 2))
    return Context(
        request_id=outer.request_id,
        timeline=outer.timeline,
        deadline=outer.deadline,
        client=outer.client,
        identity=outer.identity,
    )
