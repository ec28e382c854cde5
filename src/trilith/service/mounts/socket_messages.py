"""The two functions that an ASGI application is called with for a websocket."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from trilith.service.mounts.exchange_port import SocketPort
from trilith.service.mounts.socket import SocketClosed

Message = MutableMapping[str, Any]


class SocketMessages:
    """Those of one websocket."""

    __slots__ = ("_connected", "_exchange")

    def __init__(self, exchange: SocketPort) -> None:
        self._exchange = exchange
        self._connected = False

    async def receive(self) -> Message:
        """`websocket.connect` first, then `websocket.receive`, at the end `websocket.disconnect`."""
        if not self._connected:
            self._connected = True
            return {"type": "websocket.connect"}
        exchange = self._exchange
        if not exchange.open:
            await exchange.wait_over()
            return {"type": "websocket.disconnect", "code": 1006, "reason": ""}
        try:
            message = await exchange.receive_message()
        except SocketClosed as closed:
            return {"type": "websocket.disconnect", "code": closed.code, "reason": closed.reason}
        return {"type": "websocket.receive", "text" if isinstance(message, str) else "bytes": message}

    async def send(self, message: Message) -> None:
        """Takes `websocket.accept`, `.send`, `.close`, and `.http.response.start` and `.body` for a refusal.

        Raises:
            ClientGone: the client has gone.
            RuntimeError: another message is due.
        """
        exchange, kind = self._exchange, message["type"]
        if kind == "websocket.send":
            text = message.get("text")
            await exchange.send_message(bytes(message["bytes"]) if text is None else text)
        elif kind == "websocket.accept":
            await exchange.accept(message.get("subprotocol"), _pairs(message))
        elif kind == "websocket.close":
            await exchange.close(message.get("code", 1000), message.get("reason") or "")
        elif kind == "websocket.http.response.start":
            await exchange.start(message["status"], _pairs(message))
        elif kind == "websocket.http.response.body":
            data = message.get("body", b"")
            await (exchange.send(data) if message.get("more_body", False) else exchange.finish(data))
        else:
            raise RuntimeError(f"an ASGI application sent {kind!r} to a websocket")


def _pairs(message: Message) -> list[tuple[bytes, bytes]]:
    return [(bytes(name), bytes(value)) for name, value in message.get("headers") or ()]
