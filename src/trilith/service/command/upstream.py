"""Connections to a command's process: kept for a moment after an answer, for the request after it.

Rule 1: a connection that has waited for longer than a second is not used again. Servers close idle ones after two
    seconds or more, and a request that meets its end on the way may not be sent twice.
Rule 2: one whose answer or request has not ended is closed: the process sees that nobody waits any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Final

_KEPT_S: Final = 1.0
_MOST_KEPT: Final = 64


class Connection:
    """One connection.

    Attributes:
        used: whether it has carried a request already.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.used = False
        self.idle_since = 0.0

    def close(self) -> None:
        """Ends it at once, with what was not sent."""
        self.writer.transport.abort()


class Upstream:
    """The connections to one port."""

    def __init__(self, host: str, port: int) -> None:
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
            if self._is_good(connection):
                connection.used = True
                return connection
            connection.close()
        return Connection(*await asyncio.open_connection(self._host, self._port))

    def give_back(self, connection: Connection) -> None:
        """Keeps a connection whose request and answer have ended."""
        if self._closed or len(self._idle) >= _MOST_KEPT:
            connection.close()
            return
        connection.idle_since = time.monotonic()
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

    def _is_good(self, connection: Connection) -> bool:
        is_young = time.monotonic() - connection.idle_since < _KEPT_S
        return is_young and not connection.reader.at_eof() and not connection.writer.is_closing()

    def _close_old(self) -> None:
        self._sweep = None
        kept = [one for one in self._idle if self._is_good(one)]
        for connection in self._idle:
            if connection not in kept:
                connection.close()
        self._idle = kept
        if kept:
            self._sweep = asyncio.get_running_loop().call_later(_KEPT_S, self._close_old)


async def ask_status(host: str, port: int, path: str, timeout_s: float) -> int | str:
    """The status of a GET of the path; or, as words, why there is none."""
    from trilith.wire.http1.relayed_answer import RelayedAnswer

    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(f"GET {path} HTTP/1.1\r\nhost: {host}:{port}\r\nconnection: close\r\n\r\n".encode())
            answer = RelayedAnswer()
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
