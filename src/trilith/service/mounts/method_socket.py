"""A streaming method behind middleware, over a websocket: as at the gateway (`trilith.wire.websocket_calls`).

Rule: the handshake is accepted when the call is made; what is wrong before that has its status in HTTP. A method that
takes no stream and finds no query string has its arguments in the first message, so there the handshake is first.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from trilith.errors import DeadlineExceeded, InvalidInput, TrilithError
from trilith.service.mounts.inner_call import Handle, envelope, wait_end, when_ended
from trilith.service.spec import MethodSpec
from trilith.service.streams.call import StreamServiceCall
from trilith.service.streams.formats import streamed_types
from trilith.service.streams.hosted_stream import HostedStream
from trilith.wire import websocket_calls as wire
from trilith.wire.call_headers import CallHeaders, read_headers
from trilith.wire.http_status import error_body
from trilith.wire.stream_formats import BYTES, JSON
from trilith.wire.websocket import NORMAL

Message = str | bytes
_LONGEST_REASON_BYTES: Final = 123


class MethodSocket:
    """One websocket of one method.

    Args:
        method: which.
        handle: runs its call.
        scope, receive, send: as every ASGI application gets them.

    Attributes:
        opened: whether the handshake was accepted.
    """

    def __init__(self, method: MethodSpec, handle: Handle, scope: Any, receive: Any, send: Any) -> None:
        self._method = method
        self._handle = handle
        self._scope = scope
        self._receive = receive
        self._send = send
        self._takes = method.signature.taken is not None
        self._stream = HostedStream()
        self._gone = False
        self.opened = False

    async def answer(self) -> None:
        """Answers it to its end.

        Raises:
            TrilithError: the handshake is to be refused.
        """
        method, signature = self._method, self._method.signature
        if not signature.streaming:
            raise wire.no_stream(method.where)
        form = wire.item_form(streamed_types(signature.result)) if signature.streams else None
        given = ((bytes(name).lower(), bytes(value)) for name, value in self._scope["headers"])
        headers = read_headers(wire.call_headers(given, form))
        await self._receive()  # `websocket.connect`
        try:
            first: Message | None = b""
            if signature.parameters and not self._takes and not self._scope.get("query_string"):
                first = await self._first()
            if first is not None:
                await self._call(headers, first, form)
        except TrilithError as error:
            await self._fail(error)

    async def _first(self) -> Message | None:
        """The message with the arguments; None: the client has gone."""
        await self._open()
        limit_s = self._method.timeout_s
        try:
            async with asyncio.timeout(limit_s):
                return await self._next()
        except TimeoutError:
            raise DeadlineExceeded(wire.unasked(self._method.where, limit_s)) from None

    async def _call(self, headers: CallHeaders, first: Message, form: str | None) -> None:
        kind = wire.message_type(first) if first else JSON
        meta, context = envelope(self._method, self._scope, headers, kind)
        stream = self._stream
        body = first.encode() if isinstance(first, str) else first
        call = stream.call = StreamServiceCall(meta, [body], context, stream.finished, port=stream)
        ended = when_ended(call)
        self._handle(call)
        await self._open()
        feeding = asyncio.ensure_future(self._feed())
        try:
            while (item := await stream.item()) is not None:
                await self._tell(b"".join(item), text=form != BYTES)
            result, buffers = stream.answer
            if form is None:
                await self._tell(b"".join(buffers), text=wire.is_text(result.content_type))
            await self._close(NORMAL, "")
        finally:
            feeding.cancel()
            stream.cancel()
            await wait_end(call, ended)

    async def _feed(self) -> None:
        """The messages of the client are the items of the call."""
        stream, over = self._stream, not self._takes
        if over:
            stream.end()
        while (message := await self._next()) is not None:
            if over:
                if message != "":
                    stream.fail(InvalidInput(wire.unwanted(self._method.where, takes=self._takes)))
                    return
            elif message == "":
                over = True
                stream.end()
            elif isinstance(message, str):
                await stream.put([message.encode()])
            else:
                await stream.put([message], wire.message_type(message).encode())
        stream.cancel()

    async def _next(self) -> Message | None:
        """The next message; None: the client has closed, or is gone."""
        message = await self._receive()
        if message["type"] != "websocket.receive":
            self._gone = True
            return None
        text = message.get("text")
        found: Message = message["bytes"] if text is None else text
        return found

    async def _open(self) -> None:
        if not self.opened:
            self.opened = True
            await self._send({"type": "websocket.accept", "subprotocol": None, "headers": []})

    async def _tell(self, octets: bytes, *, text: bool) -> None:
        await self._send({"type": "websocket.send", **({"text": octets.decode()} if text else {"bytes": octets})})

    async def _fail(self, error: TrilithError) -> None:
        if not self.opened:
            raise error
        request_id = "" if self._stream.call is None else self._stream.call.context.request_id
        await self._tell(error_body(error, request_id), text=True)
        await self._close(wire.close_code(error), error.message)

    async def _close(self, code: int, reason: str) -> None:
        cut = reason.encode(errors="replace")[:_LONGEST_REASON_BYTES].decode(errors="ignore")
        if not self._gone:
            await self._send({"type": "websocket.close", "code": code, "reason": cut})
