"""The websocket of one call: where its items come from, and where those of the method go.

Rule 1: no task a call, as over HTTP: messages feed the call, and the call's items the socket, by callbacks.
Rule 2: a message is taken from the client when the method has room for it, and an item from the method when the client
    has. Who reads slowly holds who writes, and neither the connection to the replica nor the memory of this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from trilith.errors import (
    CapacityError,
    DeadlineExceeded,
    InvalidInput,
    TrilithError,
)
from trilith.net.http1 import HttpRequest, WebSocket
from trilith.net.transport import Buffer, Item
from trilith.orchestration.deployments import MethodRoute
from trilith.orchestration.engine.calls import PendingCall, nested_timeline
from trilith.orchestration.engine.router import Router
from trilith.orchestration.engine.sinks import NOT_BEGUN
from trilith.orchestration.engine.stream_calls import ItemGate, StreamCall
from trilith.telemetry import TimelineShelf
from trilith.wire.calls import unpack_result
from trilith.wire.http_status import error_body, http_status
from trilith.wire.stream_formats import BYTES
from trilith.wire.websocket import GOING_AWAY, NORMAL
from trilith.wire.websocket_calls import close_code, is_text, item_form, message_type, unasked, unwanted

Arguments = Callable[[str, bytes], None]
"""Takes the arguments of a call: their content type, and their octets."""

_STOPPING: Final = "the server is stopping"


class SocketSink:
    """One websocket of a streaming method."""

    __slots__ = (
        "_arguments",
        "_call",
        "_gate",
        "_going",
        "_input_over",
        "_opened",
        "_promised",
        "_request",
        "_route",
        "_router",
        "_socket",
        "_timelines",
        "_timer",
    )

    def __init__(self, request: HttpRequest, route: MethodRoute, router: Router, timelines: TimelineShelf) -> None:
        self._request = request
        self._route = route
        self._router = router
        self._timelines = timelines
        self._socket = WebSocket(request)
        self._call: StreamCall | None = None
        self._arguments: Arguments | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._gate = ItemGate()
        self._promised = ""
        self._opened = self._going = False
        self._input_over = not route.takes

    def ask(self, then: Arguments, *, trace: bool) -> None:
        """Answers the handshake, and gives the first message to `then`."""
        self._arguments = then
        self._open(trace=trace)
        self._timer = asyncio.get_running_loop().call_later(self._route.timeout_s, self._not_asked)

    def begin(self, call: StreamCall) -> None:
        """The call is about to be made."""
        self._call = call
        if self._input_over:
            call.end()
        self._request.on_disconnect = self._gone
        call.on_open = lambda: self._open(trace=call.trace)

    def _open(self, *, trace: bool) -> None:
        if self._opened or self._request.gone:
            return
        headers: tuple[tuple[bytes, bytes], ...] = ()
        if trace:
            self._promised, header = self._timelines.promise()
            headers = (header,)
        self._opened = True
        self._socket.open(None, headers)
        self._socket.when_draining(self._drain)
        self._socket.when_message(self._came)

    # From the client to the method.

    def _came(self) -> None:
        if self._socket.closed is not None and self._arguments is not None:
            self._end()  # it went before it had asked for anything
        elif self._arguments is not None:
            self._take_arguments()
        elif self._call is not None and not self._call.settled:
            self.writable(self._call)

    def _take_arguments(self) -> None:
        message = self._socket.take()
        if message is None or self._arguments is None:
            return
        then, self._arguments = self._arguments, None
        if self._timer is not None:
            self._timer.cancel()
        then(message_type(message), _octets(message))

    def _not_asked(self) -> None:
        where = f"{self._route.service}.{self._route.method}"
        self._fail(DeadlineExceeded(unasked(where, self._route.timeout_s)))

    def writable(self, call: StreamCall) -> None:
        """The method wants items."""
        try:
            while self._input_over or call.writable:
                message = self._socket.take()
                if message is None:
                    return
                if self._going:
                    continue  # it was told that nothing is taken any more
                if self._input_over:
                    if message != "":
                        where = f"{self._route.service}.{self._route.method}"
                        raise InvalidInput(unwanted(where, takes=bool(self._route.takes)))
                elif message == "":
                    self._input_over = True
                    call.end()
                elif isinstance(message, str):
                    call.send((message.encode(),))
                else:
                    call.send((message,), message_type(message).encode())
        except TrilithError as error:  # unwanted, or over what a frame carries
            self._router.cancel(call, error)

    # From the method to the client.

    def item(self, call: StreamCall, item: Item) -> None:
        """Sends an item."""
        octets = _joined(item.buffers)
        roomy = self._socket.write(octets) if item_form(call.route.offers) == BYTES else self._socket.write_text(octets)
        self._gate.wrote(call, item.size_bytes, roomy=roomy, when_writable=self._socket.when_writable)

    def answer(self, call: PendingCall, meta: bytes, buffers: Sequence[Buffer]) -> None:
        """Closes behind the last item, or behind the one result."""
        result = unpack_result(meta)
        self._open(trace=False)
        if not call.route.streams_out:
            octets = _joined(buffers)
            if is_text(result.content_type):
                self._socket.write_text(octets)
            else:
                self._socket.write(octets)
        if self._promised:
            self._timelines.keep(self._promised, call.timeline(nested_timeline(meta)))
        self._close(*((GOING_AWAY, _STOPPING) if self._going else (NORMAL, "")))

    def fail(self, call: PendingCall, error: TrilithError) -> None:
        """Tells the error: as the answer to the handshake, or in a last message."""
        if self._promised:
            self._timelines.keep(self._promised, call.timeline(None))
        if self._opened:
            self._fail(error)
            return
        refused = call.attempt == 0 and isinstance(error, CapacityError)
        self._request.respond_error(error, headers=NOT_BEGUN if refused else ())
        self._end()

    def _fail(self, error: TrilithError) -> None:
        if self._socket.closed is None:
            body = error_body(error, self._request.request_id)
            self._request.log_failure(http_status(error), body)
            self._socket.write_text(body)
        self._close(close_code(error), error.message)

    # The end.

    def _drain(self) -> None:
        """The server begins to stop. What answers as it is asked is asked no more; everything else is waited for."""
        call = self._call
        if call is None:
            self._close(GOING_AWAY, _STOPPING)
        elif self._route.takes and self._route.streams_out and not self._input_over:
            self._going = self._input_over = True
            call.end()
            self.writable(call)

    def _gone(self) -> None:
        if self._call is not None:
            self._router.cancel(self._call)

    def _close(self, code: int, reason: str) -> None:
        self._socket.end(code, reason)
        self._end()

    def _end(self) -> None:
        """Lets go of what leads back to the call."""
        if self._timer is not None:
            self._timer.cancel()
        if self._call is not None:
            self._call.on_open = None
        self._request.on_disconnect = None
        self._call = self._timer = self._arguments = None
        self._gate.clear()


def _octets(message: str | bytes) -> bytes:
    return message.encode() if isinstance(message, str) else message


def _joined(buffers: Sequence[Buffer]) -> bytes:
    return bytes(buffers[0]) if len(buffers) == 1 else b"".join(buffers)
