"""Connections to a command's process: kept for a moment after an answer, for the request after it.

Rule 1: a connection that has waited for longer than a second is not used again. Servers close idle ones after two
    seconds or more, and a request that meets its end on the way may not be sent twice.
Rule 2: one whose answer or request has not ended is closed: the process sees that nobody waits any more.
Rule 3: whatever comes while a connection waits closes it: nobody has asked for it, and it would be read as the answer
    to the next request, which another client may have sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import time
from collections.abc import Callable
from typing import Any, Final

_KEPT_S: Final = 1.0
_MOST_KEPT: Final = 64


class _Watched(asyncio.StreamReaderProtocol):
    """Counts what has come and was not read, and ends a connection to which something comes while it waits."""

    def __init__(self, reader: asyncio.StreamReader, on_heard: Callable[[int], None]) -> None:
        super().__init__(reader)
        self._on_heard = on_heard
        self.unread_bytes = 0
        self.waits = False
        self._transport_seen: Any = None

    def connection_made(self, transport: Any) -> None:
        """For the loop."""
        self._transport_seen = transport
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """For the loop."""
        self._on_heard(len(data))
        if self.waits:
            self._transport_seen.abort()
            return
        self.unread_bytes += len(data)
        super().data_received(data)

    def eof_received(self) -> bool | None:
        """For the loop."""
        if self.waits:
            self._transport_seen.abort()
        return super().eof_received()


class Connection:
    """One connection.

    Attributes:
        used: whether it has carried a request already.
        idle_since: when its last answer ended, by the monotonic clock.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, watched: _Watched) -> None:
        self._reader = reader
        self._watched = watched
        self.writer = writer
        self.used = False
        self.idle_since = 0.0

    async def read(self, most_bytes: int) -> bytes:
        """What came; b"" at its end.

        Raises:
            OSError: it broke off.
        """
        octets = await self._reader.read(most_bytes)
        self._watched.unread_bytes -= len(octets)
        return octets

    def wait(self) -> None:
        """It carries nothing from now on."""
        self.idle_since = time.monotonic()
        self._watched.waits = True

    def go_on(self) -> None:
        """It carries a request from now on."""
        self.used = True
        self._watched.waits = False

    @property
    def is_clean(self) -> bool:
        """Whether nothing has come that nobody has read, neither data nor its end."""
        if self.writer.is_closing() or self._watched.unread_bytes or self._reader.at_eof():
            return False
        look = select.poll()  # what the loop has not seen yet
        look.register(self.writer.get_extra_info("socket").fileno(), select.POLLIN)
        return not look.poll(0)

    def close(self) -> None:
        """Ends it at once, with what was not sent."""
        self.writer.transport.abort()


class Upstream:
    """The connections to one port.

    Attributes:
        heard_bytes: that have come over all of them, ever.
    """

    def __init__(self, host: str, port: int) -> None:
        self.heard_bytes = 0
        self._host = host
        self._port = port
        self._idle: list[Connection] = []
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    async def take(self, *, fresh: bool = False) -> Connection:
        """A connection. `fresh`: one that has carried nothing.

        Raises:
            OSError: the process takes none.
        """
        while self._idle and not fresh:
            connection = self._idle.pop()
            if _is_good(connection):
                connection.go_on()
                return connection
            connection.close()
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        watched = _Watched(reader, self._heard)
        transport, _ = await loop.create_connection(lambda: watched, self._host, self._port)
        return Connection(reader, asyncio.StreamWriter(transport, watched, reader, loop), watched)

    def _heard(self, size_bytes: int) -> None:
        self.heard_bytes += size_bytes

    def give_back(self, connection: Connection) -> None:
        """Keeps a connection whose request and answer have ended."""
        if self._closed or len(self._idle) >= _MOST_KEPT or not connection.is_clean:
            connection.close()
            return
        connection.wait()
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(_KEPT_S, self._close_old)

    def close(self) -> None:
        """Closes those that are kept."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        while self._idle:
            self._idle.pop().close()

    def _close_old(self) -> None:
        self._sweep = None
        kept = [one for one in self._idle if _is_good(one)]
        for connection in self._idle:
            if connection not in kept:
                connection.close()
        self._idle = kept
        if kept:
            self._sweep = asyncio.get_running_loop().call_later(_KEPT_S, self._close_old)


def _is_good(connection: Connection) -> bool:
    return time.monotonic() - connection.idle_since < _KEPT_S and connection.is_clean


async def ask_status(host: str, port: int, path: str, timeout_s: float) -> int | str:
    """The status of a GET of the path; or, as words, why there is none."""
    from trilith.wire.http1.answer_reader import AnswerReader

    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(f"GET {path} HTTP/1.1\r\nhost: {host}:{port}\r\nconnection: close\r\n\r\n".encode())
            answer = AnswerReader()
            while not answer.status:
                octets = await reader.read(1 << 16)
                if not octets:
                    return "it closes the connection without an answer"
                answer.push(octets)
            return answer.status
    except TimeoutError:
        return f"it does not answer within {timeout_s:g} s"
    except ConnectionRefusedError:
        return f"nothing listens on port {port}"
    except (OSError, ValueError) as error:
        return str(error)
    finally:
        if writer is not None:
            with contextlib.suppress(OSError):
                writer.transport.abort()
