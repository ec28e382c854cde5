"""A request for a websocket as its replica sees it. It may be refused as any request is answered (`Exchange.start`).

    await exchange.accept(subprotocol, headers)
    message = await exchange.receive_message()       str or bytes; raises SocketClosed
    await exchange.send_message("text")              returns when another one may follow
    await exchange.close(1000, "")

Rule: the client's close is told to who receives, behind the messages that came before it, and to who sends as
`ClientGone`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from typing import Any

from trilith.service.mounts.exchange import ClientGone, Exchange, Phase, checked_fields
from trilith.wire.calls import ResultMeta
from trilith.wire.exchange import BINARY, SWITCHING, TEXT, Field, pack_answer, pack_close, unpack_close

_LOST = 1006
_REFUSED = 403
_PROTOCOL = b"sec-websocket-protocol"


class SocketClosed(Exception):
    """The client has closed, or is lost.

    Attributes:
        code: 1006 when the connection was lost.
        reason: a few words, or "".
    """

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"the websocket is closed ({code}{': ' if reason else ''}{reason})")
        self.code = code
        self.reason = reason


class SocketExchange(Exchange):
    """See the head of this file; `Exchange` for the arguments."""

    _closed: tuple[int, str] | None = None
    _closing = False  # its close is among what was not received yet

    @property
    def left(self) -> bool:
        """Whether the client has closed, or is gone."""
        return self.gone or self._closing or self._closed is not None

    def _on_item(self, item: Any) -> None:
        self._closing = self._closing or unpack_close(item.meta) is not None
        super()._on_item(item)

    async def receive(self) -> bytes | None:
        """A handshake has no body."""
        return None

    async def accept(self, subprotocol: str | None = None, headers: Iterable[Field] = ()) -> None:
        """Answers the handshake.

        Args:
            subprotocol: one of `head.subprotocols`, or None.
            headers: further headers of the answer.

        Raises:
            ClientGone: the client has gone.
            RuntimeError: it was answered before, or that cannot be sent.
        """
        if self.phase is not Phase.OPEN:
            raise RuntimeError("a websocket was accepted that was answered before")
        fields = [field for field in checked_fields(headers) if field[0].lower() != _PROTOCOL]
        if subprotocol is not None:
            if subprotocol not in self.head.subprotocols:
                raise RuntimeError(f"the client of a websocket does not offer the subprotocol {subprotocol!r:.100}")
            fields.append((_PROTOCOL, subprotocol.encode("latin-1")))
        if self.gone:
            raise ClientGone
        call = self._call
        self.phase = Phase.BEGUN
        call.port.on_writable = self._changed.set
        call.sent_item()
        call.limit_s = math.inf
        self._ended = False
        call.port.send((), pack_answer(SWITCHING, fields))
        self._asked = True  # who only sends has to learn of the client's close too
        call.port.receive(self._on_item, self._on_end)

    async def receive_message(self) -> str | bytes:
        """The next message.

        Raises:
            SocketClosed: there are no more.
            RuntimeError: the websocket was not accepted, or is closed.
        """
        if self.phase is not Phase.BEGUN:
            raise RuntimeError("a message of a websocket was asked for " + self._when())
        if self._closed is not None:
            raise SocketClosed(*self._closed)
        try:
            item = await self._item()
        except ClientGone:
            item = None
        if item is None:
            self._closed = (_LOST, "")
            raise SocketClosed(*self._closed)
        self._call.port.took(item.size_bytes)
        self._closed = unpack_close(item.meta)
        if self._closed is not None:
            raise SocketClosed(*self._closed)
        message = bytes(item.buffers[0]) if len(item.buffers) == 1 else b"".join(item.buffers)
        return message.decode() if item.meta == TEXT else message

    async def send_message(self, message: str | bytes) -> None:
        """Sends a message; returns when another one may follow.

        Raises:
            ClientGone: the client has closed, or is gone.
            RuntimeError: the websocket was not accepted, or is closed.
        """
        if self.phase is not Phase.BEGUN:
            raise RuntimeError("a message of a websocket was sent " + self._when())
        if self.left:
            raise ClientGone
        await self._room()
        self._call.sent_item()
        if isinstance(message, str):
            self._call.port.send((message.encode(),), TEXT)
        else:
            self._call.port.send((message,), BINARY)
        await self._room()

    def _when(self) -> str:
        return "before it was accepted" if self.phase is Phase.OPEN else "after it was closed"

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Closes behind what was sent; before `accept` it refuses the handshake with 403.

        Raises:
            ClientGone: the client has gone before `accept`.
            RuntimeError: it is closed already.
        """
        if self.phase is Phase.OPEN:
            await self.start(_REFUSED)
            await self.finish()
            return
        if self.phase is not Phase.BEGUN:
            raise RuntimeError("a websocket was closed twice")
        with contextlib.suppress(ClientGone):
            await self._room()
            self._call.port.send((), pack_close(code, reason))
        self.phase = Phase.FINISHED
        self._call.finish(ResultMeta(""))
        self._finished()

    async def returned(self, where: str) -> None:
        """What answers has returned: a websocket that is open is closed.

        Raises:
            RuntimeError: it has neither accepted nor refused.
        """
        if self.phase is Phase.BEGUN and not self.gone and self.open:
            await self.close()
        else:
            await super().returned(where)

    @property
    def open(self) -> bool:
        """Whether it was accepted, and not closed from here."""
        return self.phase is Phase.BEGUN and not self._status
