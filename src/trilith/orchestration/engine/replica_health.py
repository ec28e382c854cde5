"""Asks the instance of a replica how it is, again and again, and tells what changed.

Rule 1: a replica is not ready at the first no, and ready again at the first yes. It is given up after several that say
    that it is not alive: replacing it costs more than one answer that came too late.
Rule 2: each change is told once, with the reason.
Rule 3: the process of a command has a say as the instance has: it is not ready when it says so, and of no use when it
    is silent again and again. So has the host, of applications that it was given and that have failed since.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from trilith.service import IS_ALIVE, IS_READY, ServiceSpec, has_hook, why_not

_log: Final = logging.getLogger("trilith.service")
_AT_START_S: Final = 0.5


class Look(Protocol):
    """What a process was found to be."""

    @property
    def why_not(self) -> str:
        """Why it is not ready; "" when it is."""
        ...

    @property
    def silence(self) -> str:
        """Why it is taken for dead; "" when it gave a sign of life."""
        ...


class Looked(Protocol):
    """The process of a command."""

    async def look(self, timeout_s: float) -> Look:
        """Asks it."""
        ...


class ReplicaHealth:
    """Watches one instance.

    Args:
        spec: its service.
        instance: the instance.
        on_ready: told when it is ready and was not, or the reverse, and why not.
        on_dead: told why it should be replaced, once.
        command: the process of its command, if it has one.
        parts: says why a part of the replica does not work any more, or ""; None for no such part.

    Attributes:
        not_ready: why it takes no calls now; "" while it does.
    """

    def __init__(
        self,
        spec: ServiceSpec,
        instance: object,
        *,
        on_ready: Callable[[str], None],
        on_dead: Callable[[str], None],
        command: Looked | None = None,
        parts: Callable[[], str] | None = None,
    ) -> None:
        self.not_ready = ""
        self._name = spec.name
        self._options = spec.options
        self._instance = instance
        self._command = command
        self._parts = parts
        self._on_ready = on_ready
        self._on_dead = on_dead
        self._says_ready = has_hook(spec.target, IS_READY)
        self._says_alive = has_hook(spec.target, IS_ALIVE)
        self._dead_in_a_row = 0

    @property
    def has_a_say(self) -> bool:
        """Whether there is anything to ask."""
        return self._says_ready or self._says_alive or self._command is not None or self._parts is not None

    async def until_ready(self) -> None:
        """Returns when the instance is ready for its first call."""
        told = ""
        while self._says_ready:
            why = await self._why_not(IS_READY)
            if not why:
                return
            if why != told:
                _log.info("%s is not ready to begin: %s", self._name, why)
                told = why
            await asyncio.sleep(min(_AT_START_S, self._options.health_interval_s))

    async def watch(self) -> None:
        """Asks for ever, or until the replica is given up."""
        while self._dead_in_a_row < self._options.health_failures:
            await asyncio.sleep(self._options.health_interval_s)
            not_ready = not_alive = ""
            if self._command is not None:
                look = await self._command.look(self._options.health_timeout_s)
                not_ready = f"its command: {look.why_not}" if look.why_not else ""
                not_alive = f"its command: {look.silence}" if look.silence else ""
            if self._parts is not None:
                failed = self._parts()
                not_ready, not_alive = not_ready or failed, not_alive or failed
            if self._says_alive:
                not_alive = not_alive or await self._why_not(IS_ALIVE)
            if self._says_ready:
                not_ready = not_ready or await self._why_not(IS_READY)
            self._heard_alive(not_alive)
            self._heard_ready(not_ready)

    async def _why_not(self, hook: str) -> str:
        return await why_not(self._instance, hook, timeout_s=self._options.health_timeout_s)

    def _heard_ready(self, why: str) -> None:
        if bool(why) != bool(self.not_ready):
            if why:
                _log.warning("%s takes no calls any more: %s", self._name, why)
            else:
                _log.info("%s takes calls again", self._name)
            self.not_ready = why
            self._on_ready(why)

    def _heard_alive(self, why: str) -> None:
        self._dead_in_a_row = self._dead_in_a_row + 1 if why else 0
        if why:
            _log.warning("%s is not well (%d in a row): %s", self._name, self._dead_in_a_row, why)
        if self._dead_in_a_row == self._options.health_failures:
            self._on_dead(f"{why}, {self._dead_in_a_row} times in a row")
