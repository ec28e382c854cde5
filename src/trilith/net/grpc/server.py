"""A gRPC server: listening sockets, one tick a second, an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl as tls
import time
from collections.abc import Callable, Collection, Sequence
from typing import Final

from trilith.errors import Bug
from trilith.net.grpc.connection import GrpcConnection
from trilith.net.grpc.lifetime import DRAIN_HEARD_S
from trilith.net.grpc.limits import GrpcLimits
from trilith.net.grpc.state import GrpcApp, ServerState
from trilith.net.grpc.statistics import GrpcCounters, GrpcStatistics
from trilith.net.listen import listen_tcp
from trilith.wire.grpc_compression import GrpcCompression

_BACKLOG: Final = 1024
_TICK_S: Final = 1.0
_LAST_WRITES_S: Final = 0.5
_TASKS_END_S: Final = 1.0


class GrpcServer:
    """Serves an application, on the loop that starts it.

    Args:
        app: see `GrpcApp`.
        streaming: paths of the methods whose clients may send several messages: the application gets their calls with
            the head, and reads `call.messages()`. All other methods take one message; any may send several.
        compression: of answers, for clients that accept it; None for none. Compressed messages of clients are always
            read.
        limits: the bounds.
        ssl: a server context that offers `h2` by ALPN; None for clear text.
    """

    def __init__(
        self,
        app: GrpcApp,
        *,
        streaming: Collection[bytes] = (),
        compression: GrpcCompression | None = None,
        limits: GrpcLimits | None = None,
        ssl: tls.SSLContext | None = None,
    ) -> None:
        self._app = app
        self._streaming = streaming
        self._compression = compression
        self._limits = limits if limits is not None else GrpcLimits()
        self._ssl = ssl
        self._state: ServerState | None = None
        self._servers: list[asyncio.Server] = []
        self._ticker: asyncio.TimerHandle | None = None

    async def start(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        sockets: Sequence[socket.socket] | None = None,
        reuse_port: bool = False,
    ) -> None:
        """Listens and serves.

        Args:
            host, port: where to listen; port 0 lets the system choose.
            sockets: bound sockets to use instead; they belong to the server from now on.
            reuse_port: lets several processes share the port.

        Raises:
            PortInUse: another process listens there.
            InvalidConfig: the host is not an address of this machine.
            Bug: the server was started before.
        """
        if self._state is not None:
            raise Bug("this gRPC server was started before: make a new one")
        listening = sockets if sockets is not None else listen_tcp(host, port, reuse_port=reuse_port)
        loop = asyncio.get_running_loop()
        state = self._state = ServerState(self._app, self._limits, loop, self._streaming, self._compression)
        handshake_s = self._limits.handshake_timeout_s if self._ssl is not None else None
        for each in listening:
            self._servers.append(
                await loop.create_server(
                    lambda: GrpcConnection(state),
                    sock=each,
                    ssl=self._ssl,
                    ssl_handshake_timeout=handshake_s,
                    backlog=_BACKLOG,
                )
            )
        self._ticker = loop.call_later(_TICK_S, self._tick)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The (host, port) pairs that it listens on."""
        names = [each.getsockname() for server in self._servers for each in server.sockets]
        return [(name[0], name[1]) for name in names if isinstance(name, tuple)]

    async def drain(self, timeout_s: float) -> int:
        """Stops: takes no new connection, tells clients to go, lets calls end, then cuts what is left.

        Args:
            timeout_s: seconds until the calls that are left are ended with UNAVAILABLE.

        Returns:
            The number of connections that had to be cut.
        """
        state = self._state
        if state is None:
            return 0
        ends_at = time.monotonic() + timeout_s
        state.draining = True
        for server in self._servers:
            server.close()
        for connection in list(state.connections):
            connection.begin_drain()
        await _wait_while(state, _some_unaware, min(ends_at, time.monotonic() + DRAIN_HEARD_S))
        for connection in list(state.connections):
            connection.finish_drain()
        await _wait_while(state, _some_left, ends_at)
        left = list(state.connections)
        for connection in left:
            connection.cut()
        await _wait_while(state, _some_left, time.monotonic() + _LAST_WRITES_S)
        for connection in list(state.connections):
            connection.abort()
        if state.tasks:
            await asyncio.wait(state.tasks, timeout=_TASKS_END_S)
        if self._ticker is not None:
            self._ticker.cancel()
        return len(left)

    def statistics(self) -> GrpcStatistics:
        """Counts since the start, and what is open now."""
        state = self._state
        counters = state.counters if state is not None else GrpcCounters()
        connections = state.connections if state is not None else ()
        in_flight = sum(connection.calls_in_flight for connection in connections)
        return counters.snapshot(connections=len(connections), in_flight=in_flight)

    def _tick(self) -> None:
        state = self._state
        if state is None:
            return
        now = time.monotonic()
        for connection in list(state.connections):
            connection.tick(now)
        self._ticker = state.loop.call_later(_TICK_S, self._tick)


def _some_unaware(state: ServerState) -> bool:
    return any(not connection.draining for connection in state.connections)


def _some_left(state: ServerState) -> bool:
    return bool(state.connections)


async def _wait_while(state: ServerState, condition: Callable[[ServerState], bool], until: float) -> None:
    """Waits until the condition is false, at most to the instant `until`."""
    while condition(state) and (left_s := until - time.monotonic()) > 0:
        state.changed.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(state.changed.wait(), left_s)
