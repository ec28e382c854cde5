"""The way to an HTTP/1.1 endpoint: a bounded number of connections, each opened again when it is lost.

Rule: where nothing listens, attempts come after pauses that grow to a second.
"""

from __future__ import annotations

import asyncio
import ssl
import time

from trilith.measure.load.connection import HttpConnection
from trilith.measure.load.lanes import FIRST_PAUSE_S, LONGEST_PAUSE_S, Lane, Load, connect_error
from trilith.measure.load.target import Target


class HttpStation:
    """Connections to one endpoint.

    Args:
        number: which of the loop's stations this is.
        target: the endpoint.
        timeout_s: seconds after which an attempt to connect is given up.
        items: content type of answers that are streams of items; "" for answers that are one.
    """

    def __init__(self, number: int, target: Target, *, timeout_s: float, items: str = "") -> None:
        self._number = number
        self._target = target
        self._timeout_s = timeout_s
        self._items = items
        self._connections: dict[int, HttpConnection] = {}
        self._opening: set[asyncio.Task[None]] = set()
        self._pauses_s: list[float] = []
        self._closed_bytes = 0
        self._load: Load | None = None
        self._tls: ssl.SSLContext | None = None
        self.connections_opened = 0

    @property
    def received_bytes(self) -> int:
        """Bytes read so far."""
        return self._closed_bytes + sum(connection.received_bytes for connection in self._connections.values())

    @property
    def open_lanes(self) -> int:
        """Connections that are open now."""
        return len(self._connections)

    def open(self, load: Load, lanes: int) -> None:
        """Begins to open so many connections, on the running event loop."""
        self._load = load
        self._pauses_s = [0.0] * lanes
        self._tls = ssl.create_default_context() if self._target.tls else None
        for slot in range(lanes):
            self._begin(slot, load)

    def waiting_lanes(self) -> list[Lane]:
        """Connections with a request in flight."""
        return [connection for connection in self._connections.values() if connection.waiting]

    def drop(self, lane: Lane) -> None:
        """Closes a connection and opens it again: nothing else makes an HTTP/1.1 server stop answering."""
        connection = self._connections.pop(lane.slot, None)
        if connection is None or self._load is None:
            return
        self._closed_bytes += connection.received_bytes
        connection.abort()
        self._begin(lane.slot, self._load)

    def lost(self, connection: HttpConnection, kind: str) -> None:
        """A connection is of no more use; called by itself."""
        load = self._load
        if load is None:
            return
        self._lengthen_pause(connection.slot)
        load.failed(connection, kind)
        self.drop(connection)

    def answered(self, slot: int) -> None:
        """A connection works, so the next attempt needs no pause."""
        self._pauses_s[slot] = 0.0

    async def close(self) -> None:
        """Drops everything."""
        self._load = None
        opening = list(self._opening)
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        for connection in self._connections.values():
            self._closed_bytes += connection.received_bytes
            connection.abort()
        self._connections.clear()

    def _begin(self, slot: int, load: Load) -> None:
        task = asyncio.get_running_loop().create_task(self._connect(slot, load))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    def _lengthen_pause(self, slot: int) -> None:
        self._pauses_s[slot] = min(LONGEST_PAUSE_S, max(FIRST_PAUSE_S, self._pauses_s[slot] * 2))

    async def _connect(self, slot: int, load: Load) -> None:
        while True:
            if self._pauses_s[slot]:
                await asyncio.sleep(self._pauses_s[slot])
            connection = HttpConnection(self, load, station=self._number, slot=slot, items=self._items)
            asked_at = time.perf_counter()
            try:
                async with asyncio.timeout(self._timeout_s):
                    await asyncio.get_running_loop().create_connection(
                        lambda made=connection: made, self._target.host, self._target.port, ssl=self._tls
                    )
            except (OSError, TimeoutError) as error:
                self._lengthen_pause(slot)
                load.unreachable(self._number, slot, connect_error(error))
                continue
            if not connection.reusable:
                connection.abort()
                continue
            self._connections[slot] = connection
            self.connections_opened += 1
            load.opened(connection, asked_at)
            return
