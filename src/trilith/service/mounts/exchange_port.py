"""What a mounted application needs of an exchange, wherever its messages go: to the gateway, or to middleware."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeGuard

from trilith.service.codecs.native import Buffer
from trilith.service.mounts.exchange import Phase
from trilith.wire.exchange import ExchangeHead, Field


class ExchangePort(Protocol):
    """A request, and the way to answer it; `Exchange` says what each of these does, and raises."""

    head: ExchangeHead
    phase: Phase
    gone: bool
    left_bytes: int | None

    @property
    def context(self) -> Any:
        """The circumstances of the call."""
        ...

    async def receive(self) -> bytes | None:
        """The next piece of the body; None at its end."""
        ...

    async def start(self, status: int, headers: Iterable[Field] = ()) -> None:
        """Says the head of the answer."""
        ...

    async def send(self, data: Buffer) -> None:
        """Sends a piece of its body."""
        ...

    async def finish(self, data: Buffer = b"") -> None:
        """Sends its last piece, and ends it."""
        ...

    def leave(self) -> None:
        """Nobody waits for the answer any more."""
        ...

    async def wait_over(self) -> None:
        """Returns when the answer has ended, or nobody waits for it any more."""
        ...


class SocketPort(ExchangePort, Protocol):
    """A request for a websocket; `SocketExchange` says what each of these does, and raises."""

    @property
    def open(self) -> bool:
        """Whether it was accepted, and not closed from here."""
        ...

    async def accept(self, subprotocol: str | None = None, headers: Iterable[Field] = ()) -> None:
        """Answers the handshake."""
        ...

    async def receive_message(self) -> str | bytes:
        """The next message."""
        ...

    async def send_message(self, message: str | bytes) -> None:
        """Sends a message."""
        ...

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Closes it, or refuses the handshake."""
        ...


def is_socket(exchange: ExchangePort) -> TypeGuard[SocketPort]:
    """Whether it is for a websocket."""
    return exchange.head.websocket
