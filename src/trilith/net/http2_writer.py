"""Moves output from the HTTP/2 layer to the socket.

Rule 1: output is written once a loop turn: at the end of `data_received`, or in one callback for later answers.
Rule 2: while the socket takes no more, bodies stay uncut in the HTTP/2 layer; when small output piles up as well, we
stop reading, so that no more answers can come about. Both end by `resume`, or by the write timeout.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol

from trilith.wire.http2 import Http2Connection

_BUDGET_BYTES: Final = 256 << 10
_LAST_BYTES: Final = 4 << 20
"""Of bodies when the connection closes: what ends them is behind them."""
_SOCKET_BUFFER_BYTES: Final = 512 << 10
_MAX_READY_CHUNKS: Final = 512
_LINGER_S: Final = 1.0


class WrittenCounters(Protocol):
    """What is counted here."""

    bytes_sent: int
    write_timeouts: int


class SocketWriter:
    """The writing half of one connection.

    `on_written` is called whenever everything is out, `on_cut` whenever bodies that waited have become frames.
    """

    __slots__ = (
        "_counters",
        "_due",
        "_http2",
        "_lingering",
        "_loop",
        "_on_cut",
        "_on_written",
        "_reading_paused",
        "_stuck_since",
        "_transport",
        "closing",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        http2: Http2Connection,
        counters: WrittenCounters,
        loop: asyncio.AbstractEventLoop,
        on_written: Callable[[], None],
        on_cut: Callable[[], None],
    ) -> None:
        transport.set_write_buffer_limits(high=_SOCKET_BUFFER_BYTES)
        self._transport = transport
        self._http2 = http2
        self._counters = counters
        self._loop = loop
        self._on_written = on_written
        self._on_cut = on_cut
        self._due = False
        self._reading_paused = False
        self._lingering = False
        self._stuck_since: float | None = None
        self.closing = False

    def gather(self) -> None:
        """Until `flush`, output is collected and nothing is scheduled."""
        self._due = True

    def schedule(self) -> None:
        """There is output: it is written in this loop turn."""
        if not self._due:
            self._due = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Writes what is there, within the budget of one turn."""
        self._due = False
        if self.closing:
            return
        if self._stuck_since is not None:
            if not self._reading_paused and self._http2.ready_chunks > _MAX_READY_CHUNKS:
                self._reading_paused = True
                self._transport.pause_reading()
            return
        self._write()
        self._on_cut()
        if self._http2.has_output:
            self.schedule()
        else:
            self._on_written()

    def pause(self) -> None:
        """The socket takes no more."""
        if self._stuck_since is None:
            self._stuck_since = time.monotonic()

    def resume(self) -> None:
        """The socket takes more again."""
        if self.closing:
            return
        self._stuck_since = None
        if self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()
        self.flush()

    def close(self, *, linger: bool = False) -> None:
        """Writes what is ready and closes once it is out.

        Args:
            linger: only end our side for now. To close a socket with unread input resets it, and the reset may overtake
                our last words, which say why.
        """
        if self.closing:
            return
        self._write(_LAST_BYTES)
        self.closing = True
        self._stuck_since = time.monotonic()  # the write timeout bounds the closing as well
        if linger and self._transport.can_write_eof():
            self._lingering = True
            self._transport.write_eof()
        else:
            self._transport.close()

    def abort(self) -> None:
        """Drops the socket with what is unwritten."""
        self.closing = True
        self._transport.abort()

    def end(self) -> None:
        """The socket is gone: nothing more is written, and nobody told, so that nothing here knows the connection."""
        self.closing = True
        self._http2.lost()
        self._on_written = self._on_cut = _nothing

    def tick(self, now: float, timeout_s: float) -> None:
        """Enforces the write timeout."""
        stuck_s = 0.0 if self._stuck_since is None else now - self._stuck_since
        if stuck_s > timeout_s:
            self._counters.write_timeouts += 1
            self.abort()
        elif self._lingering and stuck_s > _LINGER_S:
            self._lingering = False
            self._transport.close()

    def _write(self, budget_bytes: int = _BUDGET_BYTES) -> None:
        output = self._http2.take_output(budget_bytes)
        if output:
            self._counters.bytes_sent += len(output)
            self._transport.write(output)


def _nothing() -> None:
    """Nobody is to be told."""
