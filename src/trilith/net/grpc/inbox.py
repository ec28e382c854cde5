"""The messages of one streaming call on their way from the connection to the application.

Rule 1: messages wait as they came from the wire. What waits is not granted to the client again, so at most a stream's
window and one message wait; the grant goes out when the application takes them.
Rule 2: nothing that waits may keep the next message from coming: when no message is whole, what has come of the next
one is granted at once.
Rule 3: one reader. Two would tear the order apart.
Rule 4: when the call is over, nothing here knows it any more: no circle keeps what was sent.
"""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import Callable

from trilith.errors import Bug, TrilithError
from trilith.wire.grpc_messages import PREFIX_BYTES, Compressed, Message


class MessageInbox:
    """An asynchronous iterator over the messages of a call; it ends when the client has sent its last one.

    Who has no task takes them by `take` and is told by `on_change` when there is something new: a message, or the end.

    Args:
        release: called with octets of the wire that the client may send again.
        taken: called with the octets of a message that the application has now.
        decode: what a message is once it is taken: it may raise a `TrilithError`.
    """

    __slots__ = ("_decode", "_ended", "_error", "_messages", "_release", "_taken", "_ungranted", "_waiter", "on_change")

    def __init__(
        self,
        release: Callable[[int], None],
        taken: Callable[[int], None],
        decode: Callable[[Message], bytes | memoryview],
    ) -> None:
        self._release = release
        self._taken = taken
        self._decode = decode
        self._messages: deque[Message] = deque()
        self._ungranted = 0
        self._ended = False
        self._error: TrilithError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self.on_change: Callable[[], None] | None = None

    def __aiter__(self) -> MessageInbox:
        return self

    async def __anext__(self) -> bytes | memoryview:
        """The next message.

        Raises:
            Cancelled: the call is over: the client went away, or its deadline passed.
            TrilithError: the client's messages cannot be read.
            Bug: another task waits for the next message.
        """
        while (message := self.take()) is None:
            if self._ended:
                raise StopAsyncIteration
            await self._more()
        return message

    @property
    def exhausted(self) -> bool:
        """Whether the client has sent its last message, and it was taken."""
        return self._ended and not self._messages

    def take(self) -> bytes | memoryview | None:
        """The next message, if it is here.

        Raises:
            TrilithError: as `__anext__`.
        """
        messages = self._messages
        if not messages:
            if self._error is not None:
                raise copy.copy(self._error)  # one that was raised knows its frames, and they know this inbox
            return None
        message = messages.popleft()
        size = len(message) + PREFIX_BYTES
        grant = min(size, self._ungranted) if messages else self._ungranted
        if grant:
            self._ungranted -= grant
            self._release(grant)
        self._taken(size)
        return self._decode(message)

    def received(self, size_bytes: int, messages: list[Message]) -> None:
        """Octets came, and with them the rest of these messages."""
        self._messages.extend(messages)
        if self._messages:
            self._ungranted += size_bytes
            self._wake()
        else:
            self._release(size_bytes)

    def end(self) -> None:
        """The client has sent its last message."""
        self._ended = True
        self._wake()

    def fail(self, error: TrilithError) -> None:
        """The call is over: what waits is dropped, and who reads gets the error."""
        self._messages.clear()
        self._error = error
        self._release = self._taken = _nobody
        self._decode = _as_it_is
        self.on_change = None
        self._wake()

    async def _more(self) -> None:
        if self._waiter is not None:
            raise Bug("two tasks read the messages of one call: only one may")
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
        if self.on_change is not None:
            self.on_change()


def _nobody(_: int) -> None:
    """Is told: the call is over."""


def _as_it_is(message: Message) -> bytes | memoryview:
    return message.octets if isinstance(message, Compressed) else message
