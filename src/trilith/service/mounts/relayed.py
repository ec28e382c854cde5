"""An exchange whose messages pass middleware on their way: for applications that are not called by ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from trilith.core.context import current_context
from trilith.service.codecs.native import Buffer
from trilith.service.mounts.exchange import ClientGone, Phase, checked_fields
from trilith.service.mounts.socket import SocketClosed
from trilith.wire.exchange import ExchangeHead, Field

_LOST = 1006


class RelayedExchange:
    """An `ExchangePort` that is made of the three things that an ASGI application gets."""

    _prefix = "http.response"

    def __init__(self, scope: Any, receive: Any, send: Any) -> None:
        self.head = ExchangeHead(
            method=scope.get("method", "GET"),
            raw_path=scope["raw_path"],
            root_path=scope["root_path"],
            query=scope["query_string"],
            headers=tuple((bytes(name), bytes(value)) for name, value in scope["headers"]),
            client=scope["client"],
            server=scope["server"],
            scheme={"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"]),
            http_version=scope["http_version"],
            whole=False,
            websocket=scope["type"] == "websocket",
            subprotocols=tuple(scope.get("subprotocols", ())),
        )
        self.phase = Phase.OPEN
        self.gone = False
        self.left_bytes: int | None = None
        self._receive = receive
        self._send = send
        self._ended = False
        self._changed = asyncio.Event()

    @property
    def context(self) -> Any:
        """As of every exchange."""
        return current_context.get()

    async def receive(self) -> bytes | None:
        """As of every exchange."""
        while not self._ended:
            message = await self._receive()
            if message["type"] != "http.request":
                self.leave()
                raise ClientGone
            self._ended = not message.get("more_body", False)
            self._changed.set()
            if message.get("body"):
                return bytes(message["body"])
        return None

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def leave(self) -> None:
        """As of every exchange."""
        self.gone = self.phase is not Phase.FINISHED
        self._changed.set()

    async def start(self, status: int, headers: Iterable[Field] = ()) -> None:
        """As of every exchange."""
        if self.phase is not Phase.OPEN:
            raise RuntimeError("an answer was begun that has begun before")
        self.phase = Phase.BEGUN
        fields = [(name.lower(), value) for name, value in checked_fields(headers)]  # as ASGI has them
        await self._tell({"type": f"{self._prefix}.start", "status": status, "headers": fields})

    async def send(self, data: Buffer) -> None:
        """As of every exchange."""
        await self._tell({"type": f"{self._prefix}.body", "body": bytes(data), "more_body": True})

    async def finish(self, data: Buffer = b"") -> None:
        """As of every exchange."""
        await self._tell({"type": f"{self._prefix}.body", "body": bytes(data), "more_body": False})
        self.phase = Phase.FINISHED
        self._changed.set()

    async def _tell(self, message: dict[str, Any]) -> None:
        try:
            await self._send(message)
        except OSError as error:
            self.leave()
            raise ClientGone from error

    async def wait_over(self) -> None:
        """As of every exchange. The client's going is seen when its body has been read."""
        while not (self._ended or self.gone or self.phase is Phase.FINISHED):
            await self._change()
        if not self.gone and self.phase is not Phase.FINISHED:
            await self._receive()
            self.leave()


class RelayedSocket(RelayedExchange):
    """A `SocketPort` that is made of the same."""

    _prefix = "websocket.http.response"
    _closed: tuple[int, str] | None = None
    _accepted = False

    @property
    def open(self) -> bool:
        """As of every websocket."""
        return self._accepted and self.phase is Phase.BEGUN

    async def receive(self) -> bytes | None:
        """A handshake has no body."""
        return None

    async def accept(self, subprotocol: str | None = None, headers: Iterable[Field] = ()) -> None:
        """As of every websocket."""
        await self._receive()  # `websocket.connect`
        self.phase = Phase.BEGUN
        self._accepted = True
        fields = [(name.lower(), value) for name, value in checked_fields(headers)]
        await self._tell({"type": "websocket.accept", "subprotocol": subprotocol, "headers": fields})

    async def receive_message(self) -> str | bytes:
        """As of every websocket."""
        if self._closed is None:
            message = await self._receive()
            if message["type"] == "websocket.receive":
                text = message.get("text")
                found: str | bytes = message["bytes"] if text is None else text
                return found
            self._closed = message.get("code", _LOST), message.get("reason") or ""
            self.leave()
        raise SocketClosed(*self._closed)

    async def send_message(self, message: str | bytes) -> None:
        """As of every websocket."""
        if self.gone or self._closed is not None:
            raise ClientGone
        await self._tell({"type": "websocket.send", "text" if isinstance(message, str) else "bytes": message})

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """As of every websocket."""
        if not self.gone and self._closed is None:
            await self._tell({"type": "websocket.close", "code": code, "reason": reason})
        self.phase = Phase.FINISHED
        self._changed.set()

    async def wait_over(self) -> None:
        """As of every exchange. The client's going is seen by who receives."""
        while not (self.gone or self.phase is Phase.FINISHED):
            await self._change()
