"""A mount whose application is ready, and how much of its work goes on after the answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from trilith.service.call import ServiceCall
from trilith.service.mounts.port import MountedApp

_log: Final = logging.getLogger("trilith.service")


class OpenMount:
    """One mount.

    Args:
        where: for messages.
        app: what answers.
        timeout_s: the time limit by the path of a request.
        most_behind: how many works may go on after their answers before the next request waits.

    Attributes:
        behind: works that go on after their answers.
        waiting: requests that wait until one of those ends.
    """

    def __init__(self, where: str, app: MountedApp, timeout_s: Callable[[str], float], most_behind: int) -> None:
        self.where = where
        self.app = app
        self.timeout_s = timeout_s
        self.behind = 0
        self.waiting: set[ServiceCall] = set()
        self._most_behind = most_behind
        self._room = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether so much goes on that requests have to wait."""
        return self.behind >= self._most_behind

    def answered(self) -> None:
        """An answer has ended; its work goes on."""
        self.behind += 1

    def ended(self) -> None:
        """Such a work has ended."""
        self.behind -= 1
        self._room.set()

    async def wait_for_room(self, call: ServiceCall) -> None:
        """Returns when less goes on."""
        if not self.waiting:
            _log.warning(
                "%s: its work on %d requests goes on after their answers, which is as much as may: the next ones wait",
                self.where,
                self.behind,
            )
        self.waiting.add(call)
        try:
            while self.is_full:
                self._room.clear()
                await self._room.wait()
        finally:
            self.waiting.discard(call)
