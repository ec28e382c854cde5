"""One call on its way through a host: encoded arguments in, one answer out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trilith.core.context import Context
from trilith.errors import Cancelled, TrilithError
from trilith.service.codecs.native import Buffer
from trilith.wire.calls import CallMeta, ResultMeta

Outcome = ResultMeta | TrilithError
OnDone = Callable[[Outcome, Sequence[Buffer]], None]


class ServiceCall:
    """One call.

    Attributes:
        meta: who is called and how the buffers are encoded.
        buffers: the encoded arguments.
        context: request id, deadline, timeline, headers.
        on_done: called once, on the loop: the answer's envelope and body, or the error and nothing.
        done: whether it was called.
        working: whether the host still works on it. After a cancel that may be long: a thread cannot be stopped.
        on_end: called once, on the loop, when `working` becomes false.
    """

    __slots__ = ("abort", "buffers", "context", "done", "meta", "on_done", "on_end", "working")

    def __init__(self, meta: CallMeta, buffers: Sequence[Buffer], context: Context, on_done: OnDone) -> None:
        self.meta = meta
        self.buffers = buffers
        self.context = context
        self.on_done = on_done
        self.done = False
        self.working = False
        self.on_end: Callable[[], None] | None = None
        self.abort: Callable[[], object] | None = None  # the host's way to stop the work, where there is one

    def cancel(self, error: TrilithError | None = None) -> None:
        """Takes the call back. An asynchronous method is cancelled; a thread cannot be, and its result is dropped."""
        if self.done:
            return
        self.finish(Cancelled("the caller took the request back") if error is None else error)
        if self.abort is not None:
            self.abort()

    def finish(self, outcome: Outcome, buffers: Sequence[Buffer] = ()) -> None:
        """Answers, unless that happened before."""
        if not self.done:
            self.done = True
            self.on_done(outcome, buffers)
