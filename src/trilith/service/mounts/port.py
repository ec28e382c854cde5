"""What a replica needs of something that answers HTTP by itself, and what that gets of its replica."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from trilith.service.mounts.app_threads import AppThreads
from trilith.service.mounts.exchange_port import ExchangePort

InThread = Callable[..., Awaitable[Any]]
"""Runs a function in a thread of the replica's own; the next one waits when all are taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MountPlace:
    """Where an application is mounted.

    Attributes:
        path: the mount's: "/ui"; "/" for the root.
        where: for messages: `Shop: the mount at /ui`.
        instance: of the service.
        in_thread: of the replica.
        threads: of its WSGI applications.
    """

    path: str
    where: str
    instance: Any
    in_thread: InThread
    threads: AppThreads


class MountedApp(Protocol):
    """An application that is mounted. All of it is called on the replica's loop.

    `cancellable`: its work on an exchange ends when the task of `answer` is cancelled. One whose work is done in a
    thread is told by its exchange alone, and holds its place until it has ended.
    """

    cancellable: bool

    @property
    def why_not(self) -> str:
        """Why it does not work any more, as a sentence; "" while it does."""
        ...

    async def start(self) -> None:
        """Gets ready; called once, before the first exchange.

        Raises:
            SetupError: it cannot be.
        """
        ...

    async def answer(self, exchange: ExchangePort) -> None:
        """Answers one request. What it raises before its answer has begun is answered with 500, after that it cuts it.

        It may go on when it has answered: that holds no place.
        """
        ...

    async def stop(self, timeout_s: float) -> None:
        """Ends, after the last exchange."""
        ...


OpenApp = Callable[[MountPlace], Awaitable[MountedApp]]
"""Makes the application of one instance; `start` follows. Raises SetupError."""
