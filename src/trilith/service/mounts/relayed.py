"""An exchange whose messages pass middleware on their way: for applications that are not called by ASGI."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trilith.core.context import current_context
from trilith.service.codecs.native import Buffer
from trilith.service.mounts.exchange import ClientGone, Exchange, Phase, checked_fields
from trilith.wire.exchange import ExchangeHead, Field


class RelayedExchange(Exchange):
    """An `Exchange` of an HTTP request that is made of the three things that an ASGI application gets."""

    def __init__(self, scope: Any, receive: Any, send: Any) -> None:
        self.head = ExchangeHead(
            method=scope.get("method", "GET"),
            raw_path=scope["raw_path"],
            root_path=scope["root_path"],
            query=scope["query_string"],
            headers=tuple((bytes(name), bytes(value)) for name, value in scope["headers"]),
            client=scope["client"],
            server=scope["server"],
            scheme=scope["scheme"],
            http_version=scope["http_version"],
            whole=False,
        )
        self.phase = Phase.OPEN
        self.gone = False
        self.left_bytes = None
        self._receive = receive
        self._send = send
        self._ended = False
        self._prefix = "websocket.http.response" if scope["type"] == "websocket" else "http.response"

    @property
    def context(self) -> Any:
        """As of every exchange."""
        return current_context.get()

    async def receive(self) -> bytes | None:
        """As of every exchange."""
        while not self._ended:
            message = await self._receive()
            if message["type"] != "http.request":
                self.gone = True
                raise ClientGone
            self._ended = not message.get("more_body", False)
            if message.get("body"):
                return bytes(message["body"])
        return None

    async def start(self, status: int, headers: Iterable[Field] = ()) -> None:
        """As of every exchange."""
        self.phase = Phase.BEGUN
        fields = [(name.lower(), value) for name, value in checked_fields(headers)]  # as ASGI has them
        await self._send({"type": f"{self._prefix}.start", "status": status, "headers": fields})

    async def send(self, data: Buffer) -> None:
        """As of every exchange."""
        await self._body(data, more=True)

    async def finish(self, data: Buffer = b"") -> None:
        """As of every exchange."""
        await self._body(data, more=False)
        self.phase = Phase.FINISHED

    async def _body(self, data: Buffer, *, more: bool) -> None:
        try:
            await self._send({"type": f"{self._prefix}.body", "body": bytes(data), "more_body": more})
        except OSError:
            self.gone = True
            raise

    async def wait_over(self) -> None:
        """As of every exchange."""
        while not self._ended and not self.gone:
            await self.receive()
        if not self.gone:
            await self._receive()
