"""The websocket of a raw exchange: messages to what answers HTTP by itself, and those of it back.

Rule 1: the handshake is answered by the replica: with 101 it is a websocket, with anything else a refusal in HTTP.
Rule 2: as of every stream, who reads slowly holds who writes, and nothing is kept here beyond the windows.
Rule 3: the client's close goes to the replica behind its messages. One that does not end then is taken back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from trilith.core.header_fields import is_servers_word
from trilith.errors import CapacityError, Draining, ServiceError, TrilithError
from trilith.net.http1 import HttpRequest, WebSocket
from trilith.net.transport import Buffer, Item
from trilith.orchestration.engine.calls import PendingCall
from trilith.orchestration.engine.exchange_sink import HttpExchangeSink
from trilith.orchestration.engine.router import Router
from trilith.orchestration.engine.stream_calls import ItemGate, StreamCall
from trilith.telemetry import TimelineShelf
from trilith.wire.exchange import BINARY, SWITCHING, TEXT, pack_close, unpack_answer, unpack_close
from trilith.wire.http_status import error_body, http_status
from trilith.wire.websocket import FAILED, GOING_AWAY, NORMAL, TRY_LATER

_PATIENCE_S: Final = 5.0
_PROTOCOL: Final = b"sec-websocket-protocol"


class SocketExchangeSink:
    """One request for a websocket of a mount."""

    __slots__ = ("_call", "_gate", "_http", "_opened", "_request", "_router", "_socket", "_timer", "_told")

    def __init__(self, request: HttpRequest, router: Router, timelines: TimelineShelf) -> None:
        self._request = request
        self._router = router
        self._http = HttpExchangeSink(request, router, timelines)  # for a refusal
        self._socket = WebSocket(request)
        self._call: StreamCall | None = None
        self._opened = self._told = False
        self._gate = ItemGate()
        self._timer: asyncio.TimerHandle | None = None

    # From the client to the replica.

    def _came(self) -> None:
        call = self._call
        if call is None or call.settled:
            return
        if self._socket.closed is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_PATIENCE_S, self._router.cancel, call)
        self.writable(call)

    def writable(self, call: StreamCall) -> None:
        """The replica wants messages."""
        try:
            while self._opened and not self._told and call.writable:
                message = self._socket.take()
                if isinstance(message, str):
                    call.send((message.encode(),), TEXT)
                elif message is not None:
                    call.send((message,), BINARY)
                elif self._socket.closed is not None:
                    self._told = True
                    call.send((), pack_close(self._socket.closed.code, self._socket.closed.reason))
                    call.end()
                else:
                    return
        except TrilithError as error:  # over what a frame carries
            self._router.cancel(call, error)

    # From the replica to the client.

    def item(self, call: StreamCall, item: Item) -> None:
        """Answers the handshake with the first item; sends a message, or closes, with any other."""
        if not self._opened:
            self._answer_handshake(call, item)
            return
        if self._socket.closed is not None:
            return  # not passed on, and so not asked for more
        roomy = self._write(item)
        self._gate.wrote(call, item.size_bytes, roomy=roomy, when_writable=self._socket.when_writable)

    def _answer_handshake(self, call: StreamCall, item: Item) -> None:
        try:
            found = unpack_answer(item.meta) if item.meta else None
            if found is None or found[0] != SWITCHING:
                self._http.item(call, item)
            elif not self._request.gone:
                self._open(call, found[1])
                call.passed(item.size_bytes)
                self._came()
        except TrilithError as error:  # such an answer cannot be sent
            self._router.cancel(call, error)

    def _open(self, call: StreamCall, headers: list[tuple[bytes, bytes]]) -> None:
        chosen = next((value.decode("latin-1") for name, value in headers if name.lower() == _PROTOCOL), None)
        self._call = call
        self._socket.open(chosen, [field for field in headers if not _is_told_elsewhere(field[0].lower())])
        self._opened = True
        self._request.on_disconnect = None
        self._socket.when_message(self._came)

    def _write(self, item: Item) -> bool:
        close = unpack_close(item.meta)
        if close is not None:
            try:
                self._socket.end(*close)
            except ServiceError:  # a code that is not for anybody to send
                self._socket.end(FAILED, f"closed with {close[0]}")
            return True
        octets = bytes(item.buffers[0]) if len(item.buffers) == 1 else b"".join(item.buffers)
        return self._socket.write_text(octets) if item.meta == TEXT else self._socket.write(octets)

    def answer(self, call: PendingCall, meta: bytes, buffers: Sequence[Buffer]) -> None:
        """The replica has ended: closes, or refuses."""
        if self._opened:
            self._socket.end(NORMAL)
        else:
            self._http.answer(call, meta, buffers)
        self._end()

    def fail(self, call: PendingCall, error: TrilithError) -> None:
        """It failed: closes with 1011 (1001: it stops; 1013: its place is wanted), or answers the handshake."""
        if not self._opened:
            self._http.fail(call, error)
        elif self._socket.closed is None:
            self._request.log_failure(http_status(error), error_body(error, self._request.request_id))
            self._socket.end(_close_code(error), error.message)
        self._end()

    def _end(self) -> None:
        """Lets go of what leads back to the call."""
        if self._timer is not None:
            self._timer.cancel()
        self._request.on_disconnect = None
        self._call = self._timer = None
        self._gate.clear()


def _close_code(error: TrilithError) -> int:
    if isinstance(error, Draining):
        return GOING_AWAY
    return TRY_LATER if isinstance(error, CapacityError) else FAILED


def _is_told_elsewhere(name: bytes) -> bool:
    return name == _PROTOCOL or is_servers_word(name)
