"""One call on its way through a host: encoded arguments in, one answer out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from trilith.core.context import Context
from trilith.errors import Cancelled, TrilithError
from trilith.service.codecs.files import RequestFolder
from trilith.service.codecs.media import JSON
from trilith.service.codecs.native import Buffer
from trilith.wire.calls import MESSAGE_CONTENT_TYPE, CallMeta, ResultMeta

Outcome = ResultMeta | TrilithError
OnDone = Callable[[Outcome, Sequence[Buffer]], None]

PLAIN_RESULT: Final = ResultMeta(JSON)
"""The envelope of nearly all answers: this very object wherever it is meant, so that it need not be packed again."""

MESSAGE_RESULT: Final = ResultMeta(MESSAGE_CONTENT_TYPE)
"""The same of answers over gRPC."""


class ServiceCall(msgspec.Struct, eq=False):
    """One call.

    Attributes:
        meta: who is called and how the buffers are encoded.
        buffers: the encoded arguments.
        context: request id, deadline, timeline, headers.
        on_done: called once, on the loop: the answer's envelope and body, or the error and nothing. None for a kind of
            call that overrides `finish`.
        done: whether it is answered.
        working: whether the host still works on it. After a cancel that may be long: a thread cannot be stopped.
        on_end: called once, on the loop, when `working` becomes false.
        abort: the host's way to stop the work, where there is one.
        folder: the folder of its uploads, where it may have some; removed when the host's work on it ends.
    """

    meta: CallMeta
    buffers: Sequence[Buffer]
    context: Context
    on_done: OnDone | None = None
    done: bool = False
    working: bool = False
    on_end: Callable[[], None] | None = None
    abort: Callable[[ServiceCall], object] | None = None
    folder: RequestFolder | None = None

    def due_at(self, now: float) -> float | None:
        """The instant at which its time is over, as far as is known now; None: there is none."""
        return self.context.deadline

    def cancel(self, error: TrilithError | None = None) -> None:
        """Takes the call back. An asynchronous method is cancelled; a thread cannot be, and its result is dropped."""
        if self.done:
            return
        self.finish(Cancelled("the caller took the request back") if error is None else error)
        if self.abort is not None:
            self.abort(self)

    def finish(self, outcome: Outcome, buffers: Sequence[Buffer] = ()) -> None:
        """Answers, unless that happened before."""
        if not self.done:
            self.done = True
            if self.on_done is not None:
                self.on_done(outcome, buffers)
