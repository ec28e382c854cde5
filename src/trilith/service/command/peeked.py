"""A request of which the first piece was read before it is passed on: to know whether it has a body."""

from __future__ import annotations

from collections.abc import Iterable

from trilith.service.command.relay import Bodies
from trilith.wire.http1.passed_headers import Header


class Peeked:
    """A `Bodies`: the piece `first`, and what `bodies` has."""

    def __init__(self, bodies: Bodies, first: bytes) -> None:
        self._bodies = bodies
        self._first = first

    async def receive(self) -> bytes | None:
        """As of all bodies."""
        if self._first:
            first, self._first = self._first, b""
            return first
        return await self._bodies.receive()

    async def start(self, status: int, headers: Iterable[Header] = ()) -> None:
        """As of all bodies."""
        await self._bodies.start(status, headers)

    async def send(self, data: bytes) -> None:
        """As of all bodies."""
        await self._bodies.send(data)

    async def finish(self, data: bytes = b"") -> None:
        """As of all bodies."""
        await self._bodies.finish(data)
