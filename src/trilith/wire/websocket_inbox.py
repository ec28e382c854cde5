"""The messages of one websocket between its octets and who takes them: a bounded number, read in turns. Sans-I/O."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from trilith.wire.websocket import Closing, Ping, WebSocketReader

_MESSAGE_COST_BYTES: Final = 1 << 10  # beside its content: of many short ones not too many are read at a time
_FRAMES_AT_A_TIME: Final = 256


class Came(NamedTuple):
    """What was read beside messages.

    Attributes:
        ping: the last one, which is the one to answer (RFC 6455, section 5.5.3).
        closing: the client closes: nothing is to be read any more.
        more: that was enough at a time: frames may be empty, and many.
    """

    ping: Ping | None
    closing: Closing | None
    more: bool


class WebSocketInbox:
    """Messages that are here and were not taken.

    Args:
        reader: of the client's octets.
        most_bytes: of messages that wait; beyond it nothing is read.
    """

    __slots__ = ("_backlog_bytes", "_messages", "_most_bytes", "_reader")

    def __init__(self, reader: WebSocketReader, most_bytes: int) -> None:
        self._reader = reader
        self._most_bytes = most_bytes
        self._messages: deque[str | bytes] = deque()
        self._backlog_bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def full(self) -> bool:
        """Whether enough messages wait."""
        return self._backlog_bytes > self._most_bytes

    @property
    def held_bytes(self) -> int:
        """What lies here, read or not."""
        return self._reader.held_bytes + self._backlog_bytes

    def feed(self, octets: bytes) -> None:
        """Takes what came."""
        self._reader.feed(octets)

    def read(self, *, keep: bool) -> Came:
        """Reads while there is room. `keep`: messages are wanted.

        Raises:
            WebSocketViolation: the client may not send that. The messages before it are here.
        """
        ping: Ping | None = None
        for _ in range(_FRAMES_AT_A_TIME):
            if self.full:
                return Came(ping, None, more=False)
            found = self._reader.next()
            if found is None:
                return Came(ping, None, more=False)
            if isinstance(found, str | bytes):
                if keep:
                    self._messages.append(found)
                    self._backlog_bytes += len(found) + _MESSAGE_COST_BYTES
            elif isinstance(found, Ping):
                ping = found
            elif isinstance(found, Closing):
                return Came(ping, found, more=False)
        return Came(ping, None, more=True)

    def take(self) -> str | bytes | None:
        """The next message, or None."""
        if not self._messages:
            return None
        message = self._messages.popleft()
        self._backlog_bytes -= len(message) + _MESSAGE_COST_BYTES
        return message

    def clear(self) -> None:
        """Drops the messages that are here."""
        self._messages.clear()
        self._backlog_bytes = 0
