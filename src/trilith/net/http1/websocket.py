"""A websocket as an application sees it: accept it or refuse the request, then messages both ways.

    async def app(request):
        if request.switches is None:
            raise MethodNotAllowed(...)
        websocket = WebSocket(request)        # to refuse: answer the request as any other
        await websocket.accept()
        try:
            while True:
                await websocket.send(await websocket.receive())
        except WebSocketClosed:
            ...

Rule 1: a handshake that an application sees is in order (`wire.http1.upgrade`), and is answered like any request until
    it is accepted.
Rule 2: from then on the client's going cancels nobody: who receives or sends is told by `WebSocketClosed`. An
    application that ends closes it, one that fails closes it with 1011.
Rule 3: all methods are called on the loop's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from trilith.errors import Bug, ServiceError
from trilith.net.http1.outbound import Outbound
from trilith.net.http1.request import HttpRequest
from trilith.net.http1.websocket_connection import WebSocketConnection
from trilith.wire.http1 import accept_token, listed
from trilith.wire.websocket import LOST, NORMAL, may_close_with
from trilith.wire.websocket_deflate import agreed

_PROTOCOLS: Final = b"sec-websocket-protocol"
_EXTENSIONS: Final = b"sec-websocket-extensions"


class WebSocketClosed(Exception):
    """The websocket is over: nothing comes any more, nothing can be sent.

    Attributes:
        code: of the close, whoever sent it; 1005 for one without, 1006 when the connection was lost.
        reason: a few words, or "".
    """

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"the websocket is closed ({code}{': ' if reason else ''}{reason})")
        self.code = code
        self.reason = reason


class WebSocket:
    """The websocket that a request asks for.

    Args:
        request: one whose `switches` is set.

    Attributes:
        subprotocols: those that the client offers, its favourite first.

    Raises:
        Bug: the request asks for none, or was answered.
    """

    def __init__(self, request: HttpRequest) -> None:
        if request.switches is None:
            raise Bug(f"{request!r}: does not ask to become a websocket: look at `switches` before")
        self._request: HttpRequest | None = request
        self._connection: WebSocketConnection | None = None
        self.subprotocols: tuple[str, ...] = tuple(listed(request.headers, _PROTOCOLS))

    def __repr__(self) -> str:
        connection = self._connection
        how = "asked for" if connection is None else f"closed ({connection.code})" if connection.code else "open"
        return f"<WebSocket {how}>"

    # For coroutines.

    async def accept(self, subprotocol: str | None = None, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        """As `open`."""
        self.open(subprotocol, headers)

    async def receive(self) -> str | bytes:
        """The next message: text or bytes. For one reader at a time.

        Raises:
            WebSocketClosed: there are no more.
            Bug: it is not open yet.
        """
        connection = self._opened
        while True:
            message = connection.take()
            if message is not None:
                return message
            if connection.code:
                raise WebSocketClosed(connection.code, connection.reason)
            await connection.wait()

    async def send(self, message: str | bytes) -> None:
        """Sends a message; returns when another may follow.

        Raises:
            WebSocketClosed: it is over.
            ServiceError: the text cannot be written as UTF-8.
            Bug: it is not open yet.
        """
        connection = self._opened
        if connection.code:
            raise WebSocketClosed(connection.code, connection.reason)
        if not self.write(message):
            await connection.room()

    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        """As `end`."""
        self.end(code, reason)

    # Without a task.

    def open(self, subprotocol: str | None = None, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        """Answers the handshake.

        Args:
            subprotocol: one of `subprotocols`, or None for none.
            headers: further headers of the answer.

        Raises:
            ServiceError: the client does not offer the subprotocol, or a header cannot be sent. The request is still
                open then.
            WebSocketClosed: the client has gone.
            Bug: the request was answered.
        """
        request = self._request
        if request is None or request.gone:
            raise WebSocketClosed(LOST, "")
        switching = request.switches
        if switching is None:
            raise Bug(f"{request!r}: answered twice")
        if subprotocol is not None and subprotocol not in self.subprotocols:
            offered = ", ".join(self.subprotocols) or "none"
            raise ServiceError(f"the client of a websocket offers the subprotocols {offered}, not {subprotocol[:100]}")
        deflate = agreed([value.decode("latin-1") for name, value in request.headers if name == _EXTENSIONS])
        fields: list[tuple[bytes, bytes]] = []
        if subprotocol is not None:
            fields.append((_PROTOCOLS, subprotocol.encode("latin-1")))
        if deflate is not None:
            fields.append((_EXTENSIONS, deflate.answer.encode()))
        head = switching.heads.switching(
            accept_token(request.headers), request.request_id, request.said(headers), fields=fields
        )

        def make(out: Outbound) -> WebSocketConnection:
            connection = request.websocket = WebSocketConnection(switching.state, request, out, deflate)
            return connection

        request.begin_stream()
        request.detach()
        rest = switching.switch(request, head, make)
        self._connection, self._request = request.websocket, None
        if rest and self._connection is not None:
            self._connection.data_received(rest)

    @property
    def closed(self) -> WebSocketClosed | None:
        """How it ended; None while it is open, or not open yet."""
        connection = self._connection
        return (
            None if connection is None or not connection.code else WebSocketClosed(connection.code, connection.reason)
        )

    def take(self) -> str | bytes | None:
        """The next message that is here, or None."""
        return self._opened.take()

    def when_message(self, callback: Callable[[], None]) -> None:
        """Calls back whenever messages have come, and once when it is over. Take what can be taken, and look at
        `closed`: messages that are not taken wait, and hold the client when they are many."""
        self._opened.when_message(callback)

    def write(self, message: str | bytes) -> bool:
        """Sends a message. Whether the client reads fast enough: if not, wait for `when_writable`.

        Does nothing when it is over.

        Raises:
            ServiceError: the text cannot be written as UTF-8.
        """
        if isinstance(message, str):
            try:
                return self._opened.write(message.encode(), text=True)
            except UnicodeEncodeError as error:
                raise ServiceError(f"a text message of a websocket must be valid Unicode: {error}") from error
        return self._opened.write(message, text=False)

    def write_text(self, message: bytes) -> bool:
        """As `write`, of a text that is UTF-8 already."""
        return self._opened.write(message, text=True)

    def when_writable(self, callback: Callable[[], None]) -> None:
        """Calls back once, when the client has read enough, or it is over."""
        self._opened.when_room(callback)

    def when_draining(self, callback: Callable[[], None]) -> None:
        """Calls back when the server begins to stop, instead of closing (1001). Close it in time: what is open when
        the time for that is over is closed then."""
        self._opened.on_drain = callback

    def end(self, code: int = NORMAL, reason: str = "") -> None:
        """Closes it, behind what was sent. Does nothing when it is over.

        Args:
            code: 1000 to 1003, 1007 to 1014, or 3000 to 4999.
            reason: a few words, cut after 123 bytes.

        Raises:
            ServiceError: there is no such code.
        """
        if not may_close_with(code):
            raise ServiceError(f"a websocket is closed with 1000 to 1003, 1007 to 1014 or 3000 to 4999, got {code!r}")
        self._opened.close(code, reason)

    @property
    def _opened(self) -> WebSocketConnection:
        if self._connection is None:
            raise Bug("a websocket is to be accepted before it is used")
        return self._connection
