"""One request inside the runtime: what waits in the queue, and what its sender holds. One object for both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from trilith.core.context import Context
from trilith.core.request import InferRequest, InferResponse
from trilith.errors import TrilithError
from trilith.runtime.schedule import Waiting
from trilith.runtime.validation import Admitted

OnDone = Callable[[InferResponse | TrilithError], None]
"""Called once, on the loop's thread, with the answer or with why there is none."""


class Owner(Protocol):
    """The model that a ticket is for."""

    def cancel(self, ticket: Ticket) -> None:
        """Takes the request back."""
        ...


class Ticket(Waiting):
    """A submitted request.

    Attributes:
        request: as it was submitted.
        admitted: its checked inputs.
        context: the circumstances of the call, or None.
        on_done: whom to tell.
        answer_by: absolute instant in seconds after which its answer is of no use, or None. `deadline` may be earlier:
            that is when it stops waiting.
        done: whether it was answered or taken back.
        watched_as: its name among those that must be answered by some instant; 0 when it is not there.
    """

    __slots__ = ("_owner", "admitted", "answer_by", "context", "done", "on_done", "request", "watched_as")

    def __init__(
        self,
        owner: Owner,
        request: InferRequest,
        admitted: Admitted,
        context: Context | None,
        on_done: OnDone,
        *,
        priority: int,
        deadline: float | None,
        alone: bool,
    ) -> None:
        super().__init__(
            rows=admitted.rows, shape=None if alone else admitted.shape, priority=priority, deadline=deadline
        )
        self._owner = owner
        self.answer_by = deadline
        self.request = request
        self.admitted = admitted
        self.context = context
        self.on_done = on_done
        self.done = False
        self.watched_as = 0

    def wait_until(self, instant: float, *, delays: bool) -> None:
        """Bounds its waiting; then it is given up or, with `delays`, goes behind the others of its priority."""
        if delays:
            self.delay_at = instant
        elif self.deadline is None or instant < self.deadline:
            self.deadline = instant

    def cancel(self) -> None:
        """Takes the request back: `on_done` is not called any more. Too late, it does nothing.

        What waits leaves the queue at once; what runs, runs to its end, and its result is dropped.
        """
        if not self.done:
            self._owner.cancel(self)
