"""The way to a gRPC server: few connections with many calls each, opened again when they are lost."""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import Final

from trilith.measure.load.grpc_connection import GrpcConnection
from trilith.measure.load.grpc_lane import GrpcLane
from trilith.measure.load.grpc_target import GrpcTarget
from trilith.measure.load.lanes import CLOSED, FIRST_PAUSE_S, LONGEST_PAUSE_S, Lane, Load, connect_error

CALLS_PER_CONNECTION: Final = 100
"""What most servers allow."""


class GrpcStation:
    """Connections to one server.

    Args:
        number: which of the loop's stations this is.
        target: the server.
        timeout_s: seconds after which an attempt to connect is given up.
        counts: whether answers are streams, whose messages are counted.
        connections: how many; 0: as many as it takes with 100 calls on each.
    """

    def __init__(
        self, number: int, target: GrpcTarget, *, timeout_s: float, counts: bool = False, connections: int = 0
    ) -> None:
        self._number = number
        self._target = target
        self._timeout_s = timeout_s
        self._counts = counts
        self._wanted = connections
        self._lanes_of: list[int] = []
        self._connections: dict[int, GrpcConnection] = {}
        self._lanes: dict[int, list[GrpcLane]] = {}
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
        """Calls that can be in flight now."""
        return sum(map(len, self._lanes.values()))

    def open(self, load: Load, lanes: int) -> None:
        """Begins to open as many connections as so many calls take, on the running event loop."""
        self._load = load
        number = min(self._wanted or -(-lanes // CALLS_PER_CONNECTION), lanes)
        self._lanes_of = [lanes // number + (slot < lanes % number) for slot in range(number)]
        self._pauses_s = [0.0] * number
        if self._target.tls:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["h2"])
        for slot in range(number):
            self._begin(slot, load)

    def waiting_lanes(self) -> list[Lane]:
        """Lanes with a call in flight."""
        return [lane for lanes in self._lanes.values() for lane in lanes if lane.waiting]

    def drop(self, lane: Lane) -> None:
        """Cancels the call in flight on a lane. The lane is as good as new, unless its connection is not."""
        load = self._load
        if load is None or not isinstance(lane, GrpcLane):
            return
        if lane.waiting:
            lane.cancel()
        if lane.reusable:
            load.opened(lane, time.perf_counter())
            return
        for lanes in self._lanes.values():
            if lane in lanes:
                lanes.remove(lane)  # the rest of it is told when its connection is lost

    def ready(self, connection: GrpcConnection) -> None:
        """The server has greeted; called by the connection."""
        load = self._load
        if load is None:
            return
        self._pauses_s[connection.slot] = 0.0
        number = min(self._lanes_of[connection.slot], connection.max_streams)
        before = sum(self._lanes_of[: connection.slot])
        lanes = self._lanes[connection.slot] = [
            GrpcLane(connection, station=self._number, slot=before + index, counts=self._counts)
            for index in range(number)
        ]
        for lane in lanes:
            load.opened(lane, connection.asked_at)

    def draining(self, connection: GrpcConnection) -> None:
        """The server takes no more calls on a connection: its idle lanes are gone; called by the connection."""
        load, lanes = self._load, self._lanes.get(connection.slot, [])
        for lane in [each for each in lanes if not each.waiting]:
            lanes.remove(lane)
            if load is not None:
                load.failed(lane, CLOSED)

    def lost(self, connection: GrpcConnection, kind: str) -> None:
        """A connection is of no more use; called by itself."""
        load = self._load
        if load is None:
            return
        slot = connection.slot
        self._connections.pop(slot, None)
        self._closed_bytes += connection.received_bytes
        self._pauses_s[slot] = min(LONGEST_PAUSE_S, max(FIRST_PAUSE_S, self._pauses_s[slot] * 2))
        lanes = self._lanes.pop(slot, None)
        if lanes is None:
            load.unreachable(self._number, slot, kind)
        for lane in lanes or ():
            load.failed(lane, kind)
            lane.waiting = False
        self._begin(slot, load)

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
        self._lanes.clear()

    def _begin(self, slot: int, load: Load) -> None:
        task = asyncio.get_running_loop().create_task(self._connect(slot, load))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _connect(self, slot: int, load: Load) -> None:
        while True:
            if self._pauses_s[slot]:
                await asyncio.sleep(self._pauses_s[slot])
            connection = GrpcConnection(self, load, slot)
            connection.asked_at = time.perf_counter()
            self._connections[slot] = connection
            try:
                async with asyncio.timeout(self._timeout_s):
                    await asyncio.get_running_loop().create_connection(
                        lambda made=connection: made, self._target.host, self._target.port, ssl=self._tls
                    )
            except (OSError, TimeoutError) as error:
                self._connections.pop(slot, None)
                self._pauses_s[slot] = min(LONGEST_PAUSE_S, max(FIRST_PAUSE_S, self._pauses_s[slot] * 2))
                load.unreachable(self._number, slot, connect_error(error))
                continue
            self.connections_opened += 1
            return
