"""The same calls over a websocket: for when something between client and server holds a request until it is whole.

Rule: the last message of a call that fails says why, and its close says that it failed. So only a message that could be
that one waits for what follows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from trilith.errors import Draining, TrilithError
from trilith.service.client.duplex import CallConnection, DuplexServer
from trilith.service.client.encoding import Body, decode_error
from trilith.service.client.patience import Patience
from trilith.service.codecs import media
from trilith.wire.websocket import GOING_AWAY, NORMAL
from trilith.wire.websocket_client import WebSocketClient

_FAILED_STATUS: Final = 500
_SWITCHED: Final = 101
_TOLD: Final = b'{"error":{"code":'


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketServer(DuplexServer):
    """Where calls go. See `DuplexServer`."""

    async def open(
        self, path: str, body: Body, items: AsyncIterable[bytes], patience: Patience
    ) -> tuple[str, AsyncGenerator[bytes, None]]:
        """As `DuplexServer.open`; each piece is an item."""
        target, headers = self._asked(path, body.query, patience)
        headers["accept"] = body.accept
        self._head("GET", target, headers)  # which says what cannot be sent
        reader, writer = await self._connect(patience)
        call = _SocketCall(self.url, reader, writer, patience, self.places.free)
        try:
            return await call.begin(target, headers, items, raw=body.content_type == media.BINARY)
        except BaseException:
            call.close()
            raise


class _SocketCall(CallConnection):
    """One call on its websocket."""

    def __init__(
        self,
        url: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        patience: Patience,
        on_close: Callable[[], None],
    ) -> None:
        super().__init__(url, reader, writer, patience, on_close)
        self._socket = WebSocketClient()

    async def begin(
        self, target: str, headers: dict[str, str], items: AsyncIterable[bytes], *, raw: bool
    ) -> tuple[str, AsyncGenerator[bytes, None]]:
        socket = self._socket
        self._writer.write(socket.hello(headers["host"], target, headers))
        first: list[str | bytes] = []
        while not socket.status or (socket.status != _SWITCHED and not socket.refused):
            first += await self._messages()
        if socket.status != _SWITCHED:
            raise decode_error(socket.status, socket.refusal, socket.headers.get("retry-after"))
        self._sending = asyncio.ensure_future(self._send(items, raw=raw))
        found = self._items(first)
        await anext(found)  # closing one that has not begun would not end the call
        return media.JSON, found

    async def _items(self, came: list[str | bytes]) -> AsyncGenerator[bytes, None]:
        held: bytes | None = None
        try:
            yield b""
            while True:
                for message in came:
                    if held is not None:
                        yield held
                        held = None
                    octets = message.encode() if isinstance(message, str) else message
                    if octets.startswith(_TOLD) and isinstance(message, str):
                        held = octets
                    else:
                        yield octets
                if self._socket.code:
                    break
                came = await self._messages()
            if self._socket.code == NORMAL:
                if held is not None:
                    yield held
                return
            raise self._failure(held)
        finally:
            self.close()

    def _failure(self, told: bytes | None) -> TrilithError:
        code, reason = self._socket.code, self._socket.reason
        if told is not None:
            return decode_error(_FAILED_STATUS, told, None)
        if code == GOING_AWAY:
            return Draining(f"{self._url} has ended the call: {reason or 'it is stopping'}")
        return self._lost(f"it was closed with {code}{': ' if reason else ''}{reason}")

    async def _messages(self) -> list[str | bytes]:
        octets = await self._octets()
        if not octets:
            if self._socket.end():
                return []
            raise self._lost("it was closed")
        try:
            messages, answer = self._socket.push(octets)
        except ValueError as error:
            raise self._lost(str(error)) from error
        self._writer.write(answer)
        return messages

    async def _send(self, items: AsyncIterable[bytes], *, raw: bool) -> None:
        async with aclosing(self._taken(items)) as taken:
            async for item in taken:
                self._writer.write(self._socket.message(item if raw else item.decode().rstrip("\n")))
                await self._writer.drain()
        self._writer.write(self._socket.message(""))
        await self._writer.drain()
