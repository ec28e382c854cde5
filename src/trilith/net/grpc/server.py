"""A gRPC server: listening sockets, one tick a second, an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl as tls
import time
from collections.abc import Callable, Container, Sequence
from typing import Final

from trilith.net.grpc.connection import GrpcConnection
from trilith.net.grpc.lifetime import DRAIN_HEARD_S
from trilith.net.grpc.limits import GrpcLimits
from trilith.net.grpc.state import Admit, GrpcApp, ServerState
from trilith.net.grpc.statistics import GrpcCounters, GrpcStatistics
from trilith.net.held_bytes import HeldBytes
from trilith.net.listeners import Listeners
from trilith.wire.grpc_compression import GrpcCompression

_TICK_S: Final = 1.0
_LAST_WRITES_S: Final = 0.5
_TASKS_END_S: Final = 1.0


class GrpcServer:
    """Serves an application, on the loop that starts it.

    Args:
        app: see `GrpcApp`.
        streaming: paths of the methods whose clients may send several messages: the application gets their calls with
            the head, and reads `call.messages()`. All other methods take one message; any may send several. It is
            looked at for each call, so it may change.
        compression: of answers, for clients that accept it; None for none. Compressed messages of clients are always
            read.
        admit: see `Admit`; None lets every call pass.
        held: the bound on the bytes that are kept for clients, shared by the servers of a process; None for one of
            `max_buffered_bytes`.
        limits: the bounds.
        ssl: a server context that offers `h2` by ALPN; None for clear text.
    """

    def __init__(
        self,
        app: GrpcApp,
        *,
        streaming: Container[bytes] = (),
        compression: GrpcCompression | None = None,
        admit: Admit | None = None,
        held: HeldBytes | None = None,
        limits: GrpcLimits | None = None,
        ssl: tls.SSLContext | None = None,
    ) -> None:
        self._app = app
        self._streaming = streaming
        self._compression = compression
        self._admit = admit
        self._held = held
        self._limits = limits if limits is not None else GrpcLimits()
        self._ssl = ssl
        self._state: ServerState | None = None
        self._listeners = Listeners()

    def __repr__(self) -> str:
        open_now = len(self._state.connections) if self._state is not None else 0
        return f"<GrpcServer {self._listeners}, {open_now} connections>"

    async def start(
        self, *, host: str = "127.0.0.1", port: int = 0, sockets: Sequence[socket.socket] | None = None
    ) -> None:
        """Listens on `host` and `port`, or on `sockets` that listen already (the server owns them from then on).

        Raises:
            PortInUse: another process listens there.
            InvalidConfig: the host is not one of this machine.
            SetupError: the system refuses, or the server was started before.
        """
        self._listeners.bind(host, port, sockets)
        loop = asyncio.get_running_loop()
        state = self._state = ServerState(
            self._app, self._limits, loop, self._streaming, self._compression, self._admit, self._held
        )
        await self._listeners.serve(
            lambda: GrpcConnection(state),
            ssl=self._ssl,
            handshake_timeout_s=self._limits.handshake_timeout_s,
            room=state.room,
            counters=state.counters,
            tick_s=_TICK_S,
            tick=self._tick,
        )

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The (host, port) pairs that the server listens on, with the ports that the system chose."""
        return list(self._listeners.addresses)

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
        self._listeners.close()
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
        self._listeners.stop_ticking()
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


def _some_unaware(state: ServerState) -> bool:
    return any(not connection.draining for connection in state.connections)


def _some_left(state: ServerState) -> bool:
    return bool(state.connections)


async def _wait_while(state: ServerState, condition: Callable[[ServerState], bool], until: float) -> None:
    """Waits until the condition is false, at most to the instant `until`."""
    while condition(state) and (left_s := until - time.monotonic()) > 0:
        state.changed.clear()
        with contextlib.suppress(TimeoutError):  # the loop's condition sees that
            await asyncio.wait_for(state.changed.wait(), left_s)
