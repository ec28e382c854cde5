"""What a replica's program counts, on its way to the gateway: half a second after it changed, over the connection.

Rule 1: nothing is sent while nothing changes, and what changes often is sent twice a second.
Rule 2: a new gateway is told every gauge; what was counted while there was none is told to the next.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from trilith.net.transport import Peer
from trilith.orchestration.engine.hello import Counted
from trilith.telemetry import FamilyDelta, Instruments

_EVERY_S: Final = 0.5
_MOST_SERIES: Final = 200  # in one notice, which is bounded


class CountingReplica:
    """Tells one gateway after another what `instruments` say."""

    def __init__(self, instruments: Instruments, *, replica_id: int, revision: int) -> None:
        self._instruments = instruments
        self._replica_id = replica_id
        self._revision = revision
        self._peer: Peer | None = None
        self._new = True
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        instruments.on_change(self._changed)

    def use(self, peer: Peer | None) -> None:
        """From now on this gateway is told; None: there is none."""
        self._peer = peer
        if peer is not None:
            self._new = True
            self._arm()

    def push(self) -> None:
        """Tells now what has changed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        peer = self._peer
        if peer is None or peer.closed:
            return  # `use` begins again
        families = self._instruments.take(again=self._new)
        self._new = False
        for part in _parts(families):
            counted = Counted(replica_id=self._replica_id, revision=self._revision, families=part)
            peer.notify(msgspec.msgpack.encode(counted))

    def close(self) -> None:
        """Tells the last, and nothing after it."""
        self._instruments.on_change(None)
        self.push()
        self._peer = None

    def _changed(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._arm)
        except RuntimeError:  # the loop has ended, and nobody is left to be told
            self._instruments.on_change(None)

    def _arm(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(_EVERY_S, self.push)


def _parts(families: list[FamilyDelta]) -> list[list[FamilyDelta]]:
    """The families in notices of a bounded size."""
    pieces = [
        msgspec.structs.replace(family, series=family.series[at : at + _MOST_SERIES])
        for family in families
        for at in range(0, len(family.series), _MOST_SERIES)
    ]
    parts: list[list[FamilyDelta]] = []
    room = 0
    for piece in pieces:
        if len(piece.series) > room:
            parts.append([])
            room = _MOST_SERIES
        parts[-1].append(piece)
        room -= len(piece.series)
    return parts
