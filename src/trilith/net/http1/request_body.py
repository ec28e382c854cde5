"""The body of one request: read by its application, filled by its connection.

Rule: reading holds the client back: what is not read is not taken from the socket beyond `read_ahead_bytes`.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable

from trilith.errors import Bug, PayloadTooLarge, TrilithError
from trilith.net.http1.request_head import ANSWERED, RequestHead
from trilith.net.http1.waiting import Listener
from trilith.wire.http1 import InboundBody


class ReadableRequest(RequestHead, eq=False):
    """A request and its body."""

    # For the application.

    def body_nowait(self) -> bytes | memoryview:
        """The whole body, when `complete`.

        Raises:
            PayloadTooLarge: it is longer than `body_limit`.
            Bug: the body is not complete, or was read in chunks.
        """
        body = self._body
        if body is None:
            if self.complete:
                return b""
        elif body.complete and body.buffered == body.received:
            if self.body_limit is not None and body.received > self.body_limit:
                raise _too_large(self.body_limit)
            return body.whole()
        raise Bug(f"{self!r}: body_nowait() needs a complete body that was not read before: use `await body()`")

    async def body(self, limit: int | None = None) -> bytes | memoryview:
        """The whole body; a view that cannot be written when it is long.

        Args:
            limit: greatest length in bytes, if lower than the server's `max_body_bytes`.

        Raises:
            PayloadTooLarge: it is longer than the limit.
            InvalidInput: it is malformed or was cut off.
        """
        maximum = self.max_body_bytes
        if limit is not None and limit < maximum:
            maximum = limit
        if self.content_length is not None and self.content_length > maximum:
            raise _too_large(maximum)
        body = self._body
        if body is None:
            return b""
        body.allowance = maximum
        body.gather()
        while not body.complete and body.received <= maximum:
            await self._more()
        if body.received > maximum:
            body.allowance = 0
            raise _too_large(maximum)
        return self.body_nowait()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives; the client is held while nobody reads.

        Raises:
            PayloadTooLarge: it turned out to be longer than the server's `max_body_bytes`.
            InvalidInput: it is malformed or was cut off.
        """
        body = self._body
        while body is not None:
            if self.body_limit is not None and body.received > self.body_limit:
                body.allowance = 0
                raise _too_large(self.body_limit)
            if body.buffered:
                chunk = body.take()
                self._hold(body)
                self._connection.update_reading()
                yield chunk
            elif body.complete:
                return
            else:
                await self._more()

    def when_body(self, callback: Callable[[], None], *, endless: bool = True) -> None:
        """For who reads a stream without a task: calls back whenever some of it came, its end did, or it broke off.

        `take_body` is then to be called, and `body_failure` and `body_ended` to be looked at. `ignore_body` ends it.

        Args:
            callback: as above.
            endless: the body may be longer than the server's limit (`body_limit` holds), and its client silent for any
                time: the reader bounds both.

        Raises:
            Bug: somebody else reads it.
        """
        self._read_on()
        if endless:
            self._connection.endless_body()
        self._waiter = Listener(callback)
        self._connection.update_reading()

    def ignore_body(self) -> None:
        """Nobody reads the rest of the body."""
        if isinstance(self._waiter, Listener):
            self._waiter = None

    def take_body(self) -> bytes:
        """What is here of the body and was not taken; b"" when nothing is."""
        body = self._body
        if body is None or not body.buffered:
            return b""
        taken = body.take()
        self._hold(body)
        self._connection.update_reading()
        return taken

    @property
    def body_ended(self) -> bool:
        """Whether the body is complete and all of it was taken."""
        return self.complete and (self._body is None or not self._body.buffered)

    @property
    def body_failure(self) -> TrilithError | None:
        """Why the rest of the body will not come, or is not taken; None while it may be."""
        body, limit = self._body, self.body_limit
        if self._failure is None and body is not None and limit is not None and body.received > limit:
            return _too_large(limit)
        return self._failure

    async def _more(self) -> None:
        if self._failure is not None:
            # A copy: one that was raised knows the frames that it went through, and they know this request.
            raise copy.copy(self._failure)
        self._read_on()
        connection = self._connection
        waiter = self._waiter = connection.loop.create_future()
        connection.update_reading()
        try:
            await waiter
        finally:
            self._waiter = None

    def _read_on(self) -> None:
        if self._waiter is not None:
            raise Bug(f"{self!r}: two tasks read one body")
        if self._awaits_continue:
            self._awaits_continue = False
            self._connection.send_continue()

    # For the connection.

    def accept_body(self, body: InboundBody) -> None:
        """A body is coming, into `body`."""
        self._body = body

    @property
    def inbound(self) -> InboundBody | None:
        """The body as far as it is here; None when the request has none."""
        return self._body

    @property
    def awaits_continue(self) -> bool:
        """Whether the client waits for `100 Continue`."""
        return self._awaits_continue

    def body_arrived(self, chunk: bytes) -> None:
        """Some of the body is here."""
        self._awaits_continue = False  # the client did not wait
        body = self._body
        if body is not None:
            body.add(chunk)
            self._hold(body)
        if self._waiter is not None:
            self._wake()

    def finish_body(self, now: float) -> None:
        """The body is complete."""
        self.complete = True
        if self._body is not None:
            self._body.complete = True
        if not self.queued:
            self.received_at = now
        if self._waiter is not None:
            self._wake()

    def drop_body(self) -> None:
        """Nobody will read the body: what is here of it is let go, and what comes is dropped."""
        if self._body is not None:
            self._body.discard()
            self._hold(self._body)

    def let_body_go(self) -> None:
        """Who has read the whole body needs it no more; it counts as held to the end, for what was made of it.

        `body` and `body_nowait` raise from then on.
        """
        if self._body is not None:
            self._body.take()

    def _hold(self, body: InboundBody) -> None:
        size = body.buffered if self._phase < ANSWERED else 0
        self._connection.share.take(size - self._held_bytes)
        self._held_bytes = size

    def _let_go(self) -> None:
        self._connection.share.take(-self._held_bytes)
        self._held_bytes = 0

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


def _too_large(maximum: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the request body is longer than {maximum} bytes")
