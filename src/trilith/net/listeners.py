"""The sockets that one server listens on, whatever it speaks, and its clock: opened once, named, closed."""

from __future__ import annotations

import asyncio
import socket
import ssl as tls
from collections.abc import Callable, Sequence
from typing import Final

from trilith.errors import SetupError
from trilith.net.handshakes import Handshakes
from trilith.net.listen import listen_tcp
from trilith.net.statistics import ServerCounters

_BACKLOG: Final = 1024  # listening again sets it anew: asyncio's own of 100 would turn clients of a busy loop away


class Listeners:
    """What a server listens on.

    Attributes:
        addresses: the (host, port) pairs, with the ports that the system chose; those of UNIX sockets have none.
    """

    def __init__(self) -> None:
        self.addresses: list[tuple[str, int]] = []
        self._sockets: list[socket.socket] | None = None
        self._servers: list[asyncio.Server] = []
        self._ticker: asyncio.TimerHandle | None = None
        self._handshakes: Handshakes | None = None

    def __str__(self) -> str:
        return ", ".join(f"{host}:{port}" for host, port in self.addresses) or "not listening"

    def bind(self, host: str, port: int, sockets: Sequence[socket.socket] | None) -> None:
        """Binds `host` and `port`, or takes `sockets` that are bound already.

        Raises:
            PortInUse: another process listens there.
            InvalidConfig: the host is not one of this machine.
            SetupError: the system refuses, or the server was started before.
        """
        if self._sockets is not None:
            raise SetupError(f"a server ({self}) was started before: make a new one")
        self._sockets = list(sockets) if sockets is not None else listen_tcp(host, port)
        self.addresses = [sock.getsockname()[:2] for sock in self._sockets if sock.family != socket.AF_UNIX]

    async def serve(
        self,
        connected: Callable[[], asyncio.Protocol],
        *,
        ssl: tls.SSLContext | None,
        handshake_timeout_s: float,
        room: Callable[[], int],
        counters: ServerCounters,
        tick_s: float,
        tick: Callable[[], None],
    ) -> None:
        """Takes connections from now on.

        Args:
            connected: makes the protocol of one connection.
            ssl: serves TLS with this context; None serves plain text.
            handshake_timeout_s: how long a client may take for the handshake of TLS.
            room: how many connections may be open beside those that are established.
            counters: where those are counted that never are.
            tick_s: seconds between two calls of `tick`, until `stop_ticking`.
            tick: ends what lasts too long.
        """
        loop = asyncio.get_running_loop()
        if ssl is not None:
            self._handshakes = Handshakes(ssl, connected, timeout_s=handshake_timeout_s, room=room, counters=counters)
        for sock in self._sockets or ():
            if self._handshakes is not None:
                sock.setblocking(False)
                sock.listen(_BACKLOG)
                self._handshakes.accept_on(sock)
                continue
            make = loop.create_unix_server if sock.family == socket.AF_UNIX else loop.create_server
            self._servers.append(await make(connected, sock=sock, backlog=_BACKLOG))

        def ticked() -> None:
            self._ticker = loop.call_later(tick_s, ticked)
            tick()

        self._ticker = loop.call_later(tick_s, ticked)

    def close(self) -> None:
        """Takes no more connections."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        if self._handshakes is not None:
            self._handshakes.close()

    def stop_ticking(self) -> None:
        """The last thing of a drain: until then what lasts too long is ended."""
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
