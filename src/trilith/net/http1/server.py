"""The HTTP/1.1 server: listens, ticks, counts, and stops in a written order."""

from __future__ import annotations

import asyncio
import socket
import ssl as tls
from collections.abc import Sequence
from typing import Final

from trilith.errors import SetupError
from trilith.net.http1.connection import HttpConnection
from trilith.net.http1.state import HttpApp, ServerState
from trilith.net.http1.statistics import HttpCounters, HttpStatistics
from trilith.net.listen import listen_tcp
from trilith.wire.http1 import HttpLimits

_SETTLE_S: Final = 1.0  # for connections that were cut and tasks that were cancelled to be gone


class HttpServer:
    """Serves one application. Start it once; `drain` ends it.

    Args:
        app: answers the requests; see `HttpApp`.
        limits: bounds on what clients may send and how long they may take.
        ssl: serves TLS with this context (see `tls_context`); None serves plain text.
    """

    def __init__(self, app: HttpApp, *, limits: HttpLimits | None = None, ssl: tls.SSLContext | None = None) -> None:
        self._app = app
        self._limits = limits if limits is not None else HttpLimits()
        self._ssl = ssl
        self._state: ServerState | None = None
        self._listeners: list[asyncio.Server] = []
        self._addresses: list[tuple[str, int]] = []
        self._ticker: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        where = ", ".join(f"{host}:{port}" for host, port in self._addresses) or "not listening"
        open_now = len(self._state.connections) if self._state is not None else 0
        return f"<HttpServer {where}, {open_now} connections>"

    async def start(
        self, *, host: str = "127.0.0.1", port: int = 0, sockets: Sequence[socket.socket] | None = None
    ) -> None:
        """Listens on `host` and `port`, or on `sockets` that listen already (the server owns them from then on).

        Raises:
            PortInUse: another process listens there.
            InvalidConfig: the host is not one of this machine.
            SetupError: the system refuses, or the server was started before.
        """
        if self._state is not None:
            raise SetupError(f"{self!r} was started before: make a new one")
        listening = list(sockets) if sockets is not None else listen_tcp(host, port)
        loop = asyncio.get_running_loop()
        state = self._state = ServerState(self._app, self._limits, loop)
        self._addresses = [sock.getsockname()[:2] for sock in listening if sock.family != socket.AF_UNIX]
        handshake_timeout_s = self._limits.head_timeout_s if self._ssl is not None else None
        for sock in listening:
            make = loop.create_unix_server if sock.family == socket.AF_UNIX else loop.create_server
            server = await make(
                lambda: HttpConnection(state), sock=sock, ssl=self._ssl, ssl_handshake_timeout=handshake_timeout_s
            )
            self._listeners.append(server)
        self._tick()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The (host, port) pairs that the server listens on, with the ports that the system chose."""
        return list(self._addresses)

    async def drain(self, timeout_s: float) -> int:
        """Stops: takes no new connection, closes idle ones, finishes what has begun, and cuts the rest.

        Then it cancels what the application still does after its answers. A second call does nothing.

        Args:
            timeout_s: seconds after which requests that are still unanswered lose their connection; 0 for at once.

        Returns:
            How many connections were cut before their answer was complete.
        """
        state = self._state
        if state is None:
            return 0
        # New connections first, so that what remains can only become less.
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        state.draining = True
        for connection in list(state.connections):
            connection.close_when_idle()
        await self._wait_until_empty(state, timeout_s)
        remaining = [*state.connections, *state.turned_away]
        cut = sum(connection.busy for connection in remaining)
        for connection in remaining:
            connection.abort()
        await self._wait_until_empty(state, _SETTLE_S)
        # What an application still does after its answers ends here: nobody waits for it.
        tasks = list(state.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_SETTLE_S)
        # The clock last: until here it has ended what lasted too long.
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        state.hangups.close()
        return cut

    def statistics(self) -> HttpStatistics:
        """Counts since the start, and what is open now."""
        state = self._state
        counters = state.counters if state is not None else HttpCounters()
        connections = state.connections if state is not None else ()
        in_flight = sum(connection.in_flight for connection in connections)
        return counters.snapshot(connections=len(connections), in_flight=in_flight)

    def _tick(self) -> None:
        state = self._state
        if state is None:
            return
        state.refresh()
        for connection in [*state.connections, *state.turned_away]:
            connection.check(state.now)
        self._ticker = state.loop.call_later(self._limits.tick_s, self._tick)

    @staticmethod
    async def _wait_until_empty(state: ServerState, timeout_s: float) -> None:
        if not state.connections and not state.turned_away:
            return
        emptied = asyncio.Event()
        state.empty = emptied.set
        try:
            async with asyncio.timeout(timeout_s):
                await emptied.wait()
        except TimeoutError:
            return
        finally:
            state.empty = None
