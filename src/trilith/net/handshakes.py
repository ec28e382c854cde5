"""Accepts connections for TLS, and counts those whose handshake is under way: each holds a descriptor of its server.

Rule 1: while all places are taken, who has been at it for longest makes room for who comes. An honest client takes
milliseconds; any number that never finishes keeps nobody out.
Rule 2: an established connection makes room for none.
Rule 3: without a descriptor for one more nothing is accepted for a moment: what waits in the backlog stays there. What
befell one connection before it was accepted is nobody else's matter.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from trilith.net.statistics import ConnectionRefusal, ServerCounters

_log: Final = logging.getLogger(__name__)
_AT_ONCE: Final = 64  # accepted in one turn of the loop
_PAUSE_S: Final = 0.2
# accept(2): what befell a connection in the backlog, which is gone; Linux passes on errors of the network as well.
_OF_A_CONNECTION: Final = frozenset(
    getattr(errno, name)
    for name in (
        *("ECONNABORTED", "ECONNRESET", "ETIMEDOUT", "EPERM", "EPROTO", "ENOPROTOOPT", "EOPNOTSUPP"),
        *("ENETDOWN", "ENETUNREACH", "EHOSTDOWN", "EHOSTUNREACH", "ENONET"),
    )
    if hasattr(errno, name)
)


class Handshakes:
    """Those of one server.

    Args:
        context: of the server.
        connected: makes the protocol of one connection, which hears of it when it is secure.
        timeout_s: how long one may take.
        room: how many descriptors the server may hold beside those of its established connections.
        counters: what is refused is counted there, as a `ConnectionRefusal`.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        connected: Callable[[], asyncio.Protocol],
        *,
        timeout_s: float,
        room: Callable[[], int],
        counters: ServerCounters,
    ) -> None:
        self._context = context
        self._connected = connected
        self._timeout_s = timeout_s
        self._room = room
        self._counters = counters
        self._loop = asyncio.get_running_loop()
        self._listening: list[socket.socket] = []
        self._pending: dict[asyncio.Task[None], None] = {}  # in the order in which they began
        self._held: dict[socket.socket, bool] = {}  # not closed yet by us, or (True) by the loop

    def accept_on(self, listening: socket.socket) -> None:
        """Takes connections of a listening socket that does not block, which it closes in the end."""
        self._listening.append(listening)
        self._loop.add_reader(listening, self._accept, listening)

    def close(self) -> None:
        """Accepts no more, and gives up the handshakes that have not ended."""
        for listening in self._listening:
            self._loop.remove_reader(listening)
            listening.close()
        self._listening.clear()
        for task in self._pending:
            task.cancel()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            self._make_room()
            if len(self._held) >= max(1, self._room()):
                return  # those that made room are closed in the next turn; the kernel will ask again
            try:
                accepted, _address = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _OF_A_CONNECTION:
                    continue
                self._pause(listening, error)
                return
            self._begin(accepted)

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        """Lets the loop close what it can."""
        _log.warning("connections wait: %s", error.strerror or error)
        self._loop.remove_reader(listening)

        def go_on() -> None:
            if listening in self._listening:
                self._loop.add_reader(listening, self._accept, listening)

        self._loop.call_later(_PAUSE_S, go_on)

    def _make_room(self) -> None:
        while self._pending and len(self._pending) >= self._room():
            oldest = next(iter(self._pending))
            del self._pending[oldest]
            oldest.cancel()
            self._refused(ConnectionRefusal.CONNECTIONS)

    def _begin(self, accepted: socket.socket) -> None:
        if self._room() <= 0:
            accepted.close()
            self._refused(ConnectionRefusal.CONNECTIONS)
            return
        self._held[accepted] = False
        task = self._loop.create_task(self._shake(accepted))
        self._pending[task] = None
        task.add_done_callback(lambda task: self._ended(task, accepted))

    async def _shake(self, accepted: socket.socket) -> None:
        self._held[accepted] = True
        accepted.setblocking(False)
        if accepted.family != socket.AF_UNIX:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await self._loop.connect_accepted_socket(
            self._connected, accepted, ssl=self._context, ssl_handshake_timeout=self._timeout_s
        )

    def _ended(self, task: asyncio.Task[None], accepted: socket.socket) -> None:
        if not self._held.pop(accepted):  # taken back before its first step
            accepted.close()
        was_pending = task in self._pending
        self._pending.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is None or not was_pending:
            return
        self._refused(ConnectionRefusal.HANDSHAKE)
        if not isinstance(error, OSError):  # those are of TLS, or of the time limit, or the client went
            _log.error("a TLS handshake failed unexpectedly", exc_info=error)

    def _refused(self, why: ConnectionRefusal) -> None:
        """Counts a connection that was accepted, and that no protocol will see."""
        self._counters.connections_accepted_total += 1
        self._counters.refused[why] += 1
