"""A command as a mount of its service: what lies under its path goes to its process.

Rule: when the client goes, the connection to the process is closed at once, and the work there may end.
"""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import PurePath
from typing import Any, Final

from trilith.errors import Bug
from trilith.service.command.declared import RUNNING_ATTRIBUTE
from trilith.service.command.headers import Asked, may_hide_body
from trilith.service.command.options import Command
from trilith.service.command.peeked import Peeked
from trilith.service.command.relay import relay
from trilith.service.command.running import RunningCommand
from trilith.service.command.sockets import relay_socket
from trilith.service.mounts.declare import MountOptions
from trilith.service.mounts.exchange_port import ExchangePort, is_socket
from trilith.service.mounts.port import MountPlace
from trilith.service.mounts.spec import MountSpec
from trilith.service.spec import ServiceSpec

_NAME: Final = "cmd"


class CommandMount(MountSpec):
    """The declaration."""

    def __init__(self, service: ServiceSpec, command: Command) -> None:
        super().__init__(_NAME, service, MountOptions(path=command.path), command)
        self._command = command
        self._of = service.name

    @property
    def where(self) -> str:
        """For messages."""
        return f"{self._of}: its command"

    @property
    def documentation(self) -> str:
        """The name of the program: it is published, and arguments may be secrets."""
        return f"Answered by {PurePath(self._command.arguments[0]).name}." if self._command.arguments else ""

    async def open(self, place: MountPlace) -> MountedCommand:
        """What passes requests to the process of one instance, which runs already."""
        running = getattr(place.instance, RUNNING_ATTRIBUTE, None)
        if not isinstance(running, RunningCommand):
            raise Bug(f"{self._of} has no process")
        return MountedCommand(running, self._of, strip_path=self._command.strip_path)


class MountedCommand:
    """A `MountedApp`."""

    why_not = ""
    cancellable = True

    def __init__(self, running: RunningCommand, name: str, *, strip_path: bool) -> None:
        self._running = running
        self._name = name
        self._strip_path = strip_path

    async def start(self) -> None:
        """It runs already: the instance may need it when it is entered."""

    async def answer(self, exchange: ExchangePort) -> None:
        """Passes one request on."""
        asked = self._asked(exchange)
        watch = asyncio.create_task(_end_when_left(exchange, asyncio.current_task()))
        try:
            if is_socket(exchange):
                await relay_socket(asked, exchange, self._running, self._name)
            elif may_hide_body(asked, exchange.head.http_version) and (first := await exchange.receive()):
                asked = dataclasses.replace(asked, has_body=True)
                await relay(asked, Peeked(exchange, first), self._running, self._name)
            else:
                await relay(asked, exchange, self._running, self._name)
        finally:
            watch.cancel()

    def _asked(self, exchange: ExchangePort) -> Asked:
        head = exchange.head
        strip = self._strip_path and bool(head.root_path)
        context: Any = exchange.context
        return Asked(
            method=head.method,
            raw_path=head.raw_path_below if strip else head.raw_path,
            query=head.query,
            headers=head.headers,
            client=head.client[0] if head.client is not None else "",
            scheme=head.scheme,
            prefix=head.root_path if strip else "",
            request_id=context.request_id,
        )

    async def stop(self, timeout_s: float) -> None:
        """Its process is ended by who started it."""


async def _end_when_left(exchange: ExchangePort, task: asyncio.Task[Any] | None) -> None:
    """Cancels the task when the client has gone."""
    await exchange.wait_over()
    if exchange.gone and task is not None:
        task.cancel()
